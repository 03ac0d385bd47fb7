"""Records as tables: what charts draw, what the page lists and what a CSV file holds is one DataFrame. Pure.

One row per plan. A missing number is NaN or <NA>, never zero, and every unit stands in its column's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from app.sampled import REGIMES, spreads
from engine.graph.roofline import roofline
from engine.graph.spec import GraphSpec
from engine.plans.names import engine_label
from engine.records.intervals import SPANNING
from engine.records.passport import OutputAccuracy
from engine.records.plan import PlanRecord, Status
from engine.records.regimes import verdicts
from engine.records.run import RunRecord, first_pick, timed
from engine.records.timings import Regime, Timings
from engine.records.verdict import Verdict

MODES = ("A", "B", "FALLBACK")


class Standing(StrEnum):
    """How a measured plan stands in a regime: the winner; tied with the best; behind; left behind after a few samples
    in screening; or measured, but not as the constraints demand."""

    WINNER = "winner"
    TIED = "ties"
    BEHIND = "behind"
    SCREENED = "screened"
    EXCLUDED = "excluded"


COLUMNS: dict[str, str] = {
    "plan_name": "str",
    "key": "str",
    "engine": "Int64",
    "engine_name": "str",
    "origin": "str",
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
        for figure in ("median_us", "low_us", "high_us", "p10_us", "p90_us", "min_us", "max_us", "samples")
    },
    **{f"{regime}_standing": "str" for regime in REGIMES},
    "screened": "bool",
    "set_aside": "Int64",
    "tflops": "float64",
    "roofline_share": "float64",
    "vs_fastest": "float64",
    "worst_output": "str",
    "max_abs": "float64",
    "max_rel": "float64",
    "rel_norm": "float64",
    "max_ulp": "float64",
    "tolerance": "float64",
    "unwritten": "Int64",
    "nonfinite": "Int64",
    "repeat_runs": "Int64",
    "repeat_differing": "Int64",
    "capturable": "boolean",
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
"""Columns and their types. ``*_low_us``, ``*_high_us``: the median's 95 % interval, unknown of too few samples for
one; ``*_standing``: a Standing, "" of a plan not measured. ``rank_*``: 0 is a mode's first pick. ``tflops``,
``roofline_share`` (of the GPU's public specification) and ``vs_fastest`` go by the hot median. Accuracy is the worst
output's, counts are over all outputs."""

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
    judged: Mapping[Regime, Verdict] | None = None,
) -> pd.DataFrame:
    """One row per plan, fastest hot median first, then the untimed ones by outcome and by the heuristics' rank.

    A run brings its own graph, GPU and modes. For bare plans, ``graph`` gives TFLOP/s and ``gpu_name`` (as the driver
    spells it) the share of the roofline; both columns stay empty without. ``judged``: the verdicts that say how plans
    stand; a run is judged by its own constraints where none are given.
    """
    if isinstance(source, RunRecord):
        gpu = source.environment.gpu
        graph, modes, plans = source.graph, source.options.modes, source.plans
        gpu_name = gpu.name if gpu else source.target.gpu_name
        judged = verdicts(source) if judged is None else judged
    else:
        plans = tuple(source)
    ranked, pick = timed(plans), first_pick(plans, modes)
    fast = {plan.key for plan in ranked}
    rest = sorted((p for p in plans if p.key not in fast), key=lambda p: (_outcome(p), _rank(p, modes)))
    flops = graph.flops() if graph else None
    ceiling = roofline(graph, gpu_name) if graph and gpu_name else None
    rows = [_row(plan, judged or {}) for plan in (*ranked, *rest)]
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


def _row(plan: PlanRecord, judged: Mapping[Regime, Verdict]) -> dict[str, Any]:
    worst, timings = worst_output(plan.accuracy), plan.timings
    return {
        "plan_name": plan.plan_name,
        "key": plan.key,
        "engine": plan.identity.engine_id,
        "engine_name": engine_label(plan) or "",
        "origin": str(plan.origin),
        "knobs": ", ".join(f"{name}={value}" for name, value in sorted(plan.identity.knobs.items())),
        "status": str(plan.status),
        "stage": str(plan.stage),
        "message": plan.message or "",
        "modes": ", ".join(f"{mode}:{rank}" for mode, rank in plan.modes.items()),
        "rank_a": plan.modes.get("A"),
        "rank_b": plan.modes.get("B"),
        "rank_fallback": plan.modes.get("FALLBACK"),
        **(_timings(timings) if timings else {}),
        **_standings(plan, judged),
        "screened": timings is not None and timings.stopped == "screened",
        "set_aside": timings.set_aside if timings else None,
        "worst_output": worst.name if worst else "",
        "max_abs": worst.max_abs if worst else None,
        "max_rel": worst.max_rel if worst else None,
        "rel_norm": worst.rel_norm if worst else None,
        "max_ulp": worst.max_ulp if worst else None,
        "tolerance": worst.tolerance if worst else None,
        "unwritten": sum(a.unwritten for a in plan.accuracy) if plan.accuracy else None,
        "nonfinite": sum(a.nonfinite for a in plan.accuracy) if plan.accuracy else None,
        "repeat_runs": plan.repeats.runs if plan.repeats else None,
        "repeat_differing": plan.repeats.differing if plan.repeats else None,
        "capturable": plan.capturable,
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


def _timings(timings: Timings) -> dict[str, Any]:
    return {f"{regime}_{name}": value for regime, one in spreads(timings).items() for name, value in vars(one).items()}


def _standings(plan: PlanRecord, judged: Mapping[Regime, Verdict]) -> dict[str, Any]:
    """The median's interval and how the plan stands, by regime."""
    found: dict[str, Any] = {f"{regime}_standing": "" for regime in REGIMES}
    for regime, verdict in judged.items():
        if interval := verdict.intervals.get(plan.key):
            if interval.samples >= SPANNING:
                found[f"{regime}_low_us"], found[f"{regime}_high_us"] = interval.low, interval.high
            found[f"{regime}_standing"] = str(_standing(plan, verdict))
    return found


def _standing(plan: PlanRecord, verdict: Verdict) -> Standing:
    if plan.key in verdict.tie_set:
        return Standing.WINNER if plan.key == verdict.winner else Standing.TIED
    if not verdict.constraints.admit(plan):
        return Standing.EXCLUDED
    screened = plan.timings is not None and plan.timings.stopped == "screened"
    return Standing.SCREENED if screened else Standing.BEHIND


def frame_csv(frame: pd.DataFrame) -> bytes:
    """The table as CSV (RFC 4180, UTF-8): numbers in full precision, missing ones empty.

    Names and messages may come from a stranger's run file, so a text that a spreadsheet would take for a formula gets
    an apostrophe in front (OWASP, CSV injection).
    """
    safe = frame.copy()
    for column in safe.columns:
        if safe[column].dtype in (object, "str"):
            safe[column] = [_inert(text) if isinstance(text, str) else text for text in safe[column]]
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
