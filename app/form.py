"""The form made from a pipeline's parameters: texts in, a graph or a message beside the field out.

Numbers are asked for as texts, so that what is wrong stays in the field and is answered with this project's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from uuid import uuid4

import streamlit as st

from app.form_view import Field, given, prepared, render_fields
from app.links import TEXT_LIMIT, differing
from app.notices import render_errors
from engine.graph.errors import FieldError, InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.graph.pipelines.base import ParameterField, Pipeline, text_of
from engine.graph.spec import GraphSpec

NARROWEST, MESSAGE = 96, 300
"""Pixels of a field, at least, and of a message beside one."""

SIDE_BY_SIDE = 4
"""Choices that stand side by side; more of them are a list."""


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


def render_form(
    chosen: Pipeline[Any],
    texts: Mapping[str, str],
    beside: Mapping[str, FieldError],
    *,
    page: str = "",
    on_change: Callable[[], None] = lambda: None,
) -> None:
    """Draw the fields with ``texts`` in them; what is changed there is then in ``typed``. ``beside``: messages by
    letter. ``page`` keeps the forms of several pages apart; ``on_change`` is called before the script runs again."""
    render_fields(
        _fields(chosen.name),
        key=_key(chosen, page),
        edition=st.session_state.setdefault(_edition(chosen, page), uuid4().hex),
        texts={field.letter: texts[field.letter] for field in chosen.fields()},
        messages={letter: str(error) for letter, error in beside.items() if letter},
        on_change=on_change,
    )
    render_errors(error for letter, error in beside.items() if not letter)


def typed(chosen: Pipeline[Any], texts: Mapping[str, str], *, page: str = "") -> dict[str, str]:
    """What stands in the fields now; ``texts`` where nobody has changed anything since they were drawn from texts."""
    found = given(_key(chosen, page), st.session_state.get(_edition(chosen, page), ""))
    return {field.letter: found.get(field.letter, texts[field.letter])[:TEXT_LIMIT] for field in chosen.fields()}


def forget(chosen: Pipeline[Any], *, page: str = "") -> None:
    """Drop what stands in the fields, so that they are drawn anew from the texts given."""
    st.session_state.pop(_edition(chosen, page), None)


@lru_cache(maxsize=64)
def _fields(name: str) -> str:
    """A pipeline's fields, numbers first."""
    numbers_first = sorted(CATALOGUE[name].fields(), key=lambda field: field.kind not in ("int", "float"))
    return prepared([_field(field) for field in numbers_first], TEXT_LIMIT)


def _field(field: ParameterField) -> Field:
    label = field.letter if field.title == field.letter else f"{field.letter} · {field.title}"
    if field.kind == "bool":
        return Field(field.letter, label, "switch")
    if field.kind == "choice":
        kind: Literal["choice", "list"] = "choice" if len(field.choices) <= SIDE_BY_SIDE else "list"
        return Field(field.letter, label, kind, tuple((choice, choice) for choice in field.choices))
    width = max(NARROWEST, 12 + 7 * len(label))
    return Field(field.letter, label, "text", empty=text_of(field.default) or "default", width=width)


def _key(chosen: Pipeline[Any], page: str) -> str:
    return "-".join(filter(None, (page, "form", chosen.name)))


def _edition(chosen: Pipeline[Any], page: str) -> str:
    """Where the name of what the fields were last drawn from is kept: what the browser tells of another is stale."""
    return f"{_key(chosen, page)}.edition"
