"""Records as tables: what charts draw, what the page lists and what a CSV file holds is one DataFrame. Pure.

One row per plan. A missing number is NaN or <NA>, never zero, and every unit stands in its column's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.graph.roofline import roofline
from engine.graph.spec import GraphSpec
from engine.records.passport import OutputAccuracy
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord, first_pick, timed
from engine.records.samples import Samples
from engine.records.timings import Timings

REGIMES = ("hot", "cold", "host")
MODES = ("A", "B", "FALLBACK")

COLUMNS: dict[str, str] = {
    "plan_name": "str",
    "key": "str",
    "engine": "Int64",
    "knobs": "str",
    "status": "str",
    "stage": "str",
    "message": "str",
    "modes": "str",
    "rank_a": "Int64",
    "rank_b": "Int64",
    "rank_fallback": "Int64",
    **{
        f"{regime}_{figure}": "Int64" if figure == "samples" else "float64"
        for regime in REGIMES
        for figure in ("median_us", "p10_us", "p90_us", "min_us", "max_us", "samples")
    },
    "tflops": "float64",
    "roofline_share": "float64",
    "vs_fastest": "float64",
    "worst_output": "str",
    "max_abs": "float64",
    "max_rel": "float64",
    "tolerance": "float64",
    "unwritten": "Int64",
    "nonfinite": "Int64",
    "build_ms": "float64",
    "build_contended": "boolean",
    "deserialize_ms": "float64",
    "workspace_bytes": "Int64",
    "blob_bytes": "Int64",
    "blob_sha256": "str",
    "behavior_notes": "str",
    "numerical_notes": "str",
    "is_first_pick": "bool",
    "is_best": "bool",
}
"""Columns and their types. ``rank_*``: 0 is a mode's first pick. ``tflops``, ``roofline_share`` (of the GPU's public
specification) and ``vs_fastest`` go by the hot median. Accuracy is the worst output's, counts are over all outputs."""

_LAST = (
    Status.WRONG_RESULT,
    Status.LISTED,
    Status.EXEC_FAILED,
    Status.TIMEOUT,
    Status.CRASHED,
    Status.BUILD_FAILED,
    Status.UNSUPPORTED,
    Status.CANCELLED,
)


def plans_frame(
    source: RunRecord | Iterable[PlanRecord],
    *,
    graph: GraphSpec | None = None,
    gpu_name: str | None = None,
    modes: Sequence[str] = MODES,
) -> pd.DataFrame:
    """One row per plan, fastest hot median first, then the untimed ones by outcome and by the heuristics' rank.

    A run brings its own graph, GPU and modes. For bare plans, ``graph`` gives TFLOP/s and ``gpu_name`` (as the driver
    spells it) the share of the roofline; both columns stay empty without.
    """
    if isinstance(source, RunRecord):
        gpu = source.environment.gpu
        graph, modes, plans = source.graph, source.options.modes, source.plans
        gpu_name = gpu.name if gpu else source.target.gpu_name
    else:
        plans = tuple(source)
    ranked, pick = timed(plans), first_pick(plans, modes)
    fast = {plan.key for plan in ranked}
    rest = sorted((p for p in plans if p.key not in fast), key=lambda p: (_outcome(p), _rank(p, modes)))
    flops = graph.flops() if graph else None
    ceiling = roofline(graph, gpu_name) if graph and gpu_name else None
    rows = [_row(plan) for plan in (*ranked, *rest)]
    best_us = rows[0]["hot_median_us"] if ranked else None
    for row in rows:
        hot = row.get("hot_median_us")
        row["is_first_pick"] = pick is not None and row["key"] == pick.key
        row["is_best"] = bool(ranked) and row["key"] == ranked[0].key
        if hot is not None:
            row["vs_fastest"] = hot / best_us
            row["tflops"] = flops / hot * 1e-6 if flops else None
            row["roofline_share"] = ceiling.floor_us / hot if ceiling else None
    return _typed(rows)


def _outcome(plan: PlanRecord) -> int:
    return _LAST.index(plan.status) if plan.status in _LAST else 0


def _rank(plan: PlanRecord, modes: Sequence[str]) -> tuple[float, ...]:
    return tuple(float(plan.modes.get(mode, np.inf)) for mode in modes)


def _row(plan: PlanRecord) -> dict[str, Any]:
    worst = worst_output(plan.accuracy)
    return {
        "plan_name": plan.plan_name,
        "key": plan.key,
        "engine": plan.identity.engine_id,
        "knobs": ", ".join(f"{name}={value}" for name, value in sorted(plan.identity.knobs.items())),
        "status": str(plan.status),
        "stage": str(plan.stage),
        "message": plan.message or "",
        "modes": ", ".join(f"{mode}:{rank}" for mode, rank in plan.modes.items()),
        "rank_a": plan.modes.get("A"),
        "rank_b": plan.modes.get("B"),
        "rank_fallback": plan.modes.get("FALLBACK"),
        **(_timings(plan.timings) if plan.timings else {}),
        "worst_output": worst.name if worst else "",
        "max_abs": worst.max_abs if worst else None,
        "max_rel": worst.max_rel if worst else None,
        "tolerance": worst.tolerance if worst else None,
        "unwritten": sum(a.unwritten for a in plan.accuracy) if plan.accuracy else None,
        "nonfinite": sum(a.nonfinite for a in plan.accuracy) if plan.accuracy else None,
        "build_ms": plan.build_ms,
        "build_contended": plan.build_contended,
        "deserialize_ms": plan.deserialize_ms,
        "workspace_bytes": plan.workspace_bytes,
        "blob_bytes": plan.blob_bytes,
        "blob_sha256": plan.blob_sha256 or "",
        "behavior_notes": ", ".join(plan.behavior_notes),
        "numerical_notes": ", ".join(plan.numerical_notes),
    }


def worst_output(accuracy: Iterable[OutputAccuracy]) -> OutputAccuracy | None:
    """The output furthest beyond (or least within) its tolerance; one without any finite element is worse than all."""

    def excess(output: OutputAccuracy) -> tuple[bool, float]:
        share = np.inf if output.max_rel is None else output.max_rel / max(output.tolerance, 1e-300)
        return (not output.passed, share)

    return max(accuracy, key=excess, default=None)


@dataclass(frozen=True)
class Spread:
    """Median and spread of one regime's samples, microseconds per execution."""

    median_us: float
    p10_us: float
    p90_us: float
    min_us: float
    max_us: float
    samples: int


def spread(samples: Samples) -> Spread:
    """Quantiles of samples in float64, linearly interpolated. Sorted once: np.quantile takes ten times as long."""
    values = np.sort(samples.values.astype(np.float64))
    places = np.array((0.0, 0.1, 0.5, 0.9, 1.0)) * (values.size - 1)
    low, p10, median, p90, high = np.interp(places, np.arange(values.size), values).tolist()
    return Spread(median, p10, p90, low, high, samples.count)


def _timings(timings: Timings) -> dict[str, Any]:
    return {
        f"{regime}_{name}": value
        for regime in REGIMES
        if (samples := getattr(timings, regime)) is not None
        for name, value in vars(spread(samples)).items()
    }


@dataclass(frozen=True)
class BaselineTimes:
    """torch eager (or another baseline) on the same data, by regime."""

    name: str
    hot: Spread
    cold: Spread | None
    host: Spread | None


def baseline_times(run: RunRecord) -> BaselineTimes | None:
    """The run's baseline, or None where there is none or it could not be timed."""
    baseline = run.baseline
    if baseline is None or baseline.timings is None:
        return None
    timings = baseline.timings
    cold, host = (spread(samples) if samples else None for samples in (timings.cold, timings.host))
    return BaselineTimes(baseline.name, spread(timings.hot), cold, host)


def samples_frame(timings: Timings) -> pd.DataFrame:
    """Every raw sample of one plan: ``regime``, ``order`` (0 first taken) and ``us`` per execution."""
    parts = []
    for regime in REGIMES:
        samples = getattr(timings, regime)
        if samples is None:
            continue
        values = samples.values.astype(np.float64)
        parts.append(pd.DataFrame({"regime": regime, "order": np.arange(values.size), "us": values}))
    return pd.concat(parts, ignore_index=True)


def frame_csv(frame: pd.DataFrame) -> bytes:
    """The table as CSV (RFC 4180, UTF-8): numbers in full precision, missing ones empty.

    Names and messages may come from a stranger's run file, so a text that a spreadsheet would take for a formula gets
    an apostrophe in front (OWASP, CSV injection).
    """
    safe = frame.copy()
    for column in safe.columns:
        if safe[column].dtype in (object, "str"):
            safe[column] = [_inert(value) if isinstance(value, str) else value for value in safe[column]]
    safe.columns = pd.Index([_inert(str(column)) for column in safe.columns])
    return str(safe.to_csv(index=False, lineterminator="\r\n")).encode()


def _inert(text: str) -> str:
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


def _typed(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Columns of the promised types, also where there is no row at all."""
    columns = {}
    for name, dtype in COLUMNS.items():
        values = [row.get(name) for row in rows]
        if dtype == "float64":
            values = [np.nan if value is None else value for value in values]
        columns[name] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(columns)
