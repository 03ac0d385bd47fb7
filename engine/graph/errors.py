"""One shape for every complaint about an input, so that a page, the CLI and an importer can all say it well."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """One wrong input: which field, the value given, the rule it breaks and what to change.

    ``field`` is a parameter letter, a CLI option or a file member; "" when no single field is at fault.
    """

    field: str
    value: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.field} = {self.value}: " if self.field else ""
        return f"{where}{self.rule} {self.remedy}".strip()


class InvalidInput(ValueError):
    """What a person gave cannot be used; ``errors`` says why, one entry per field."""

    def __init__(self, *errors: FieldError) -> None:
        if not errors:
            raise ValueError("InvalidInput needs at least one FieldError")
        self.errors: tuple[FieldError, ...] = errors
        super().__init__("\n".join(str(error) for error in errors))


def invalid(field: str, value: object, rule: str, remedy: str) -> InvalidInput:
    """Build the exception for a single wrong field; a long value is cut so that the message stays readable."""
    text = str(value)
    return InvalidInput(FieldError(field, text if len(text) <= 80 else text[:77] + "...", rule, remedy))
