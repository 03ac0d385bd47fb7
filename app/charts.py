"""From a plans frame to figures: time, error and build time per plan, all in the same order. Pure.

Every figure is None where there is nothing to draw, so that the page can say why instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.frames import Standing
from app.plan_rows import (
    LOG_FROM,
    TOP,
    Row,
    connecting_line,
    engine_groups,
    finite,
    near_axis,
    points,
    rows_figure,
    rows_with,
    segments,
    value_axis,
)
from app.readings import build_hover, build_text, error_hover, error_text, time_hover, time_text
from app.sampled import REGIME_TITLES, BaselineTimes
from engine.records.plan import Status
from engine.records.timings import Regime

CAP = 0.3
"""Half the height of an interval's ends, in rows: they stand out above and below any dot."""
CLOSE_UP = 1.1
"""Times the best: the part of a list that a close-up shows."""


def timings_figure(
    frame: pd.DataFrame,
    *,
    regime: str = "hot",
    baseline: BaselineTimes | None = None,
    selected: str | None = None,
    close: bool = False,
) -> go.Figure | None:
    """One dot per timed plan, fastest first, with its samples' spread (10th to 90th percentile) and, between two
    upright ends, its median's 95 % interval.

    ``regime``: one of REGIMES. The winner, what ties with it, the heuristics' first pick and the baseline are marked;
    plans that were only screened, or do not meet the constraints, are drawn hollow. ``selected`` is a plan's key.
    ``close``: only what is near the best, on an axis that begins there.
    """
    rows = rows_with(frame, regime, f"{regime}_median_us")
    if close and rows:
        limit = CLOSE_UP * _best_us(rows, regime)
        rows = [row for row in rows if row[f"{regime}_median_us"] <= limit]
    if not rows:
        return None
    median, low, high = ([row[f"{regime}_{name}_us"] for row in rows] for name in ("median", "p10", "p90"))
    hover = [time_hover(row, regime, _best_us(rows, regime)) for row in rows]
    standing = [row[f"{regime}_standing"] for row in rows]
    full = [i for i, stands in enumerate(standing) if stands not in _HOLLOW]
    traces = []
    for name, colour, at in engine_groups(rows, full):
        bars = {"array": [high[i] - median[i] for i in at], "arrayminus": [median[i] - low[i] for i in at]}
        error_x = {"type": "data", "symmetric": False, "thickness": 2, "width": 3, **bars}
        traces.append(points(name, rows, at, median, hover, {"color": colour, "size": 9}, error_x=error_x))
    for kind, (name, symbol) in _HOLLOW.items():
        if at := [i for i, stands in enumerate(standing) if stands == kind]:
            marker = {"symbol": symbol, "size": 8, "color": theme.OTHER_COLOUR}
            traces.append(points(name, rows, at, median, hover, marker))
    limits = [*low, *high]
    traces += [*_intervals(rows, regime), *_marks(rows, regime, median, hover)]
    times = baseline.regimes.get(regime) if baseline else None
    if baseline and times and (not close or times.median_us <= max(limits)):
        limits += [times.p10_us, times.p90_us]
        label = f"{baseline.name} {theme.fmt_us(times.median_us)}"
        traces.append(_upright(label, times.median_us, len(rows), theme.TORCH_COLOUR))
    title = REGIME_TITLES[Regime(regime)]
    if close:
        axis = near_axis(title, min(limits), max(limits))
    else:
        axis = value_axis(title, min(limits), max(limits), log=max(limits) > LOG_FROM * min(limits))
    return rows_figure(rows, traces, axis, [time_text(row, regime) for row in rows], selected)


def accuracy_figure(frame: pd.DataFrame, *, regime: str = "hot", selected: str | None = None) -> go.Figure | None:
    """Largest relative error of each checked plan's worst output, with the tolerance it had to keep.

    Log axis. An exact result stands at the left edge, one without any finite element at the right edge. ``regime``
    gives the order of the rows.
    """
    rows = rows_with(frame, regime, "tolerance")
    if not rows:
        return None
    error, tolerance = np.array([row["max_rel"] for row in rows], float), [row["tolerance"] for row in rows]
    scale = finite([*error, *tolerance]) or [1e-8, 1.0]
    low, high = min(scale) / 3, max(scale) * 3
    shown = np.where(np.isnan(error), high, np.clip(error, low, high)).tolist()
    hover = [error_hover(row) for row in rows]
    wrong = [i for i, row in enumerate(rows) if row["status"] == Status.WRONG_RESULT]
    line = {"color": theme.WRONG_COLOUR, "width": 1.5, "dash": "dot"}
    steps = [(i - 0.5, i + 0.5) for i in range(len(rows))]
    traces = [segments("tolerance", zip(tolerance, tolerance, strict=True), steps, line=line)]
    for name, colour, at in engine_groups(rows, (i for i in range(len(rows)) if i not in wrong)):
        traces.append(points(name, rows, at, shown, hover, {"color": colour, "size": 9}))
    if wrong:
        style = theme.STATUS_STYLES[Status.WRONG_RESULT]
        marker = {"color": style.colour, "size": 11, "symbol": style.symbol}
        traces.append(points(style.label, rows, wrong, shown, hover, marker))
    axis = value_axis("largest relative error against the reference", low, high, log=True, powers=True)
    return rows_figure(rows, traces, axis, [error_text(row) for row in rows], selected)


def build_figure(frame: pd.DataFrame, *, regime: str = "hot", selected: str | None = None) -> go.Figure | None:
    """Building a plan from its engine and knobs against loading its serialized form, per built plan; log axis."""
    rows = rows_with(frame, regime, "build_ms", "deserialize_ms")
    if not rows:
        return None
    build, load = [row["build_ms"] for row in rows], [row["deserialize_ms"] for row in rows]
    scale = finite([*build, *load]) or [1e-3, 1.0]
    low, high = min(scale), max(scale)
    build_x, load_x = np.maximum(build, low).tolist(), np.maximum(load, low).tolist()
    hover = [build_hover(row) for row in rows]
    paired = [i for i in range(len(rows)) if np.isfinite(build[i]) and np.isfinite(load[i])]
    joins = segments(
        "",
        [(load_x[i], build_x[i]) for i in paired],
        [(i, i) for i in paired],
        line=connecting_line(),
        showlegend=False,
    )
    contended = all(row["build_contended"] is True for row in rows)
    traces = [joins]
    for name, x, colour, symbol in (
        ("load its serialized form", load_x, theme.ENGINE_COLOURS[0], "diamond"),
        ("build, other builders at work" if contended else "build", build_x, theme.ENGINE_COLOURS[1], "circle"),
    ):
        at = [i for i in range(len(rows)) if np.isfinite(x[i])]
        traces.append(points(name, rows, at, x, hover, {"color": colour, "size": 9, "symbol": symbol}))
    axis = value_axis("time (ms)", low, high, log=True)
    return rows_figure(rows, traces, axis, [build_text(row) for row in rows], selected)


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


_HOLLOW = {
    Standing.SCREENED: ("far from the best: a few samples only", "circle-open"),
    Standing.EXCLUDED: ("does not meet the constraints", "triangle-up-open"),
}


def _best_us(rows: Sequence[Row], regime: str) -> float:
    """The smallest median of the tie set; of all where there is none."""
    tied = [row for row in rows if row[f"{regime}_standing"] in (Standing.WINNER, Standing.TIED)]
    return float((tied or rows)[0][f"{regime}_median_us"])


def _intervals(rows: Sequence[Row], regime: str) -> list[dict[str, Any]]:
    """The medians' 95 % intervals: a line between two upright ends."""
    xs, ys = [], []
    for i, row in enumerate(rows):
        low, high = row[f"{regime}_low_us"], row[f"{regime}_high_us"]
        if not low < high:  # unknown, or of samples that are all alike
            continue
        low, high = round(low, 5), round(high, 5)
        xs += [(low, low), (low, high), (high, high)]
        ys += [(i - CAP, i + CAP), (i, i), (i - CAP, i + CAP)]
    line = {"color": theme.INTERVAL_COLOUR, "width": 1.5}
    return [segments("95 % interval of the median", xs, ys, line=line, legendrank=2)] if xs else []


def _marks(rows: Sequence[Row], regime: str, x: Sequence[float], hover: Sequence[str]) -> list[dict[str, Any]]:
    """Rings around the winner, what ties with it and the heuristics' first pick, each of its own shape."""
    standing = [row[f"{regime}_standing"] for row in rows]
    traces = []
    for name, symbol, size, colour, at in (
        ("winner", "star-open", 19, theme.FASTEST_COLOUR, _where(standing, Standing.WINNER)),
        ("ties with the best", "square-open", 17, theme.FASTEST_COLOUR, _where(standing, Standing.TIED)),
        (
            "heuristics' first pick",
            "diamond-open",
            17,
            theme.FIRST_PICK_COLOUR,
            [i for i, row in enumerate(rows) if row["is_first_pick"]],
        ),
    ):
        marker = {"symbol": symbol, "size": size, "color": colour, "line": {"width": 2, "color": colour}}
        if at:
            traces.append(points(name, rows, at, x, hover, marker, legendrank=1))
    return traces


def _where(standing: Sequence[str], wanted: Standing) -> list[int]:
    return [i for i, stands in enumerate(standing) if stands == wanted]


def _upright(name: str, x: float, count: int, colour: str) -> dict[str, Any]:
    """A line over all rows."""
    line = {"color": colour, "width": 2, "dash": "dash"}
    return segments(name, [(x, x)], [(TOP, count - 0.4)], line=line, legendrank=1)
