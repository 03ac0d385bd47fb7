"""A figure of dots drawn as inline SVG, whose rows are picked by click or keyboard.

Figures are plotly's, but plotly's own library in the browser is 4.7 MB of script: on two cores it takes longer to start
than the whole page may. What these figures use of it (dots, bars, straight lines, linear and logarithmic axes) is
little, so it is drawn here, with what plotly lacks: rows that Tab, arrow keys and a screen reader can reach.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "planscope.chart",
    html='<div class="root"><div class="legend"></div><div class="plot"></div><p></p>'
    '<div class="tip" hidden></div></div>',
    css=(_HERE / "chart_view.css").read_text(encoding="utf-8"),
    js=(_HERE / "chart_view.js").read_text(encoding="utf-8"),
)


def prepared(figure: go.Figure, label: str) -> str:
    """What ``render_chart`` sends, ready to be kept: as JSON, for Streamlit would look into every list of it, each
    time. ``label``: the figure in a sentence, below it and for those who cannot see it."""
    return json.dumps({**drawing(figure), "label": label}, separators=(",", ":"), allow_nan=False)


def render_chart(chart: str, *, key: str, selected: str = "", on_pick: Callable[[str], None] | None = None) -> None:
    """Draw what ``prepared`` made of a figure.

    A click, Enter or Space on a row calls ``on_pick`` with the row's key (the dots' ``customdata``) before the script,
    or the fragment, runs again; ``selected`` is the key of the row that is picked now.
    """

    def picked() -> None:
        state = st.session_state.get(key) or {}
        if on_pick is not None and isinstance(value := state.get("picked"), str):
            on_pick(value)

    now = {"selected": selected, "pickable": on_pick is not None}
    _component(data=[chart, now], key=key, on_picked_change=picked)


def drawing(figure: go.Figure) -> dict[str, Any]:
    """What the browser needs of a figure. Limits of a logarithmic axis are exponents of ten, as plotly has them."""
    plain = figure.to_plotly_json()
    layout = plain["layout"]
    traces = [_trace(trace) for trace in plain["data"]]
    traces = [trace for trace in traces if any(x is not None for x in trace["x"])]
    rows: dict[str, dict[str, Any]] = {}
    for trace in traces:
        for y, row_key, lines in zip(trace["y"], trace["keys"], trace["hover"], strict=True):
            if row_key:
                rows.setdefault(row_key, {"y": y, "key": row_key, "spoken": "; ".join(lines)})
    return {
        "height": layout["height"],
        "x": _axis(layout["xaxis"]),
        "y": _axis(layout["yaxis"]),
        "right": list(layout.get("yaxis2", {}).get("ticktext", ())),
        "rows": sorted(rows.values(), key=lambda row: row["y"]),
        "traces": traces,
    }


def _axis(axis: dict[str, Any]) -> dict[str, Any]:
    ticks = zip(axis.get("tickvals", ()), map(_plain, axis.get("ticktext", ())), strict=True)
    return {
        "title": axis.get("title", {}).get("text", ""),
        "log": axis.get("type") == "log",
        "range": list(axis["range"]) if "range" in axis else None,
        "ticks": [list(tick) for tick in ticks],
    }


def _trace(trace: dict[str, Any]) -> dict[str, Any]:
    marker, line, bars = trace.get("marker", {}), trace.get("line", {}), trace.get("error_x", {})
    x = _numbers(trace["x"])
    return {
        "name": trace.get("name", ""),
        "legend": bool(trace.get("showlegend", True) and trace.get("name")),
        "rank": trace.get("legendrank", 1000),
        "lines": str(trace.get("mode", "")).startswith("lines"),
        "arrow": marker.get("symbol") == "arrow",
        "x": x,
        "y": _numbers(trace["y"]),
        "plus": _numbers(bars.get("array", ())),
        "minus": _numbers(bars.get("arrayminus", ())),
        "keys": list(trace.get("customdata", ())) or [""] * len(x),
        "hover": [_plain(text).split("\n") for text in trace.get("hovertext", ())] or [[]] * len(x),
        "colour": marker.get("color") or line.get("color") or "currentColor",
        "size": marker.get("size", 6),
        "symbol": marker.get("symbol", "circle"),
        "opacity": marker.get("opacity", 1),
        "width": line.get("width", 1.5),
        "dash": line.get("dash", "solid"),
    }


def _numbers(values: Any) -> list[float | None]:
    if isinstance(values, dict):  # how plotly writes a numpy array
        values = np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).tolist()
    return [None if value is None or not math.isfinite(value) else float(value) for value in values]


def _plain(text: str) -> str:
    """Plotly's small markup as the text it stands for."""
    return html.unescape(re.sub(r"</?b>", "", str(text)).replace("<br>", "\n"))
