"""From a plans frame to figures: time, error and build time per plan, all in the same order. Pure.

Every figure is None where there is nothing to draw, so that the page can say why instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.frames import BaselineTimes
from app.plan_rows import (
    LOG_FROM,
    connecting_line,
    engine_colours,
    ordered,
    points,
    rows_figure,
    segments,
    shortened,
    value_axis,
)
from engine.records.plan import Status

TIME_TITLES = {
    "hot": "GPU time per execution, hot (µs)",
    "cold": "GPU time per execution, L2 flushed before each (µs)",
    "host": "host time per call (µs)",
}


def timings_figure(
    frame: pd.DataFrame,
    *,
    regime: str = "hot",
    baseline: BaselineTimes | None = None,
    selected: str | None = None,
) -> go.Figure | None:
    """One dot with its spread (10th to 90th percentile) per timed plan, fastest first.

    The fastest plan, the heuristics' first pick and the baseline are marked; ``selected`` is a plan's key.
    """
    rows = _timed(frame, regime)
    if rows.empty:
        return None
    median, low, high = (rows[f"{regime}_{name}_us"].to_numpy() for name in ("median", "p10", "p90"))
    hover = [_time_hover(row, regime, median[0]) for row in rows.to_dict("records")]
    traces = []
    for name, colour, group in _engine_groups(rows):
        at = group.index.to_numpy()
        bars = {"type": "data", "symmetric": False, "array": high[at] - median[at], "arrayminus": median[at] - low[at]}
        error = {"error_x": {**bars, "thickness": 2, "width": 3}}
        marker = {"color": colour, "size": 9}
        traces.append(points(name, group, median[at], [hover[i] for i in at], marker, **error))
    traces += _marks(rows, median, hover)
    limits = [*low, *high]
    if baseline is not None:
        times = getattr(baseline, regime)
        limits += [times.p10_us, times.p90_us]
        traces.append(_baseline_line(f"{baseline.name} {theme.fmt_us(times.median_us)}", times.median_us, len(rows)))
    axis = value_axis(
        TIME_TITLES[regime], min(limits), max(limits), log=max(limits) / max(min(limits), 1e-9) > LOG_FROM
    )
    return rows_figure(rows, traces, axis, [_time_text(row, regime) for row in rows.to_dict("records")], selected)


def accuracy_figure(frame: pd.DataFrame, *, regime: str = "hot", selected: str | None = None) -> go.Figure | None:
    """Largest relative error of each checked plan's worst output, with the tolerance it had to keep.

    Log axis. An exact result stands at the left edge, one without any finite element at the right edge.
    """
    rows = ordered(frame, regime)
    rows = rows[rows["tolerance"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    error, tolerance = rows["max_rel"].to_numpy(dtype=float), rows["tolerance"].to_numpy(dtype=float)
    scale = np.concatenate([error, tolerance])
    scale = scale[np.isfinite(scale) & (scale > 0)]
    low, high = (scale.min() / 3, scale.max() * 3) if scale.size else (1e-8, 1.0)
    shown = np.where(np.isnan(error), high, np.clip(error, low, high))
    hover = [_error_hover(row) for row in rows.to_dict("records")]
    wrong = (rows["status"] == str(Status.WRONG_RESULT)).to_numpy()
    traces = [
        segments(
            "tolerance",
            zip(tolerance, tolerance, strict=True),
            ((i - 0.5, i + 0.5) for i in range(len(rows))),
            line={"color": theme.WRONG_COLOUR, "width": 1.5, "dash": "dot"},
        )
    ]
    for name, colour, group in _engine_groups(rows[~wrong], engine_colours(rows)):
        at = group.index.to_numpy()
        traces.append(points(name, group, shown[at], [hover[i] for i in at], {"color": colour, "size": 9}))
    if wrong.any():
        at = np.flatnonzero(wrong)
        style = theme.STATUS_STYLES[Status.WRONG_RESULT]
        marker = {"color": style.colour, "size": 11, "symbol": style.symbol}
        traces.append(points(style.label, rows[wrong], shown[at], [hover[i] for i in at], marker))
    axis = value_axis("largest relative error against the reference", low, high, log=True)
    return rows_figure(rows, traces, axis, [_error_text(row) for row in rows.to_dict("records")], selected)


def build_figure(frame: pd.DataFrame, *, regime: str = "hot", selected: str | None = None) -> go.Figure | None:
    """Building a plan from its engine and knobs against loading its serialized form, per built plan; log axis."""
    rows = ordered(frame, regime)
    rows = rows[rows["build_ms"].notna() | rows["deserialize_ms"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    build, load = rows["build_ms"].to_numpy(dtype=float), rows["deserialize_ms"].to_numpy(dtype=float)
    both = np.concatenate([build, load])
    positive = both[np.isfinite(both) & (both > 0)]
    low, high = (positive.min(), positive.max()) if positive.size else (1e-3, 1.0)
    build_x, load_x = np.maximum(build, low), np.maximum(load, low)
    hover = [_build_hover(row) for row in rows.to_dict("records")]
    paired = np.flatnonzero(np.isfinite(build) & np.isfinite(load))
    contended = rows["build_contended"].eq(True)
    name = "build, other builders at work" if contended.all() else "build"
    traces = [
        segments(
            "",
            ((load_x[i], build_x[i]) for i in paired),
            ((i, i) for i in paired),
            line=connecting_line(),
            showlegend=False,
        ),
        points(name, rows, build_x, hover, {"color": theme.ENGINE_COLOURS[1], "size": 9}),
        points(
            "load its serialized form",
            rows,
            load_x,
            hover,
            {"color": theme.ENGINE_COLOURS[0], "size": 9, "symbol": "diamond"},
        ),
    ]
    texts = [f"{theme.fmt_ms(b)} / {theme.fmt_ms(d)}" for b, d in zip(build, load, strict=True)]
    return rows_figure(rows, traces, value_axis("time (ms)", low, high, log=True), texts, selected)


def samples_figure(samples: pd.DataFrame, regime: str = "hot") -> go.Figure | None:
    """Every sample of one plan and regime in the order taken (``frames.samples_frame``), with their median."""
    part = samples[samples["regime"] == regime]
    if part.empty:
        return None
    values, order = part["us"].to_numpy(), part["order"].to_numpy()
    median = float(np.median(values))
    dots = {"type": "scatter", "mode": "markers", "x": order, "y": values, "name": "sample"}
    dots |= {"marker": {"color": theme.ENGINE_COLOURS[0], "size": 5, "opacity": 0.75}, "hoverinfo": "text"}
    dots["hovertext"] = [f"sample {i}: {theme.fmt_us(v, 4)}" for i, v in zip(order, values, strict=True)]
    ends = (float(order.min()) - 0.5, float(order.max()) + 0.5)
    line = segments(
        f"median {theme.fmt_us(median)}",
        [ends],
        [(median, median)],
        line={"color": theme.FIRST_PICK_COLOUR, "width": 2, "dash": "dash"},
    )
    layout = {
        "template": {},
        "height": 240,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "sample, in the order taken"}, "automargin": True, "zeroline": False},
        "yaxis": {"title": {"text": TIME_TITLES[regime]}, "automargin": True, "zeroline": False},
    }
    return go.Figure({"data": [dots, line], "layout": layout})


def picked_key(selection: Mapping[str, Any] | None) -> str | None:
    """The plan's key in what ``st.plotly_chart(on_select=...)`` gives back, or None where nothing was picked."""
    marked = ((selection or {}).get("selection") or {}).get("points") or []
    for point in marked:
        key = point.get("customdata")
        if isinstance(key, list | tuple):
            key = key[0] if key else None
        if isinstance(key, str) and key:
            return key
    return None


def timings_summary(frame: pd.DataFrame, *, regime: str = "hot", baseline: BaselineTimes | None = None) -> str:
    """The chart in one sentence, for a caption and for those who cannot see it."""
    rows = _timed(frame, regime)
    if rows.empty:
        return "No plan was timed."
    column = f"{regime}_median_us"
    best = float(rows[column].iloc[0])
    parts = [f"{len(rows)} of {len(frame)} plans timed; fastest {rows['plan_name'].iloc[0]}, {theme.fmt_us(best)}"]
    pick = rows[rows["is_first_pick"]]
    if len(pick):
        time = float(pick[column].iloc[0])
        parts.append(f"heuristics' first pick {theme.fmt_us(time)} ({theme.fmt_ratio(time / best)} the fastest)")
    if baseline is not None:
        time = getattr(baseline, regime).median_us
        parts.append(f"{baseline.name} {theme.fmt_us(time)} ({theme.fmt_ratio(time / best)})")
    return "; ".join(parts) + "."


def _timed(frame: pd.DataFrame, regime: str) -> pd.DataFrame:
    rows = ordered(frame, regime)
    return rows[rows[f"{regime}_median_us"].notna()].reset_index(drop=True)


def _engine_groups(rows: pd.DataFrame, colours: dict[int, str] | None = None) -> list[tuple[str, str, pd.DataFrame]]:
    """Legend name, colour and rows of each engine that has a colour of its own, and of all the others together."""
    colours = colours or engine_colours(rows)
    tint = rows["engine"].map(colours)
    groups = []
    for colour in dict.fromkeys(colours.values()):
        group = rows[tint == colour]
        engines = group["engine"].nunique()
        if engines:
            name = f"engine {group['engine'].iloc[0]}" if engines == 1 else f"{engines} other engines"
            groups.append((name, colour, group))
    return groups


def _marks(rows: pd.DataFrame, x: np.ndarray, hover: list[str]) -> list[dict[str, Any]]:
    """Rings around the fastest plan and the heuristics' first pick, each of its own shape."""
    marks = [("fastest", "star-open", 19, theme.FASTEST_COLOUR, rows.index[:1])]
    picks = rows.index[rows["is_first_pick"]]
    marks.append(("heuristics' first pick", "diamond-open", 17, theme.FIRST_PICK_COLOUR, picks))
    traces = []
    for name, symbol, size, colour, at in marks:
        marker = {"symbol": symbol, "size": size, "color": colour, "line": {"width": 2, "color": colour}}
        traces.append(points(name, rows.loc[at], x[at], [hover[i] for i in at], marker))
    return [trace for trace in traces if len(trace["x"])]


def _baseline_line(name: str, x: float, count: int) -> dict[str, Any]:
    return segments(
        name, [(x, x)], [(-0.6, count - 0.4)], line={"color": theme.TORCH_COLOUR, "width": 2, "dash": "dash"}
    )


def _digits(row: Mapping[str, Any], regime: str) -> int:
    return theme.digits_for(*(row[f"{regime}_{name}_us"] for name in ("median", "p10", "p90")))


def _time_text(row: Mapping[str, Any], regime: str) -> str:
    return theme.fmt_us(row[f"{regime}_median_us"], _digits(row, regime))


def _time_hover(row: Mapping[str, Any], regime: str, fastest_us: float) -> str:
    median, digits = row[f"{regime}_median_us"], _digits(row, regime)
    p10, p90 = (theme.fmt_us(row[f"{regime}_{name}_us"], digits) for name in ("p10", "p90"))
    lines = [
        _heading(row),
        f"{theme.fmt_us(median, digits)} median, {p10} to {p90} (p10 to p90 of {row[f'{regime}_samples']} samples)",
        f"{theme.fmt_ratio(median / fastest_us)} the fastest",
    ]
    if regime != "host" and row["tflops"] == row["tflops"]:
        scale = row["hot_median_us"] / median
        lines.append(f"{theme.fmt_number(row['tflops'] * scale)} TFLOP/s")
        if row["roofline_share"] == row["roofline_share"]:
            share = theme.fmt_percent(row["roofline_share"] * scale)
            lines.append(f"{share} of the roofline ({theme.PUBLIC_SPECIFICATION.label})")
    if row["modes"]:
        lines.append("heuristics rank " + escape(row["modes"], quote=False))
    return "<br>".join(lines)


def _error_text(row: Mapping[str, Any]) -> str:
    return theme.fmt_error(row["max_rel"]) if row["max_rel"] == row["max_rel"] else "no finite value"


def _error_hover(row: Mapping[str, Any]) -> str:
    lines = [
        _heading(row),
        f"largest relative error {_error_text(row)}, tolerance {theme.fmt_error(row['tolerance'])}",
        f"largest absolute error {theme.fmt_error(row['max_abs'])}",
        f"worst output {shortened(row['worst_output'])}",
    ]
    for column, words in (("unwritten", "elements never written"), ("nonfinite", "elements NaN or infinite")):
        if row[column]:
            lines.append(f"{row[column]:,} {words}")
    if row["status"] == Status.WRONG_RESULT:
        lines.append("wrong result: not ranked")
    return "<br>".join(lines)


def _build_hover(row: Mapping[str, Any]) -> str:
    beside = row["build_contended"] is True
    built = f"build {theme.fmt_ms(row['build_ms'])}" + (
        " (other builders at work: slower than alone)" if beside else ""
    )
    lines = [_heading(row), built, f"load {theme.fmt_ms(row['deserialize_ms'])}"]
    if row["build_ms"] > 0 and row["deserialize_ms"] > 0:
        lines.append(f"loading takes 1/{theme.fmt_number(row['build_ms'] / row['deserialize_ms'], 2)} of building")
    return "<br>".join(lines)


def _heading(row: Mapping[str, Any]) -> str:
    return f"<b>{shortened(row['plan_name'], 60)}</b> · engine {row['engine']}"
