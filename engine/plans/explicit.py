"""Plans that a person names: ``49;SPLIT_K_SLC=15;KERNEL_CFG=30``, the text form of a plan's identity."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.graph.errors import InvalidInput, invalid
from engine.plans.candidates import BACKEND_ENGINES
from engine.plans.knobs import KNOBS
from engine.records.plan import PlanIdentity

FIELD = "explicit"
MOST = 1024
_DIGITS = 9
_WHOLE = re.compile(rf"-?[0-9]{{1,{_DIGITS}}}")
_REMEDY = "Write an engine id and its knobs, such as 49;SPLIT_K_SLC=15;KERNEL_CFG=30."


def parse_plan(text: str, field: str = FIELD) -> PlanIdentity:
    """The identity that ``PlanIdentity.key`` writes as this text; knobs in any order, spaces and letter case do not
    matter, and a semicolon may end it. Raises InvalidInput.

    Which values a knob takes is cuDNN's to say, and differs from graph to graph.
    """
    engine, *choices = (part.strip() for part in text.strip().removesuffix(";").split(";"))
    if not re.fullmatch(r"[0-9]+", engine):
        raise invalid(field, text, "a plan begins with its engine id, a whole number.", _REMEDY)
    if len(engine) > _DIGITS or int(engine) not in BACKEND_ENGINES:
        rule = f"engines of cuDNN have ids below {BACKEND_ENGINES.stop:,}."
        raise invalid(field, text, rule, "Larger ones are kernels that the frontend brings along.")
    knobs: dict[str, int] = {}
    for choice in choices:
        name, value = _choice(text, choice, field)
        if name in knobs:
            raise invalid(field, text, f"{name} is given twice.", "Give each knob once.")
        knobs[name] = value
    return PlanIdentity(engine_id=int(engine), knobs=knobs)


def parse_plans(texts: Iterable[str], field: str = FIELD) -> tuple[PlanIdentity, ...]:
    """Each plan once, in the order given. Raises InvalidInput with an entry per wrong text."""
    found: dict[str, PlanIdentity] = {}
    wrong: list[InvalidInput] = []
    for text in texts:
        try:
            identity = parse_plan(text, field)
        except InvalidInput as error:
            wrong.append(error)
        else:
            found[identity.key] = identity
    if wrong:
        raise InvalidInput(*(entry for error in wrong for entry in error.errors))
    if len(found) > MOST:
        raise invalid(field, f"{len(found):,} plans", f"at most {MOST:,} plans can be named.", "Name fewer.")
    return tuple(found.values())


def _choice(text: str, choice: str, field: str) -> tuple[str, int]:
    name, equals, value = (part.strip() for part in choice.partition("="))
    name = name.upper()
    if not equals:
        raise invalid(field, text, f"{choice!r} is no knob choice.", _REMEDY)
    if name not in KNOBS:
        raise invalid(field, text, f"there is no knob {name!r}.", f"Known knobs: {', '.join(KNOBS)}.")
    if not _WHOLE.fullmatch(value):
        raise invalid(field, text, f"the value of {name} is no whole number of at most {_DIGITS} digits.", _REMEDY)
    return name, int(value)
