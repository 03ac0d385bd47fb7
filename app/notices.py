"""Messages about what a person gave: small, beside their field, and read aloud by a screen reader.

They are HTML, not Markdown, because they quote what was given, and that may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import streamlit as st

from engine.graph.errors import FieldError

_STYLE = "color: var(--st-red-text-color); font-size: 0.85rem; line-height: 1.35; overflow-wrap: anywhere;"


def errors_html(errors: Iterable[FieldError]) -> str:
    """The messages, one a line; "" for none."""
    lines = "".join(f"<div>{escape(str(error))}</div>" for error in errors)
    return f'<div role="alert" style="{_STYLE}">{lines}</div>' if lines else ""


def render_errors(errors: Iterable[FieldError]) -> None:
    """Draw the messages here; nothing where there are none."""
    if text := errors_html(errors):
        st.html(text)
