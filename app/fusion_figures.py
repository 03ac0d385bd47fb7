"""From a comparison to figures: the waterfall from eager to tuned, and the growing epilogue. Pure.

Every figure is None where there is nothing to draw, so that the page can say why instead. Every number comes from the
record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from app import theme
from app.plan_rows import connecting_line, points, rows_figure, segments, value_axis
from app.theme import fmt_bytes, fmt_ratio, fmt_us
from engine.records.attribution import Cause, Step, steps
from engine.records.fusion import FusionRecord, GrowthRecord, Version, VersionKind

CAUSE_COLOURS = {
    Cause.LIBRARY: theme.ENGINE_COLOURS[3],
    Cause.LAUNCHES: theme.ENGINE_COLOURS[1],
    Cause.TRAFFIC: theme.ENGINE_COLOURS[0],
    Cause.KERNELS: theme.FIRST_PICK_COLOUR,
    Cause.ENGINE: theme.ENGINE_COLOURS[2],
    Cause.TUNING: theme.FASTEST_COLOUR,
}
BAR = 15
"""Thickness of a bar, in pixels."""
NOTHING_US = 0.05
UNFUSED_COLOUR, FUSED_COLOUR = theme.ENGINE_COLOURS[1], theme.ENGINE_COLOURS[0]


def waterfall_figure(record: FusionRecord) -> go.Figure | None:
    """Hot time from torch eager to the tuned plan: a bar per step, as long as what it saves, or costs."""
    found = steps(record)
    if not found:
        return None
    first, last = found[0].before_us, found[-1].after_us
    start, end = end_names(record)
    rows = [
        {"key": "start", "plan_name": start},
        *({"key": f"step{i}", "plan_name": _step_name(step)} for i, step in enumerate(found)),
        {"key": "end", "plan_name": end},
    ]
    readings = [fmt_us(first), *(_step_text(step) for step in found), f"{fmt_us(last)}  {fmt_ratio(first / last)}"]
    hover = [f"{start}: {fmt_us(first)}", *map(_step_hover, found), f"in the end: {fmt_us(last)}"]
    ends = [(0.0, first), *((step.after_us, step.before_us) for step in found), (0.0, last)]
    traces = [_bars("measured version", [ends[0], ends[-1]], [0, len(rows) - 1], theme.OTHER_COLOUR)]
    for cause, colour in CAUSE_COLOURS.items():
        at = [i for i, step in enumerate(found, 1) if step.cause is cause]
        if at:
            traces.append(_bars(cause.value, [ends[i] for i in at], at, colour))
    middles = [(low + high) / 2 for low, high in ends]
    marker = {"color": "rgba(0, 0, 0, 0)", "size": 1}
    traces.append(points("", rows, range(len(rows)), middles, hover, marker, showlegend=False))
    best = _best_torch(record)
    if best is not None and best.timings is not None:
        label = f"{best.kind.words} {fmt_us(best.timings.hot.median_us)}"
        at_us, line = best.timings.hot.median_us, {"color": theme.TORCH_COLOUR, "width": 2, "dash": "dash"}
        traces.append(segments(label, [(at_us, at_us)], [(-0.5, len(rows) - 0.5)], line=line))
    largest = max(max(pair) for pair in ends)
    return rows_figure(rows, traces, value_axis("GPU time, hot (µs)", 0, largest, log=False), readings, None)


def growth_figure(record: FusionRecord) -> go.Figure | None:
    """Hot time of the first operation, of the first two, and so on, fused (the faster of first pick and tuned) and
    unfused. A stage that was not measured keeps its row."""
    stages = record.growth
    fused, unfused = [fused_us(stage) for stage in stages], [unfused_us(stage) for stage in stages]
    known = [value for value in (*fused, *unfused) if value is not None]
    if not known:
        return None
    rows = [
        {"key": stage.graph_id, "plan_name": stage.added if i == 0 else f"+ {stage.added}"}
        for i, stage in enumerate(stages)
    ]
    hover = [_growth_hover(stages, i, fused, unfused) for i in range(len(stages))]
    both = [i for i in range(len(rows)) if fused[i] is not None and unfused[i] is not None]
    traces = [
        segments(
            "",
            [(fused[i] or 0.0, unfused[i] or 0.0) for i in both],
            [(i, i) for i in both],
            line=connecting_line(),
            showlegend=False,
        )
    ]
    for name, values, colour, symbol in (
        ("fused", fused, FUSED_COLOUR, "circle"),
        ("unfused", unfused, UNFUSED_COLOUR, "square"),
    ):
        at = [i for i in range(len(rows)) if values[i] is not None]
        traces.append(
            points(name, rows, at, [v or 0.0 for v in values], hover, {"color": colour, "size": 11, "symbol": symbol})
        )
    readings = [added(fused, i) + " / " + added(unfused, i) for i in range(len(rows))]
    axis = value_axis("GPU time, hot (µs)", 0, max(known), log=False)
    return rows_figure(rows, traces, axis, readings, None)


def _bars(name: str, ends: Sequence[tuple[float, float]], at: Sequence[int], colour: str) -> dict[str, Any]:
    return segments(name, ends, [(i, i) for i in at], line={"color": colour, "width": BAR})


def _step_name(step: Step) -> str:
    words = [step.cause.value if step.saved_us >= 0 else f"{step.cause.value}: a loss"]
    return ", ".join([*words, *(["estimated"] if step.estimate else [])])


def end_names(record: FusionRecord) -> tuple[str, str]:
    """The versions that the steps lead from and to; to no fused one where none was measured."""
    found, eager = steps(record), record.timed(VersionKind.EAGER)
    at_eager = bool(found) and eager is not None and eager.hot.median_us == found[0].before_us
    start = VersionKind.EAGER.words if at_eager else VersionKind.UNFUSED.words
    if found and found[-1].cause is Cause.LIBRARY:
        return start, "cuDNN" if record.single else VersionKind.UNFUSED.words
    tuned = (found and found[-1].cause is Cause.TUNING) or record.timed(VersionKind.FIRST_PICK) is None
    return start, VersionKind.TUNED.words if tuned else "cuDNN fused"


def _step_text(step: Step) -> str:
    sign = "−" if step.saved_us >= 0 else "+"
    return f"{sign}{fmt_us(abs(step.saved_us))}  {fmt_ratio(step.factor)}"


def _step_hover(step: Step) -> str:
    how = f"<br>an estimate: {escape(step.estimate, quote=False)}" if step.estimate else ""
    times = f"{fmt_us(step.before_us)} to {fmt_us(step.after_us)}"
    return f"<b>{step.cause.value}</b><br>{times}<br>{escape(step.detail, quote=False)}{how}"


def _best_torch(record: FusionRecord) -> Version | None:
    rivals = [v for v in record.versions if v.timings and v.kind.is_torch and v.kind is not VersionKind.EAGER]
    return min(rivals, key=lambda v: v.timings.hot.median_us if v.timings else math.inf, default=None)


def fused_us(stage: GrowthRecord) -> float | None:
    """Of the faster of the two fused versions, as in the sentences."""
    fused = [stage.version(kind) for kind in (VersionKind.TUNED, VersionKind.FIRST_PICK)]
    return min((v.timings.hot.median_us for v in fused if v is not None and v.timings), default=None)


def unfused_us(stage: GrowthRecord) -> float | None:
    """Of cuDNN unfused."""
    version = stage.version(VersionKind.UNFUSED)
    return version.timings.hot.median_us if version and version.timings else None


def added(values: Sequence[float | None], i: int) -> str:
    """What a stage adds to the one before it; of the first, all of it."""
    value = values[i]
    if value is None:
        return theme.NOTHING
    if not i:
        return fmt_us(value)
    if (before := values[i - 1]) is None:
        return theme.NOTHING  # What it adds to what was not measured is not known.
    if abs(value - before) < NOTHING_US:
        return "±0"
    return f"{'+' if value >= before else '−'}{fmt_us(abs(value - before), 2)}"


def _growth_hover(
    stages: Sequence[GrowthRecord], i: int, fused: Sequence[float | None], unfused: Sequence[float | None]
) -> str:
    stage = stages[i]
    return (
        f"<b>up to {escape(stage.added, quote=False)}</b>"
        f"<br>fused {fmt_us(fused[i])}, {fmt_bytes(stage.fused_bytes)} must move"
        f"<br>unfused {fmt_us(unfused[i])}, {fmt_bytes(stage.unfused_bytes)} must move"
    )
