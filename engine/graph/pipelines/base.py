"""A pipeline is a typed parameter model and a function from parameters to a GraphSpec; forms, flags and help come
from the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine.graph.errors import FieldError, InvalidInput, invalid
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType

SIZE_LIMIT = 1 << 20
"""Largest value of a size letter: beyond any network's, and small enough that no product of dims overflows 128 bits."""


def size(default: int, title: str, **limits: int) -> Any:
    """A size letter: a whole number from 1 (or ``ge``) to SIZE_LIMIT (or ``le``)."""
    return Field(default=default, title=title, ge=limits.get("ge", 1), le=limits.get("le", SIZE_LIMIT))


class Parameters(BaseModel):
    """What every pipeline has: the I/O type. Texts are accepted for numbers and switches, as forms, flags and URLs
    give them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    dtype: DataType = Field(default=DataType.BF16, title="I/O type")

    @field_validator("*", mode="before")
    @classmethod
    def _no_joined_digits(cls, value: Any) -> Any:
        """Python reads 1_000 as 1000, and 1_0.5 as 10.5: nobody else does, so it is taken for a slip of the finger."""
        if isinstance(value, str) and re.search(r"\d_\d", value):
            raise ValueError("underscore between digits")
        return value


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class ParameterField:
    """How one parameter is asked for: its letter, kind, default, limits (inclusive) or choices, and a title for
    people."""

    letter: str
    kind: Literal["int", "float", "bool", "choice"]
    title: str
    default: Any
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    optional: bool


@dataclass(frozen=True)
class Pipeline(Generic[P]):
    """One entry of the catalogue."""

    name: str
    title: str
    summary: str
    parameters: type[P]
    build: Callable[[P], GraphSpec]

    def parse(self, given: Mapping[str, Any]) -> P:
        """Parameters from texts or values; raises InvalidInput with one FieldError per wrong field. An empty text for
        an optional parameter is its default, as ``texts`` writes it."""
        optional = {field.letter for field in self.fields() if field.optional}
        try:
            return self.parameters(**{k: v for k, v in given.items() if v != "" or k not in optional})
        except ValidationError as error:
            raise InvalidInput(*(self._explain(dict(e)) for e in error.errors())) from None

    def texts(self, parameters: P) -> dict[str, str]:
        """Every parameter as the text that a form, a flag, a URL or a record writes; ``parse`` reads it back."""
        return {letter: text_of(getattr(parameters, letter)) for letter in self.parameters.model_fields}

    def graph(self, given: Mapping[str, Any]) -> GraphSpec:
        """The graph for these parameters; raises InvalidInput for illegal values and for shapes that do not fit
        together."""
        return self.build(self.parse(given))

    def fields(self) -> tuple[ParameterField, ...]:
        """Every parameter in the model's order, for forms, flags and help."""
        return tuple(_field(letter, info) for letter, info in self.parameters.model_fields.items())

    def _explain(self, error: dict[str, Any]) -> FieldError:
        letter = str(error["loc"][0]) if error["loc"] else ""
        fields = {field.letter: field for field in self.fields()}
        if letter not in fields:
            rule = f"{self.name} has no parameter of this name."
            return FieldError(letter, str(error["input"])[:80], rule, f"Its parameters are {', '.join(fields)}.")
        field = fields[letter]
        return FieldError(letter, str(error["input"])[:80], _rule(field), _remedy(field))


def _field(letter: str, info: Any) -> ParameterField:
    annotation, optional = info.annotation, False
    if type(None) in getattr(annotation, "__args__", ()):
        annotation, optional = next(a for a in annotation.__args__ if a is not type(None)), True
    choices = tuple(str(member.value) for member in annotation) if issubclass(annotation, Enum) else ()
    kind = "choice" if choices else {bool: "bool", int: "int", float: "float"}[annotation]
    low = next((m.ge if isinstance(m, Ge) else m.gt for m in info.metadata if isinstance(m, Ge | Gt)), None)
    high = next((m.le if isinstance(m, Le) else m.lt for m in info.metadata if isinstance(m, Le | Lt)), None)
    return ParameterField(letter, kind, info.title or letter, info.default, low, high, choices, optional)  # type: ignore[arg-type]


def _rule(field: ParameterField) -> str:
    if field.kind == "choice":
        return f"must be one of {', '.join(field.choices)}."
    if field.kind == "bool":
        return "must be on or off."
    number = "a whole number" if field.kind == "int" else "a finite number"
    if field.minimum is None or field.maximum is None:
        return f"must be {number}."
    return f"must be {number} from {field.minimum:,} to {field.maximum:,}."


def _remedy(field: ParameterField) -> str:
    if field.default is None:
        return "Leave it empty for the default."
    return f"The default is {text_of(field.default)}."


def text_of(value: Any) -> str:
    """A parameter's value as people write it: "on" and "off", and nothing for an optional one left alone."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value.value) if isinstance(value, Enum) else str(value)


def find(catalogue: Mapping[str, Pipeline[Any]], name: str) -> Pipeline[Any]:
    """The pipeline of this name; raises InvalidInput that lists the names there are."""
    if name not in catalogue:
        raise invalid("pipeline", name, "there is no pipeline of this name.", f"Choose one of {', '.join(catalogue)}.")
    return catalogue[name]
