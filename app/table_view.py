"""A sortable table in plain HTML whose rows are radio buttons: the keyboard's way to whatever a chart shows.

Streamlit's own table is a canvas with 1.2 MB of script behind it, which the Explore page has no time for, and a screen
reader sees little of it. This one is a few dozen rows of real cells.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Table:
    """``label`` says what it is, for those who cannot see it."""

    label: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def prepared(self) -> str:
        """What ``render_table`` sends, ready to be kept: as JSON, for Streamlit would look into every list of it, each
        time."""
        content = {
            "label": self.label,
            "columns": [asdict(column) for column in self.columns],
            "keys": [row.key for row in self.rows],
            "texts": [[cell.text for cell in row.cells] for row in self.rows],
            "orders": [[cell.order for cell in row.cells] for row in self.rows],
        }
        return json.dumps(content, separators=(",", ":"), allow_nan=False)


def render_table(
    table: str, *, key: str, selected: str = "", on_pick: Callable[[str], None] | None = None, height: int = 420
) -> None:
    """Draw what ``Table.prepared`` gave, at most ``height`` pixels high. With ``on_pick`` one row can be chosen: it is
    called with the row's key before the script, or the fragment, runs again."""

    def picked() -> None:
        state = st.session_state.get(key) or {}
        if on_pick is not None and isinstance(value := state.get("picked"), str):
            on_pick(value)

    now = {"selected": selected, "pickable": on_pick is not None, "height": height}
    _component(data=[table, now], key=key, on_picked_change=picked)
