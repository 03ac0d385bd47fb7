"""A sortable table in plain HTML whose rows are radio buttons: the keyboard's way to whatever a chart shows.

Streamlit's own table is a canvas with 1.2 MB of script behind it, which the Explore page has no time for, and a screen
reader sees little of it. This one is a few dozen rows of real cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "planscope.table",
    html='<div class="root"><div class="scroll" tabindex="0" role="region"><table></table></div></div>',
    css=(_HERE / "table_view.css").read_text(encoding="utf-8"),
    js=(_HERE / "table_view.js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True)
class Column:
    """A heading, what it means (shown under the pointer), and whether its cells are numbers."""

    title: str
    meaning: str = ""
    number: bool = False


@dataclass(frozen=True)
class Cell:
    """A text, and what it is sorted by where that is not the text; None goes last in either order."""

    text: str
    order: float | str | None = None


@dataclass(frozen=True)
class Row:
    """``key`` is what a pick of the row gives back."""

    key: str
    cells: tuple[Cell, ...]


def render_rows(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    key: str,
    label: str,
    selected: str = "",
    on_pick: Callable[[str], None] | None = None,
    height: int = 420,
) -> None:
    """Draw the table, at most ``height`` pixels high. With ``on_pick`` one row can be chosen: it is called with the
    row's key before the script, or the fragment, runs again."""

    def picked() -> None:
        state = st.session_state.get(key) or {}
        if on_pick is not None and isinstance(value := state.get("picked"), str):
            on_pick(value)

    _component(
        data=table_data(columns, rows, label, selected, on_pick is not None, height), key=key, on_picked_change=picked
    )


def table_data(
    columns: Sequence[Column], rows: Sequence[Row], label: str, selected: str, pickable: bool, height: int
) -> dict[str, Any]:
    """What the browser needs."""
    return {
        "columns": [asdict(column) for column in columns],
        "keys": [row.key for row in rows],
        "texts": [[cell.text for cell in row.cells] for row in rows],
        "orders": [[cell.order for cell in row.cells] for row in rows],
        "label": label,
        "selected": selected,
        "pickable": pickable,
        "height": height,
    }
