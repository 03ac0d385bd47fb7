"""From a comparison to figures: the waterfall from eager to tuned, the growing epilogue, the roofline. Pure.

Every figure is None where there is nothing to draw, so that the page can say why instead. Every number comes from the
record, or from the public specification, which is then named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app import theme
from app.plan_rows import LEGEND, connecting_line, log_ticks, points, rows_figure, segments, value_axis
from app.theme import fmt_bytes, fmt_number, fmt_ratio, fmt_us
from engine.graph.roofline import SPECIFICATIONS
from engine.records.attribution import Cause, Step, steps
from engine.records.fusion import FusionRecord, GrowthRecord, Version, VersionKind
from engine.records.rates import rate_tflops

CAUSE_COLOURS = {
    Cause.LIBRARY: theme.ENGINE_COLOURS[3],
    Cause.LAUNCHES: theme.ENGINE_COLOURS[1],
    Cause.TRAFFIC: theme.ENGINE_COLOURS[0],
    Cause.ENGINE: theme.ENGINE_COLOURS[2],
    Cause.TUNING: theme.FASTEST_COLOUR,
}
BAR = 15
"""Thickness of a bar, in pixels."""
UNFUSED_COLOUR, FUSED_COLOUR = theme.ENGINE_COLOURS[1], theme.ENGINE_COLOURS[0]


def waterfall_figure(record: FusionRecord) -> go.Figure | None:
    """Hot time from torch eager to the tuned plan: a bar per step, as long as what it saves, or costs."""
    found = steps(record)
    if not found:
        return None
    first, last = found[0].before_us, found[-1].after_us
    eager = record.timed(VersionKind.EAGER)
    start = VersionKind.EAGER.words if eager and eager.hot.median_us == first else VersionKind.UNFUSED.words
    rows = [
        {"key": "start", "plan_name": start},
        *({"key": f"step{i}", "plan_name": _step_name(step)} for i, step in enumerate(found)),
        {"key": "end", "plan_name": "cuDNN fused" + (", tuned" if found[-1].cause is Cause.TUNING else "")},
    ]
    readings = [fmt_us(first), *(_step_text(step) for step in found), fmt_us(last)]
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
    """Hot time of the first operation, of the first two, and so on, fused and unfused."""
    stages = [stage for stage in record.growth if any(version.timings for version in stage.versions)]
    if not stages:
        return None
    rows = [
        {"key": stage.graph_id, "plan_name": stage.added if i == 0 else f"+ {stage.added}"}
        for i, stage in enumerate(stages)
    ]
    fused, unfused = [_fused_us(stage) for stage in stages], [_unfused_us(stage) for stage in stages]
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
        ("fused, tuned", fused, FUSED_COLOUR, "circle"),
        ("unfused", unfused, UNFUSED_COLOUR, "square"),
    ):
        at = [i for i in range(len(rows)) if values[i] is not None]
        traces.append(
            points(name, rows, at, [v or 0.0 for v in values], hover, {"color": colour, "size": 11, "symbol": symbol})
        )
    readings = [_added(fused, i) + " / " + _added(unfused, i) for i in range(len(rows))]
    known = [value for value in (*fused, *unfused) if value is not None]
    axis = value_axis(
        "GPU time, hot (µs); at the right what the operation adds, fused / unfused", 0, max(known), log=False
    )
    return rows_figure(rows, traces, axis, readings, None)


def roofline_figure(record: FusionRecord) -> go.Figure | None:
    """Rate over intensity, with this GPU's measured ceilings; the unfused and the fused version joined by an arrow."""
    ceilings = record.ceilings
    placed = [(v, v.bytes_moved) for v in record.versions if v.timings and v.bytes_moved]
    if ceilings is None or not placed:
        return None
    flops = record.graph.flops()
    spots = {v.kind: (flops / moved, rate_tflops(v, record.graph) or 0.0) for v, moved in placed}
    ridge = ceilings.matmul_tflops * 1e3 / ceilings.copy_gbps
    low = min(min(x for x, _ in spots.values()), ridge) / 3
    high = max(max(x for x, _ in spots.values()), ridge) * 3
    traces = [_roof("measured here", low, high, ceilings.copy_gbps, ceilings.matmul_tflops, theme.INTERVAL_COLOUR, 2.5)]
    gpu = record.environment.gpu.name if record.environment.gpu else ""
    if (spec := SPECIFICATIONS.get(gpu)) is not None:
        rate = spec.tflops(record.graph.io_dtype)
        traces.append(
            _roof("public specification", low, high, spec.bandwidth_gbps, rate, theme.INTERVAL_COLOUR, 1.0, "dot")
        )
    start, end = VersionKind.UNFUSED, _best_fused_kind(record)
    if start in spots and end in spots:
        line = {"color": FUSED_COLOUR, "width": 1.5, "dash": "dash"}
        (x1, y1), (x2, y2) = spots[start], spots[end]
        traces.append(segments("fusing", [(x1, x2)], [(math.log10(y1), math.log10(y2))], line=line))
    for kind, (x, y) in spots.items():
        traces.append(_spot(kind, x, y, record))
    rates = [y for _, y in spots.values()]
    top = max(ceilings.matmul_tflops, *rates, *([spec.tflops(record.graph.io_dtype)] if spec else [])) * 1.6
    bottom = min(*rates, ceilings.copy_gbps * low * 1e-3) / 1.6
    ticks = log_ticks(bottom, top)
    layout = {
        "template": {},
        "height": 460,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hovermode": "closest",
        "legend": LEGEND,
        "xaxis": value_axis("FLOP per byte that must move", low, high, log=True),
        "yaxis": {
            "title": {"text": "TFLOP/s, hot"},
            "range": [math.log10(bottom), math.log10(top)],
            "tickmode": "array",
            "tickvals": [math.log10(value) for value in ticks],
            "ticktext": [fmt_number(value, 1) for value in ticks],
            "automargin": True,
            "zeroline": False,
        },
    }
    return go.Figure({"data": traces, "layout": layout})


def _roof(
    name: str, low: float, high: float, gbps: float, tflops: float, colour: str, width: float, dash: str = "solid"
) -> dict[str, Any]:
    """Two straight lines on logarithmic axes; heights are exponents of ten, as the axis has them."""
    ridge = tflops * 1e3 / gbps
    flat, start = math.log10(tflops), math.log10(gbps * low * 1e-3)
    label = f"{name}: {fmt_number(gbps)} GB/s, {fmt_number(tflops)} TFLOP/s"
    line = {"color": colour, "width": width, "dash": dash}
    return segments(label, [(low, ridge), (ridge, high)], [(start, flat), (flat, flat)], line=line)


def _spot(kind: VersionKind, x: float, y: float, record: FusionRecord) -> dict[str, Any]:
    version = record.version(kind)
    assert version is not None and version.timings is not None
    fused = kind in (VersionKind.FIRST_PICK, VersionKind.TUNED)
    colour = theme.TORCH_COLOUR if kind.is_torch else FUSED_COLOUR if fused else UNFUSED_COLOUR
    symbols = [k for k in VersionKind if k.is_torch]
    symbol = ("circle", "diamond", "triangle-up", "square", "star", "x", "circle-open")[
        symbols.index(kind) % 7 if kind.is_torch else (0 if kind is VersionKind.TUNED else 1)
    ]
    hover = (
        f"<b>{kind.words}</b><br>{fmt_us(version.timings.hot.median_us)}, {fmt_number(y)} TFLOP/s"
        f"<br>{fmt_bytes(version.bytes_moved)} must move, {fmt_number(x)} FLOP per byte"
    )
    return {
        "type": "scatter",
        "mode": "markers",
        "name": kind.words,
        "x": [x],
        "y": [math.log10(y)],
        "hovertext": [hover],
        "hoverinfo": "text",
        "marker": {"color": colour, "size": 12, "symbol": symbol},
    }


def _bars(name: str, ends: Sequence[tuple[float, float]], at: Sequence[int], colour: str) -> dict[str, Any]:
    return segments(name, ends, [(i, i) for i in at], line={"color": colour, "width": BAR})


def _step_name(step: Step) -> str:
    return step.cause.value if step.saved_us >= 0 else f"{step.cause.value}: a loss"


def _step_text(step: Step) -> str:
    sign = "−" if step.saved_us >= 0 else "+"
    return f"{sign}{fmt_us(abs(step.saved_us))}  {fmt_ratio(step.factor)}"


def _step_hover(step: Step) -> str:
    how = "<br>the share of launches is an estimate" if step.estimated else ""
    return f"<b>{step.cause.value}</b><br>{fmt_us(step.before_us)} to {fmt_us(step.after_us)}<br>{step.detail}{how}"


def _best_torch(record: FusionRecord) -> Version | None:
    rivals = [v for v in record.versions if v.timings and v.kind.is_torch and v.kind is not VersionKind.EAGER]
    return min(rivals, key=lambda v: v.timings.hot.median_us if v.timings else math.inf, default=None)


def _best_fused_kind(record: FusionRecord) -> VersionKind:
    return VersionKind.TUNED if record.timed(VersionKind.TUNED) else VersionKind.FIRST_PICK


def _fused_us(stage: GrowthRecord) -> float | None:
    for kind in (VersionKind.TUNED, VersionKind.FIRST_PICK):
        version = stage.version(kind)
        if version is not None and version.timings is not None:
            return version.timings.hot.median_us
    return None


def _unfused_us(stage: GrowthRecord) -> float | None:
    version = stage.version(VersionKind.UNFUSED)
    return version.timings.hot.median_us if version and version.timings else None


def _added(values: Sequence[float | None], i: int) -> str:
    value = values[i]
    if value is None:
        return theme.NOTHING
    before = values[i - 1] if i else None
    if before is None:
        return fmt_us(value)
    return f"{'+' if value >= before else '−'}{fmt_us(abs(value - before), 2)}"


def _growth_hover(
    stages: Sequence[GrowthRecord], i: int, fused: Sequence[float | None], unfused: Sequence[float | None]
) -> str:
    stage = stages[i]
    return (
        f"<b>up to {stage.added}</b><br>fused {fmt_us(fused[i])}, {fmt_bytes(stage.fused_bytes)} must move"
        f"<br>unfused {fmt_us(unfused[i])}, {fmt_bytes(stage.unfused_bytes)} must move"
    )
