"""A form of plain fields in one component: numbers as texts, choices, switches, each with its message beside it.

A dozen of Streamlit's own fields take a browser longer to start than everything else of a first view together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from uuid import uuid4

import streamlit as st

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "planscope.form",
    html='<div class="root"></div>',
    css=(_HERE / "form_view.css").read_text(encoding="utf-8"),
    js=(_HERE / "form_view.js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True)
class Field:
    """One field. ``kind``: a ``choice`` is one of ``choices`` (values and words) side by side, a ``list`` one of them
    folded away, ``several`` any of them with commas between, a ``switch`` on or off; a ``button`` has no text. Of
    a text: what it says while it is ``empty``, its ``width`` in pixels, and whether it is answered ``live`` or only at
    Enter or when it is left."""

    name: str
    label: str
    kind: Literal["text", "choice", "list", "several", "switch", "button"]
    choices: tuple[tuple[str, str], ...] = ()
    empty: str = ""
    width: int = 96
    live: bool = True


def prepared(fields: Sequence[Field], limit: int = 0) -> str:
    """What ``render_fields`` sends of the fields, ready to be kept. ``limit``: characters of a text, at most."""
    return json.dumps({"fields": [asdict(field) for field in fields], "limit": limit}, separators=(",", ":"))


def render_fields(
    fields: str,
    *,
    key: str,
    edition: str,
    texts: Mapping[str, str],
    messages: Mapping[str, str] = MappingProxyType({}),
    on_change: Callable[[], None],
) -> str:
    """Draw what ``prepared`` gave, with ``texts`` in the fields and ``messages`` beside them, both by name; which
    button was pressed, "" for none.

    What stands in a field then belongs to the person: ``texts`` of the same ``edition`` are not looked at again, so
    that an answer which comes late takes nothing back. A text that its field cannot show (a choice that there is not)
    stays until another is chosen. ``on_change`` is called before the script runs again, and ``given`` has the texts.
    """
    now = {"edition": edition, "texts": dict(texts), "messages": dict(messages)}
    drawn = _component(data=[fields, now], key=key, on_typed_change=on_change, on_pressed_change=lambda: None)
    return str(drawn.get("pressed") or "")


def given(key: str, edition: str) -> dict[str, str]:
    """The texts of every field as the browser told them last, by name; nothing where it told none of this edition."""
    state = st.session_state.get(key)
    typed = state.get("typed") if isinstance(state, Mapping) else None
    if not isinstance(typed, Mapping) or typed.get("edition") != edition:
        return {}
    found = typed.get("texts")
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, Mapping) else {}


def following(key: str, texts: Mapping[str, str]) -> str:
    """The edition for fields that show a state kept elsewhere: the one before while the browser shows these texts
    already, a new one where they have changed by another hand (a link, Back)."""
    edition, drawn = st.session_state.get(f"{key}.edition", ("", None))
    if (given(key, edition) or drawn) != texts:
        edition = uuid4().hex
        st.session_state[f"{key}.edition"] = (edition, dict(texts))
    return edition


def followed(key: str) -> dict[str, str]:
    """What was told last of fields whose edition ``following`` gave."""
    return given(key, st.session_state.get(f"{key}.edition", ("", None))[0])
