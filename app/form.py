"""The form made from a pipeline's parameters: texts in, a graph or a message beside the field out.

Numbers are asked for as texts, so that what is wrong stays in the field and is answered with this project's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import streamlit as st

from app import session
from app.links import TEXT_LIMIT, differing
from app.notices import render_errors
from engine.graph.errors import FieldError, InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.graph.pipelines.base import ParameterField, Pipeline, text_of
from engine.graph.spec import GraphSpec

NARROWEST, MESSAGE = 96, 300
"""Pixels of a field, at least, and of the message beside it."""


@dataclass(frozen=True)
class Reading:
    """What the texts of a form come to.

    ``errors``: by letter, "" for what no single field is to blame for; empty exactly when ``spec`` and ``parameters``
    (every letter's text, as the pipeline itself writes it) are there.
    """

    texts: Mapping[str, str]
    errors: Mapping[str, FieldError]
    parameters: Mapping[str, str] | None
    spec: GraphSpec | None

    @property
    def graph_id(self) -> str:
        """The graph's hash, "" where there is none."""
        return self.spec.graph_id if self.spec else ""


def read(chosen: Pipeline[Any], texts: Mapping[str, str]) -> Reading:
    """Judge texts; never raises. Letters that are missing or empty have their defaults."""
    given = {field.letter: texts.get(field.letter, "").strip() or text_of(field.default) for field in chosen.fields()}
    try:
        parameters, spec = _graph(chosen.name, tuple(given.items()))
    except InvalidInput as error:
        letters = {field.letter for field in chosen.fields()}
        errors = {e.field if e.field in letters else "": e for e in reversed(error.errors)}
        return Reading(given, errors, None, None)
    return Reading(given, {}, parameters, spec)


@lru_cache(maxsize=256)
def _graph(name: str, texts: tuple[tuple[str, str], ...]) -> tuple[dict[str, str], GraphSpec]:
    chosen = CATALOGUE[name]
    parameters = chosen.parse(dict(texts))
    return chosen.texts(parameters), chosen.build(parameters)


def last_good(chosen: Pipeline[Any], reading: Reading, before: Mapping[str, str]) -> Reading:
    """The reading itself where it is good; else the nearest good one, so that a slip of the finger loses nothing: the
    values ``before`` (the last good ones), or the texts with defaults in place of what is wrong, or the defaults."""
    without = {letter: text for letter, text in reading.texts.items() if letter not in reading.errors}
    candidates = (reading, read(chosen, before) if before else reading, read(chosen, without))
    return next((good for good in candidates if good.spec is not None), read(chosen, {}))


def carried_over(old: Pipeline[Any], texts: Mapping[str, str], new: Pipeline[Any]) -> dict[str, str]:
    """What stays when another pipeline is picked: changed values of parameters that mean the same in both (``n`` is a
    batch in one pipeline and a number of columns in another, so letters alone do not decide)."""
    meaning = {field.letter: (field.title, field.kind) for field in old.fields()}
    changed = dict(differing(old, texts))
    kept = {field.letter for field in new.fields() if meaning.get(field.letter) == (field.title, field.kind)}
    return {letter: text for letter, text in changed.items() if letter in kept}


def render_form(chosen: Pipeline[Any], texts: Mapping[str, str], beside: Mapping[str, FieldError]) -> None:
    """Draw the fields with ``texts`` in them; their values are then in ``typed``. ``beside``: messages by letter."""
    numbers_first = sorted(chosen.fields(), key=lambda field: field.kind not in ("int", "float"))
    with st.container(horizontal=True, vertical_alignment="top"):
        for field in numbers_first:
            _ask(chosen, field, texts[field.letter])
            if error := beside.get(field.letter):
                render_errors([error], width=MESSAGE)
    render_errors(error for letter, error in beside.items() if not letter)


def typed(chosen: Pipeline[Any], texts: Mapping[str, str]) -> dict[str, str]:
    """What stands in the fields now; ``texts`` where a field has not been drawn yet, or the browser has lost it."""
    given = {}
    for field in chosen.fields():
        value = st.session_state.get(_key(chosen, field))
        given[field.letter] = texts[field.letter] if value is None else text_of(value)
    return given


def forget(chosen: Pipeline[Any]) -> None:
    """Drop what stands in the fields, so that they are drawn anew from the texts given."""
    for field in chosen.fields():
        st.session_state.pop(_key(chosen, field), None)


def _ask(chosen: Pipeline[Any], field: ParameterField, text: str) -> None:
    key, label = _key(chosen, field), _label(field)
    if st.session_state.get(key) is None:
        st.session_state[key] = _value(field, text)
    if field.kind == "bool":
        st.toggle(label, key=key, on_change=session.act)
    elif field.kind == "choice":
        if len(field.choices) <= 4:
            st.segmented_control(label, field.choices, key=key, required=True, on_change=session.act)
        else:
            st.selectbox(label, field.choices, key=key, width=150, on_change=session.act)
    else:
        st.text_input(
            label,
            key=key,
            on_change=session.act,
            max_chars=TEXT_LIMIT,
            autocomplete="off",
            placeholder=text_of(field.default) or "default",
            live="400ms",
            width=max(NARROWEST, 12 + 7 * len(label)),
        )


def _label(field: ParameterField) -> str:
    """Letter and meaning in plain text: Markdown in a dozen labels would take a tenth of the time the page may."""
    return field.letter if field.title == field.letter else f"{field.letter} · {field.title}"


def _key(chosen: Pipeline[Any], field: ParameterField) -> str:
    return f"{chosen.name}-{field.letter}"


def _value(field: ParameterField, text: str) -> str | bool:
    """What the widget of a field holds for a text; the default where it cannot hold a wrong one."""
    if field.kind == "bool":
        return text.lower() in ("on", "true", "1", "yes")
    if field.kind == "choice" and text not in field.choices:
        return text_of(field.default)
    return text
