"""Messages about what a person gave: small, beside their field, and read aloud by a screen reader.

They are HTML, not Markdown, because they quote what was given, and that may be anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import Literal

import streamlit as st

from engine.graph.errors import FieldError


def errors_html(errors: Iterable[FieldError]) -> str:
    """The messages, one a line; "" for none."""
    lines = "".join(f"<div>{escape(str(error))}</div>" for error in errors)
    return f'<div role="alert" class="ps-error">{lines}</div>' if lines else ""


def render_errors(errors: Iterable[FieldError], width: int | Literal["stretch"] = "stretch") -> None:
    """Draw the messages here; nothing where there are none."""
    if text := errors_html(errors):
        st.html(text, width=width)


def escaped(text: str) -> str:
    """A text as Markdown that shows it as it is."""
    return "".join("\\" + c if c in "\\`*_{}[]()#+-.!|~>$:<" else c for c in text)


def distinct(words: Mapping[str, str]) -> dict[str, str]:
    """The words of a list's entries, by key, told apart where two read the same: the browser goes by what is read."""
    often = Counter(words.values())
    return {key: word if often[word] == 1 else f"{word} ({key})" for key, word in words.items()}
