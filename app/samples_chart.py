"""The raw samples of one plan in one regime, drawn in the order they were taken: drift, outliers and what the GPU did
meanwhile are seen, where a median hides them. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.plan_rows import LEGEND, segments
from app.table_view import Cell, Column, Row, Table

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


def samples_table(samples: pd.DataFrame, regime: str = "hot") -> Table:
    """What the chart shows of a regime, sample by sample."""
    part = samples[samples["regime"] == regime]
    stated = bool(part["state"].any())
    columns = (Column("sample", "in the order taken", number=True), Column("µs", "per execution", number=True))
    rows = []
    for order, us, state in zip(part["order"].tolist(), part["us"].tolist(), part["state"], strict=True):
        cells = (Cell(str(order), order), Cell(theme.fmt_number(us, 4), us))
        rows.append(Row(str(order), (*cells, Cell(state or theme.NOTHING)) if stated else cells))
    return Table("Samples", (*columns, Column("GPU meanwhile")) if stated else columns, tuple(rows))


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
