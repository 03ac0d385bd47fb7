"""The Explore page's state as a query string, so that a copied link shows a colleague the same graph and plan.

Pure: a mapping of texts in, typed state and complaints out. Whatever stands in the address bar, there is a state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from app import demands
from engine.graph.errors import FieldError, InvalidInput
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.graph.pipelines.base import Pipeline, text_of
from engine.records.timings import Regime

DEFAULT_PIPELINE = "conv_bias_relu"
TEXT_LIMIT = 40
"""Longest parameter text that is kept: no number or choice needs more."""


class View(StrEnum):
    """Which chart stands in front."""

    TIME = "time"
    CLOSE = "close"
    ERROR = "error"
    BUILD = "build"


@dataclass(frozen=True)
class ExploreState:
    """What the Explore page shows.

    ``given``: parameter letters whose texts differ from the pipeline's defaults, in the pipeline's order; they may be
    wrong (the form says so beside the field). ``target``: "" until chosen. ``run``: a run's or recording's id.
    ``plan``: a plan's key within that run. ``demands``: what is demanded of a winner, as ``app.demands`` writes it, ""
    for what was asked of the run.
    """

    pipeline: str = DEFAULT_PIPELINE
    given: tuple[tuple[str, str], ...] = ()
    target: str = ""
    run: str = ""
    plan: str = ""
    demands: str = ""
    regime: Regime = Regime.HOT
    view: View = View.TIME

    @property
    def parameters(self) -> dict[str, str]:
        """``given`` as a dictionary."""
        return dict(self.given)


_SHAPES: dict[str, tuple[re.Pattern[str], str, str]] = {
    "target": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,79}"),
        "this is not the name of a target.",
        "Pick a target from the list.",
    ),
    "run": (re.compile(r"[0-9a-f]{32}|here"), "a run's id is 32 hex digits.", "Open the run from the Runs page."),
    "plan": (
        re.compile(r"\d{1,6}(;[A-Za-z0-9_]{1,60}=-?\d{1,12}){0,60}"),
        "a plan is an engine id and its knobs, such as 4;KERNEL_CFG=43.",
        "Choose a plan in the chart or the table.",
    ),
    "demands": (
        demands.SHAPE,
        "demands are none, or some of workspace:BYTES,deterministic,capturable.",
        "Set them above the charts.",
    ),
}
_CHOICES: dict[str, type[StrEnum]] = {"regime": Regime, "view": View}
RESERVED = frozenset({"pipeline", *_SHAPES, *_CHOICES})
"""Keys of a link that no parameter letter may use."""


def differing(chosen: Pipeline[Any], texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The texts that are not their letter's default, in the pipeline's order; letters it does not have are left out."""
    return tuple(
        (field.letter, texts[field.letter])
        for field in chosen.fields()
        if field.letter in texts and texts[field.letter] != text_of(field.default)
    )


def to_query(state: ExploreState) -> dict[str, str]:
    """The query that ``from_query`` reads back as the same state. What is as it would be anyway is left out."""
    query = {"pipeline": state.pipeline, **state.parameters}
    for key in _SHAPES:
        if value := getattr(state, key):
            query[key] = value
    for key in _CHOICES:
        if (value := getattr(state, key)) != getattr(ExploreState, key):
            query[key] = str(value)
    return query


def link(page: str, state: ExploreState) -> str:
    """A relative address of the page with this state."""
    return f"{page}?{urlencode(to_query(state))}"


def from_query(query: Mapping[str, str]) -> tuple[ExploreState, tuple[FieldError, ...]]:
    """The state a query asks for, and what of it could not be used: that falls back to its default.

    Parameter texts are not judged here but by the form, which shows its message beside the field.
    """
    rest = dict(query)
    problems: list[FieldError] = []
    name = rest.pop("pipeline", DEFAULT_PIPELINE)
    try:
        chosen = pipeline(name)
    except InvalidInput as error:
        problems += (_shortened(e) for e in error.errors)
        name, chosen = DEFAULT_PIPELINE, CATALOGUE[DEFAULT_PIPELINE]
        rest = {key: value for key, value in rest.items() if key in RESERVED}
    values: dict[str, Any] = {}
    for key, (shape, rule, remedy) in _SHAPES.items():
        if value := rest.pop(key, ""):
            if shape.fullmatch(value):
                values[key] = value
            else:
                problems.append(_shortened(FieldError(key, value, rule, remedy)))
    for key, choices in _CHOICES.items():
        if value := rest.pop(key, ""):
            try:
                values[key] = choices(value)
            except ValueError:
                rule = f"must be one of {', '.join(choices)}."
                problems.append(_shortened(FieldError(key, value, rule, "Choose one above the chart.")))
    letters = {field.letter for field in chosen.fields()}
    texts = {key: rest.pop(key)[:TEXT_LIMIT] for key in list(rest) if key in letters}
    problems += (_unknown(key, value, chosen) for key, value in list(rest.items())[:5])
    return ExploreState(pipeline=name, given=differing(chosen, texts), **values), tuple(problems)


def _unknown(key: str, value: str, chosen: Pipeline[Any]) -> FieldError:
    rule = f"{chosen.name} has no parameter of this name; it was ignored."
    remedy = f"Its parameters are {', '.join(field.letter for field in chosen.fields())}."
    return _shortened(FieldError(key, value, rule, remedy))


def _shortened(error: FieldError) -> FieldError:
    return FieldError(_cut(error.field), _cut(error.value), error.rule, error.remedy)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
