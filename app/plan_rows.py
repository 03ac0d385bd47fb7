"""What every chart of plans shares: one row per plan, named at the left and read off at the right, in one order.

Figures are built as plain dictionaries and validated by plotly once, which takes a third of the time that adding traces
one by one does. No colour of text or background is set: Streamlit's theme brings both, in light and in dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from app.theme import ENGINE_COLOURS, LINE_COLOUR, OTHER_COLOUR, SELECTED_FILL, fmt_number

Row = dict[str, Any]
ROW_PX = 20
LABEL_LENGTH = 42
"""Real plan names have up to 40 characters, and their middle is where they differ."""
LOG_FROM = 8.0
"""A time axis turns logarithmic when its largest value is this many times its smallest."""
LOG_REACH = (1e-30, 1e30)
"""A run file may claim any number: one beyond these is drawn at an end of a log axis, or off it."""
LEGEND = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom"}
TOP = -0.85
"""Where the rows begin, on the axis whose row 0 is the first: room for the ring around its dot."""
_UNDRAWN = frozenset({"knobs", "stage", "message", "blob_sha256", "behavior_notes", "numerical_notes"})


def ordered(frame: pd.DataFrame, regime: str = "hot") -> pd.DataFrame:
    """The frame with its rows by this regime's median, fastest first; untimed rows keep their order at the end."""
    return frame.sort_values(f"{regime}_median_us", kind="stable", na_position="last", ignore_index=True)


def rows_with(frame: pd.DataFrame, regime: str, *needed: str) -> list[Row]:
    """The ordered rows that have any of the needed values, as dictionaries: far cheaper to walk than a frame."""
    columns = [c for c in frame.columns if c not in _UNDRAWN]
    known = frame[list(needed)].notna().any(axis=1).tolist()
    values = zip(*(frame[column].tolist() for column in columns), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row, kept in zip(values, known, strict=True) if kept]
    median = f"{regime}_median_us"
    return sorted(rows, key=lambda row: math.inf if math.isnan(row[median]) else row[median])


def engine_groups(rows: Sequence[Row], at: Iterable[int]) -> list[tuple[str, str, list[int]]]:
    """Legend name, colour and row numbers (out of ``at``) of each engine; from the eighth on they share a grey.

    Colours go by the engines' order in all ``rows``, so that leaving some rows out changes none.
    """
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    groups: dict[int, list[int]] = {}
    for i in at:
        groups.setdefault(min(engines.index(rows[i]["engine"]), len(ENGINE_COLOURS)), []).append(i)
    named = []
    for number, members in sorted(groups.items()):
        inside = dict.fromkeys(rows[i]["engine"] for i in members)
        name = _engine_words(rows, next(iter(inside))) if len(inside) == 1 else f"{len(inside)} other engines"
        named.append((name, (*ENGINE_COLOURS, OTHER_COLOUR)[number], members))
    return named


def _engine_words(rows: Sequence[Row], engine: int) -> str:
    """The engine's id, and what cuDNN calls it where that is one thing for all its plans (their tiles differ)."""
    kinds = {row["engine_name"].partition(" ")[0] for row in rows if row["engine"] == engine} - {""}
    kind = kinds.pop() if len(kinds) == 1 else ""
    # A legend takes markup for what it is, and names come from run files: only a plain word is shown.
    return f"engine {engine} ({kind})" if re.fullmatch(r"\w{1,40}", kind, re.ASCII) else f"engine {engine}"


def shortened(text: str, length: int = LABEL_LENGTH) -> str:
    """The text, its middle left out where it is too long, safe inside plotly's markup."""
    if len(text) > length:
        text = text[: length // 2] + "…" + text[-(length - length // 2 - 1) :]
    return escape(text, quote=False)


def points(
    name: str,
    rows: Sequence[Row],
    at: Sequence[int],
    x: Sequence[float],
    hover: Sequence[str],
    marker: dict[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """A trace of a dot in each of the rows ``at``; ``x`` and ``hover`` are those of all rows. A click on a dot gives
    back the plan's key."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [x[i] for i in at],
        "y": list(at),
        "customdata": [rows[i]["key"] for i in at],
        "hovertext": [hover[i] for i in at],
        "hoverinfo": "text",
        "marker": marker,
        # A click picks the plan in the page's state; dimming all other dots meanwhile would only flicker.
        "unselected": {"marker": {"opacity": 1}},
        **more,
    }


def segments(name: str, xs: Iterable[tuple[float, float]], ys: Iterable[tuple[float, float]], **more: Any) -> Any:
    """A trace of separate straight lines, which a pointer passes through."""
    x = [value for pair in xs for value in (*pair, None)]
    y = [value for pair in ys for value in (*pair, None)]
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "hoverinfo": "skip", **more}


def rows_figure(
    rows: Sequence[Row],
    traces: list[dict[str, Any]],
    xaxis: dict[str, Any],
    readings: Sequence[str],
    selected: str | None,
) -> go.Figure:
    """A figure of these traces over one line per row: plan names left, ``readings`` right, the selected row shaded."""
    count = len(rows)
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(count)),
        "range": [count - 0.4, TOP],
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
    }
    band = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "layer": "below", "line": {"width": 0}}
    chosen = [i for i, row in enumerate(rows) if row["key"] == selected]
    layout = {
        "template": {},
        "height": ROW_PX * max(count, 4) + 130,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "legend": LEGEND,
        "xaxis": {"automargin": True, "zeroline": False, **xaxis},
        "yaxis": {
            **ticks,
            "ticktext": [shortened(row["plan_name"]) for row in rows],
            "tickfont": {"size": 11 if any(len(row["plan_name"]) > 20 for row in rows) else 12},
            "gridcolor": "rgba(133, 139, 153, 0.18)",
        },
        "yaxis2": {**ticks, "ticktext": list(readings), "overlaying": "y", "side": "right", "showgrid": False},
        "shapes": [{**band, "y0": i - 0.5, "y1": i + 0.5, "fillcolor": SELECTED_FILL} for i in chosen],
    }
    # An axis without a trace is not drawn: this one carries the readings and nothing else.
    carrier = {"type": "scatter", "x": [None], "y": [None], "yaxis": "y2", "showlegend": False, "hoverinfo": "skip"}
    return go.Figure({"data": [*traces, carrier], "layout": layout})


def connecting_line(width: float = 2) -> dict[str, Any]:
    """Style of a line that joins dots of one row."""
    return {"color": LINE_COLOUR, "width": width}


def value_axis(title: str, low: float, high: float, *, log: bool, powers: bool = False) -> dict[str, Any]:
    """An x axis over ``low`` to ``high`` (positive): logarithmic, or linear from zero so that lengths compare.

    ``powers``: numbers written as powers of ten, where only their order matters.
    """
    if not log:
        return {"title": {"text": title}, "range": [0, high * 1.06], "nticks": 8}
    room = max(1.25, (high / low) ** 0.04)
    low, high = low / room, high * room
    values = log_ticks(low, high)
    return {
        "title": {"text": title},
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickmode": "array",
        "tickvals": values,
        "ticktext": [fmt_number(v, 1) if not powers and 1e-4 < v < 1e7 else _power(v) for v in values],
    }


def near_axis(title: str, low: float, high: float) -> dict[str, Any]:
    """A linear x axis that does not begin at zero, and says so."""
    room = max(high - low, low * 0.002) * 0.08
    return {
        "title": {"text": f"{title}; the axis does not begin at 0"},
        "range": [low - room, high + room],
        "nticks": 6,
    }


def _power(value: float) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    return f"{round(value / 10.0**exponent)}e{exponent}"


def log_ticks(low: float, high: float) -> list[float]:
    """Round values within a range: powers of ten, or 1-2-5 steps where it spans less than two and a half decades."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < 2.5 else (1,)
    every = max(1, math.ceil(decades / 8))
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [step * 10.0**e for e in exponents if e % every == 0 for step in steps]
    return [v for v in values if low <= v <= high]


def finite(values: Iterable[Any]) -> list[float]:
    """The ones among the values that a log axis is laid out by."""
    return [float(v) for v in values if v is not None and LOG_REACH[0] <= v <= LOG_REACH[1]]
