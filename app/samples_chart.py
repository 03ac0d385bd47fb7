"""The raw samples of one plan in one regime, drawn in the order they were taken: drift, outliers and what the GPU did
meanwhile are seen, where a median hides them. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.plan_rows import LEGEND, segments

HELD = "clocks held down"


def samples_figure(samples: pd.DataFrame, regime: str = "hot") -> go.Figure | None:
    """Every sample of a regime (``sampled.samples_frame``) with their median; those taken while something held the
    clocks down stand out. None where there are none."""
    part = samples[samples["regime"] == regime]
    if part.empty:
        return None
    values, order = part["us"].to_numpy(), part["order"].to_numpy()
    median, ends = float(np.median(values)), (float(order.min()) - 0.5, float(order.max()) + 0.5)
    held = part["held"].to_numpy(bool)
    traces = [_dots("sample", part[~held], theme.ENGINE_COLOURS[0])] if not held.all() else []
    traces += [_dots(f"sample, {HELD}", part[held], theme.ENGINE_COLOURS[1])] if held.any() else []
    line = {"color": theme.FIRST_PICK_COLOUR, "width": 2, "dash": "dash"}
    layout = {
        "template": {},
        "height": 240,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hovermode": "closest",
        "legend": LEGEND,
        "xaxis": {"title": {"text": "sample, in the order taken"}, "automargin": True, "zeroline": False},
        "yaxis": {"title": {"text": "µs"}, "automargin": True, "zeroline": False},
    }
    middle = segments(f"median {theme.fmt_us(median)}", [ends], [(median, median)], line=line)
    return go.Figure({"data": [*traces, middle], "layout": layout})


def _dots(name: str, part: pd.DataFrame, colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": part["order"].to_numpy(),
        "y": part["us"].to_numpy(),
        "marker": {"color": colour, "size": 5, "opacity": 0.75},
        "hovertext": [
            "<br>".join(filter(None, (f"sample {order}: {theme.fmt_us(us, 4)}", state)))
            for order, us, state in zip(part["order"], part["us"], part["state"], strict=True)
        ],
        "hoverinfo": "text",
    }
