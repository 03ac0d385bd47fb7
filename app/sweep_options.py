"""What a sweep is asked for, from texts and choices to typed options; a message for every wrong field. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from engine.graph.errors import FieldError, InvalidInput, invalid
from engine.graph.operations import Attention
from engine.graph.spec import GraphSpec
from engine.jobs.capacity import default_size
from engine.jobs.estimate import expected_s
from engine.measure.screening import RULES
from engine.plans.explicit import parse_plans
from engine.records.constraints import Constraints
from engine.records.options import Preset, SweepOptions, check_options

SEED_LIMIT = 2**63 - 1
SHIFT_LIMIT = 10_000.0
KNOBS_LIMIT = 100_000
USUAL_PLANS = 30
"""Where nobody has counted yet."""


def read_seed(text: str) -> int:
    """The seed a person typed, 0 for none; raises InvalidInput."""
    given = text.strip() or "0"
    if not _whole(given, SEED_LIMIT):
        rule = f"a seed is a whole number from 0 to {SEED_LIMIT:,}."
        raise invalid("seed", text, rule, "The default is 0.")
    return int(given)


def read_knob_budget(text: str) -> int:
    """How many knob choices to try, 0 for none; raises InvalidInput."""
    given = text.strip() or "0"
    if not _whole(given, KNOBS_LIMIT):
        rule = f"must be a whole number from 0 to {KNOBS_LIMIT:,}."
        raise invalid("knob_budget", text, rule, "0 searches no knobs.")
    return int(given)


def read_shift(text: str) -> float:
    """What is added to every score, 0 for nothing; raises InvalidInput."""
    try:
        shift = float("nan" if "_" in text else text.strip() or "0")
    except ValueError:
        shift = float("nan")
    if not abs(shift) <= SHIFT_LIMIT:
        rule = f"must be a number from -{SHIFT_LIMIT:,.0f} to {SHIFT_LIMIT:,.0f}."
        raise invalid("score_shift", text, rule, "0 shifts nothing; -40 is strongly negative.")
    return shift


def read_options(
    texts: Mapping[str, str], choices: Mapping[str, Any], constraints: Constraints, graph: GraphSpec
) -> SweepOptions:
    """The options; raises InvalidInput with an entry for every wrong field. ``texts``: seed, score_shift, knob_budget,
    explicit (a plan a line); ``choices``: further fields of SweepOptions as they are."""
    readers = {"seed": read_seed, "score_shift": read_shift, "knob_budget": read_knob_budget, "explicit": _plans}
    read: dict[str, Any] = {}
    wrong: list[FieldError] = []
    for field, reader in readers.items():
        try:
            read[field] = reader(texts.get(field, ""))
        except InvalidInput as error:
            wrong += error.errors
    if not has_scores(graph):
        read["score_shift"], wrong = 0.0, [error for error in wrong if error.field != "score_shift"]
    if not wrong:
        options = SweepOptions(
            **read,
            **choices,
            workspace_limit_bytes=constraints.workspace_limit_bytes,
            deterministic_only=constraints.deterministic_only,
            capturable_only=constraints.capturable_only,
        )
        check_options(options, graph)
        return options
    raise InvalidInput(*wrong)


def has_scores(graph: GraphSpec) -> bool:
    """Whether there are attention scores to shift."""
    return any(isinstance(operation, Attention) for operation in graph.operations)


def estimate_s(preset: Preset, plans: int | None, further: int = 0) -> float:
    """About how long a sweep takes, seconds. ``plans``: how many are listed, None where nobody has counted yet;
    ``further``: how many more are asked for."""
    return expected_s(default_size(), RULES[preset], (plans or USUAL_PLANS) + further)


def further_plans(texts: Mapping[str, str]) -> int:
    """How many plans the texts ask for besides the listed ones, as far as they can be read."""
    try:
        searched = read_knob_budget(texts.get("knob_budget", ""))
    except InvalidInput:
        searched = 0
    return searched + sum(bool(line.strip()) for line in texts.get("explicit", "").splitlines())


def duration(seconds: float) -> str:
    """A time for people: no more precise than a guess."""
    return f"{math.ceil(seconds)} s" if seconds < 90 else f"{math.ceil(seconds / 60):,} min"


def preset_words(preset: Preset) -> str:
    """What a preset gives, in a line."""
    rule = RULES[preset]
    return (
        f"at least {rule.least} samples of every plan near the best, then on until each one's standard error is below "
        f"{rule.error * 100:g} %, {rule.budget_s:g} s have passed or it has {rule.most:,} samples"
    )


def _plans(text: str) -> Any:
    return parse_plans(line for line in text.splitlines() if line.strip())


def _whole(text: str, limit: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(limit)) and int(text) <= limit
