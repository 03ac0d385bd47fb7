"""From a comparison to its roofline: every version's rate over its intensity, under what this GPU did at most. Pure.

Heights are exponents of ten, as the chart's upright axis has them. Every number comes from the record, or from the
public specification, which is then named.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

import plotly.graph_objects as go

from app import theme
from app.fusion_figures import FUSED_COLOUR, UNFUSED_COLOUR
from app.plan_rows import LEGEND, log_ticks, segments, value_axis
from app.theme import fmt_bytes, fmt_number, fmt_us
from engine.graph.roofline import SPECIFICATIONS
from engine.records.fusion import FusionRecord, VersionKind
from engine.records.fusion_sentences import best_fused
from engine.records.rates import fastest_gbps, rate_tflops


def roofline_figure(record: FusionRecord) -> go.Figure | None:
    """Rate over intensity, under what this GPU did at most in the same run; an arrow leads from the unfused version to
    the faster fused one."""
    ceilings, fastest = record.ceilings, fastest_gbps(record)
    placed = [(v, v.bytes_moved) for v in record.versions if v.timings and v.bytes_moved]
    if ceilings is None or fastest is None or not placed:
        return None
    flops = record.graph.flops()
    spots = {v.kind: (flops / moved, rate_tflops(v, record.graph) or 0.0) for v, moved in placed}
    ridge = ceilings.matmul_tflops * 1e3 / fastest.gbps
    low = min(min(x for x, _ in spots.values()), ridge) / 3
    high = max(max(x for x, _ in spots.values()), ridge) * 3
    seen = f"fastest in this run ({escape(fastest.by, quote=False)}, matmul)"
    traces = [_roof(seen, low, high, fastest.gbps, ceilings.matmul_tflops, theme.INTERVAL_COLOUR, 2.5)]
    gpu = record.environment.gpu.name if record.environment.gpu else ""
    if (spec := SPECIFICATIONS.get(gpu)) is not None:
        rate = spec.tflops(record.graph.io_dtype)
        traces.append(
            _roof("public specification", low, high, spec.bandwidth_gbps, rate, theme.INTERVAL_COLOUR, 1.0, "dot")
        )
    best = best_fused(record)
    if best is not None and not record.single and {VersionKind.UNFUSED, best.kind} <= spots.keys():
        traces.append(_arrow("fusing", spots[VersionKind.UNFUSED], spots[best.kind]))
    for kind, (x, y) in spots.items():
        traces.append(_spot(kind, x, y, record))
    rates = [y for _, y in spots.values()]
    top = max(ceilings.matmul_tflops, *rates, *([spec.tflops(record.graph.io_dtype)] if spec else [])) * 1.6
    bottom = min(*rates, fastest.gbps * low * 1e-3) / 1.6
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


def _arrow(name: str, start: tuple[float, float], end: tuple[float, float]) -> dict[str, Any]:
    (x1, y1), (x2, y2) = start, end
    head = {"symbol": "arrow", "angleref": "previous", "size": [0, 17, 0], "standoff": 7, "color": FUSED_COLOUR}
    head |= {"opacity": 1, "line": {"width": 0}}  # Of dots of several sizes plotly makes bubbles: see-through.
    line = {"color": FUSED_COLOUR, "width": 1.75}
    ends = [(math.log10(y1), math.log10(y2))]
    return segments(name, [(x1, x2)], ends, line=line, marker=head) | {"mode": "lines+markers"}


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
