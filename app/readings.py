"""What a row of a chart says in words: the reading at its right, the text under a pointer, the chart in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from app import theme
from app.frames import Standing
from app.plan_rows import Row, rows_with, shortened
from app.sampled import BaselineTimes
from engine.records.intervals import SPANNING
from engine.records.plan import Status
from engine.records.wording import microseconds, several, span

SIGNS = {Standing.WINNER: "★", Standing.TIED: "=", Standing.EXCLUDED: "▵", Standing.SCREENED: "○"}
_STANDS = {
    Standing.WINNER: "★ the winner",
    Standing.TIED: "= ties with the best",
    Standing.EXCLUDED: "▵ does not meet the constraints",
    Standing.SCREENED: "○ beyond any doubt far from the best: got no more samples than that took",
}


def time_text(row: Row, regime: str) -> str:
    """How it stands, and the median with as many digits as its interval (else its spread) supports."""
    sign = SIGNS.get(row[f"{regime}_standing"], "")
    return f"{sign} {_time(row, regime)}".lstrip()


def time_hover(row: Row, regime: str, best_us: float) -> str:
    """Standing, time, interval, spread, distance from the best, TFLOP/s and share of the roofline (GPU time only),
    rank."""
    median = row[f"{regime}_median_us"]
    low, high, p10, p90 = (row[f"{regime}_{name}_us"] for name in ("low", "high", "p10", "p90"))
    lines = [_heading(row)]
    if stands := _STANDS.get(row[f"{regime}_standing"]):
        lines.append(stands)
    lines.append(f"{_time(row, regime)} median of {several(int(row[f'{regime}_samples']), 'sample')}")
    if low < high:
        lines.append(f"95 % interval of the median {span(low, high)}")
    if row[f"{regime}_samples"] >= SPANNING:
        lines.append(f"p10 to p90 {span(p10, p90)}")
    lines.append(f"{theme.fmt_ratio(median / best_us)} the time of the best")
    if regime in ("hot", "cold") and _known(row["tflops"]):
        scale = row["hot_median_us"] / median
        lines.append(f"{theme.fmt_number(row['tflops'] * scale)} TFLOP/s")
        if _known(row["roofline_share"]):
            share = theme.fmt_percent(row["roofline_share"] * scale)
            lines.append(f"{share} of the roofline ({theme.PUBLIC_SPECIFICATION.label})")
    if row["modes"]:
        lines.append("rank by heuristics mode: " + escape(row["modes"], quote=False))
    else:
        lines.append(f"no heuristics mode lists it: {row['origin']}")
    return "<br>".join(lines)


def _time(row: Row, regime: str) -> str:
    median, low, high = (row[f"{regime}_{name}_us"] for name in ("median", "low", "high"))
    if low < high:
        return microseconds(median, (high - low) / 2)
    return theme.fmt_us(median, _digits(row, regime))


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
    tied = [row for row in rows if row[f"{regime}_standing"] in (Standing.WINNER, Standing.TIED)]
    best_row = (tied or rows)[0]
    best = best_row[column]
    if len(tied) > 1:
        winner = next(row for row in tied if row[f"{regime}_standing"] == Standing.WINNER)
        leads = f"{len(tied)} tie at {span(best, tied[-1][column])}, {winner['plan_name']} is chosen among them"
    else:
        leads = f"fastest {best_row['plan_name']}, {_time(best_row, regime)}"
    parts = [f"{len(rows)} of {len(frame)} plans timed; {leads}"]
    for row in rows:
        if row["is_first_pick"]:
            ratio = theme.fmt_ratio(row[column] / best)
            parts.append(f"heuristics' first pick {_time(row, regime)} ({ratio} the time of the best)")
    if baseline is not None and (times := baseline.regimes.get(regime)) is not None:
        time = times.median_us
        parts.append(f"{baseline.name} {theme.fmt_us(time)} ({theme.fmt_ratio(time / best)} the time of the best)")
    if screened := sum(row[f"{regime}_standing"] == Standing.SCREENED for row in rows):
        parts.append(f"{screened} far from the best, with a few samples only")
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
    named = f" ({shortened(row['engine_name'])})" if row["engine_name"] else ""
    return f"<b>{shortened(row['plan_name'], 60)}</b> · engine {row['engine']}{named}"
