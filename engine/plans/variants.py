"""Graphs near a refused one, so that a refusal can say what to change: what cuDNN takes is found by asking it, never
guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import ParameterField, Pipeline
from engine.graph.spec import GraphSpec
from engine.records.run import Refusal

_MULTIPLE = 8
"""Vector width of 16-bit types in bytes of 16, and what tensor cores want of channels, head dims and inner sizes."""
_LARGEST_COUNT = 24


@dataclass(frozen=True)
class Variant:
    """The graph with one parameter changed."""

    letter: str
    given: str
    instead: str
    spec: GraphSpec


def nearby(pipeline: Pipeline[Any], given: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Legal graphs that differ from the given one in one parameter: a size at the next multiples of 8 or its default,
    another layout, type or switch. Sizes that are no multiple of 8 come first."""
    parameters = pipeline.parse(given)
    values = parameters.model_dump()
    found: list[Variant] = []
    fields = sorted(pipeline.fields(), key=lambda field: not _is_odd(field, values[field.letter]))
    for field in fields:
        value = values[field.letter]
        for instead in _replacements(field, value):
            try:
                spec = pipeline.graph({**values, field.letter: instead})
            except InvalidInput:
                continue
            found.append(Variant(field.letter, _text(value), _text(instead), spec))
    return tuple(found[:_LARGEST_COUNT])


def with_remedies(refusal: Refusal, accepted: Sequence[Variant]) -> Refusal:
    """The refusal, completed by what cuDNN takes instead."""
    if not accepted:
        return refusal
    by_letter: dict[tuple[str, str], list[str]] = {}
    for variant in accepted:
        by_letter.setdefault((variant.letter, variant.given), []).append(variant.instead)
    changes = "; or ".join(
        f"{letter} = {' or '.join(instead)} instead of {given}" for (letter, given), instead in by_letter.items()
    )
    return refusal.model_copy(update={"message": f"{refusal.message.rstrip('.')}. cuDNN takes {changes}."})


def _is_odd(field: ParameterField, value: Any) -> bool:
    """A size out of step: one whose default is a multiple of 8 (a filter's or a stride's is not), and it is not."""
    return field.kind == "int" and field.default % _MULTIPLE == 0 and value % _MULTIPLE != 0


def _replacements(field: ParameterField, value: Any) -> Iterator[Any]:
    if field.kind == "choice":
        yield from (choice for choice in field.choices if choice != _text(value))
    elif field.kind == "bool":
        yield not value
    elif field.kind == "int":
        below = value // _MULTIPLE * _MULTIPLE
        near = [below, below + _MULTIPLE] if _is_odd(field, value) else []
        seen = {value}
        for size in sorted((size for size in near if size > 0), key=lambda size: abs(size - value)):
            seen.add(size)
            yield size
        if field.default not in seen:
            yield field.default


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(getattr(value, "value", value))
