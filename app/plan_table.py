"""All plans of a run as a table: whatever the charts show, for the keyboard and for those who want the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from app.frames import Standing
from app.readings import SIGNS
from app.table_view import Cell, Column, Row, Table
from app.theme import NOTHING, STATUS_STYLES, fmt_bytes, fmt_error, fmt_number, fmt_percent, fmt_ratio
from engine.records.plan import Status


@dataclass(frozen=True)
class _Shown:
    """A column of the frame as the table shows it; numbers where ``text`` makes one of a float."""

    column: Column
    text: Callable[[Any], str]


def _number(title: str, meaning: str, text: Callable[[float], str]) -> _Shown:
    return _Shown(Column(title, meaning, number=True), text)


def _digits(value: float) -> str:
    return fmt_number(value, 4)


def _standing(value: str) -> str:
    return f"{SIGNS[Standing(value)]} {value}" if value in SIGNS else value


SHOWN: dict[str, _Shown] = {
    "plan_name": _Shown(Column("plan", "engine and knobs, by the numbers of cuDNN's backend"), str),
    "engine": _number("engine", "means nothing in another cuDNN version", lambda value: f"{value:.0f}"),
    "engine_name": _Shown(Column("engine's name", "where cuDNN reveals it"), str),
    "status": _Shown(Column("outcome"), lambda value: STATUS_STYLES[Status(value)].text),
    "hot_standing": _Shown(Column("hot", "how it stands by hot GPU time, under the constraints"), _standing),
    "hot_median_us": _number("hot (µs)", "median GPU time by CUDA-graph replay", _digits),
    "hot_low_us": _number("from", "lower end of the hot median's 95 % interval, µs", _digits),
    "hot_high_us": _number("to", "upper end of the hot median's 95 % interval, µs", _digits),
    "hot_samples": _number("samples", "hot samples kept", lambda value: f"{value:.0f}"),
    "cold_median_us": _number("cold (µs)", "median GPU time, nothing of its own in the L2 cache", _digits),
    "host_median_us": _number("host (µs)", "median time of the calling thread per call, as called", _digits),
    "host_ready_median_us": _number("host, ready (µs)", "the same with a variant pack made ready before", _digits),
    "end_to_end_median_us": _number("end to end (µs)", "median wall-clock time of a call and waiting for it", _digits),
    "vs_fastest": _number("vs fastest", "hot median over the fastest plan's", fmt_ratio),
    "tflops": _number("TFLOP/s", "at the hot median", fmt_number),
    "roofline_share": _number("roofline", "share of the GPU's public specification", fmt_percent),
    "max_rel": _number("rel. error", "largest relative error against the reference", fmt_error),
    "repeat_differing": _number("differing", "elements that differed over 10 runs on the same data", fmt_number),
    "build_ms": _number("build (ms)", "from engine and knobs, in a builder process", fmt_number),
    "deserialize_ms": _number("load (ms)", "from the serialized form", fmt_number),
    "workspace_bytes": _number("workspace", "", fmt_bytes),
    "blob_bytes": _number("serialized", "size of the serialized form", fmt_bytes),
    "modes": _Shown(Column("mode:rank", "heuristics modes that list it, and at which rank (0 is first)"), str),
    "knobs": _Shown(Column("knobs"), str),
    "behavior_notes": _Shown(Column("behavior notes"), str),
    "message": _Shown(Column("message"), str),
}
"""Columns in this order; the CSV file has every column there is."""


def plan_table(frame: pd.DataFrame) -> Table:
    """The frame's plans in its order; columns that nothing is known of are left out."""
    names = [name for name in SHOWN if _known(frame[name])]
    columns = [[_cell(SHOWN[name], value) for value in frame[name].tolist()] for name in names]
    rows = zip(frame["key"].tolist(), zip(*columns, strict=True), strict=True)
    return Table(
        "All plans, with every number that the charts show",
        tuple(SHOWN[name].column for name in names),
        tuple(Row(key, cells) for key, cells in rows),
    )


def _known(column: pd.Series) -> bool:
    return bool((column != "").any()) if column.dtype == "str" else bool(column.notna().any())


def _cell(shown: _Shown, value: Any) -> Cell:
    if not shown.column.number:
        return Cell(shown.text(value))
    if value is pd.NA or value is None or not math.isfinite(value):
        return Cell(NOTHING)
    return Cell(shown.text(value), float(value))
