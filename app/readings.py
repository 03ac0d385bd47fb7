"""What a row of a chart says in words: the reading at its right, the text under a pointer, the chart in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from app import theme
from app.frames import BaselineTimes
from app.plan_rows import Row, rows_with, shortened
from engine.records.plan import Status


def time_text(row: Row, regime: str) -> str:
    """The median, with as many digits as the spread supports."""
    return theme.fmt_us(row[f"{regime}_median_us"], _digits(row, regime))


def time_hover(row: Row, regime: str, fastest_us: float) -> str:
    """Time, spread, distance from the fastest, TFLOP/s and share of the roofline (GPU time only), rank."""
    median, digits = row[f"{regime}_median_us"], _digits(row, regime)
    p10, p90 = (theme.fmt_us(row[f"{regime}_{name}_us"], digits) for name in ("p10", "p90"))
    lines = [
        _heading(row),
        f"{theme.fmt_us(median, digits)} median of {row[f'{regime}_samples']} samples, p10 {p10}, p90 {p90}",
        f"{theme.fmt_ratio(median / fastest_us)} the time of the fastest",
    ]
    if regime != "host" and _known(row["tflops"]):
        scale = row["hot_median_us"] / median
        lines.append(f"{theme.fmt_number(row['tflops'] * scale)} TFLOP/s")
        if _known(row["roofline_share"]):
            share = theme.fmt_percent(row["roofline_share"] * scale)
            lines.append(f"{share} of the roofline ({theme.PUBLIC_SPECIFICATION.label})")
    if row["modes"]:
        lines.append("rank by heuristics mode: " + escape(row["modes"], quote=False))
    return "<br>".join(lines)


def error_text(row: Row) -> str:
    """The largest relative error."""
    return theme.fmt_error(row["max_rel"]) if _known(row["max_rel"]) else "no finite value"


def error_hover(row: Row) -> str:
    """Errors, tolerance, and what was not written or not finite."""
    lines = [
        _heading(row),
        f"largest relative error {error_text(row)}, tolerance {theme.fmt_error(row['tolerance'])}",
        f"largest absolute error {theme.fmt_error(row['max_abs'])}",
        f"worst output {shortened(row['worst_output'])}",
    ]
    for column, words in (("unwritten", "elements never written"), ("nonfinite", "elements NaN or infinite")):
        if row[column]:
            lines.append(f"{row[column]:,} {words}")
    if row["status"] == Status.WRONG_RESULT:
        lines.append("wrong result: not ranked")
    return "<br>".join(lines)


def build_text(row: Row) -> str:
    """Build and load time."""
    return f"{theme.fmt_ms(row['build_ms'])} / {theme.fmt_ms(row['deserialize_ms'])}"


def build_hover(row: Row) -> str:
    """Build and load time, how they compare, and whether other builders slowed the build."""
    beside = row["build_contended"] is True
    note = " (other builders at work: slower than alone)" if beside else ""
    build, load = row["build_ms"], row["deserialize_ms"]
    lines = [_heading(row), f"build {theme.fmt_ms(build)}{note}", f"load {theme.fmt_ms(load)}"]
    if build > 0 and load > 0:
        lines.append(f"building takes {theme.fmt_number(build / load, 2)} times as long as loading")
    return "<br>".join(lines)


def timings_summary(frame: pd.DataFrame, *, regime: str = "hot", baseline: BaselineTimes | None = None) -> str:
    """The timings chart in a sentence, for a caption and for those who cannot see it."""
    column = f"{regime}_median_us"
    rows = rows_with(frame, regime, column)
    if not rows:
        return "No plan was timed."
    best = rows[0][column]
    parts = [f"{len(rows)} of {len(frame)} plans timed; fastest {rows[0]['plan_name']}, {time_text(rows[0], regime)}"]
    for row in rows:
        if row["is_first_pick"]:
            ratio = theme.fmt_ratio(row[column] / best)
            parts.append(f"heuristics' first pick {time_text(row, regime)} ({ratio} the time of the fastest)")
    if baseline is not None:
        time = getattr(baseline, regime).median_us
        parts.append(f"{baseline.name} {theme.fmt_us(time)} ({theme.fmt_ratio(time / best)})")
    return "; ".join(parts) + "."


def accuracy_summary(frame: pd.DataFrame) -> str:
    """The accuracy chart in a sentence."""
    rows = rows_with(frame, "hot", "tolerance")
    if not rows:
        return "No plan was checked against the reference."
    wrong = sum(row["status"] == Status.WRONG_RESULT for row in rows)
    errors = [row["max_rel"] for row in rows if _known(row["max_rel"])]
    span = f"largest relative errors {_span(errors, theme.fmt_error)}; " if errors else ""
    return f"{len(rows)} of {len(frame)} plans checked; {span}{wrong or 'none'} wrong."


def build_summary(frame: pd.DataFrame) -> str:
    """The build chart in a sentence."""
    built, loaded = (frame[name].dropna().tolist() for name in ("build_ms", "deserialize_ms"))
    if not built and not loaded:
        return "No plan was built."
    parts = [f"{len(built)} of {len(frame)} plans built"]
    parts += [f"build {_span(built, theme.fmt_ms)}"] if built else []
    parts += [f"load {_span(loaded, theme.fmt_ms)}"] if loaded else []
    return "; ".join(parts) + "."


def _span(values: Sequence[float], fmt: Any) -> str:
    low, high = fmt(min(values)), fmt(max(values))
    return str(low) if low == high else f"{low} to {high}"


def _known(value: Any) -> bool:
    return value is not None and not math.isnan(value)


def _digits(row: Mapping[str, Any], regime: str) -> int:
    return theme.digits_for(*(row[f"{regime}_{name}_us"] for name in ("median", "p10", "p90")))


def _heading(row: Row) -> str:
    return f"<b>{shortened(row['plan_name'], 60)}</b> · engine {row['engine']}"
