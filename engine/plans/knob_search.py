"""Which knob choices to try next. Pure: what was tried and measured goes in, choices come out, the same ones for the
same seed.

A random choice of all knobs is almost never a plan: cuDNN takes 1 in 60 of an attention engine's. So a choice starts
from a plan that works, mostly one of the fastest, or from the engine's defaults, and some of its knobs are drawn anew.
Half of the choices are such a draw as it comes, near what is fast; for the other half the one of several draws is taken
that differs most from the plans there are, so that a small budget spreads over the whole space.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.plans.engines import KnobRange
from engine.records.plan import PlanIdentity

NEAR = 1.5
"""An engine whose fastest plan takes longer than this many times the best is not searched: its knobs would have to make
up for more than they usually move."""
DRAWS = 8
_NEIGHBOURS = 500
_WHICH_KERNEL = "KERNEL_CFG"
_PATIENCE = 64
_WIDE = 16
_CHANCE = 0.5
_DEFAULTS = 0.25


@dataclass(frozen=True)
class KnobSpace:
    """An engine and what its knobs allow."""

    engine_id: int
    knobs: tuple[KnobRange, ...]


@dataclass(frozen=True)
class Standing:
    """A plan that cuDNN takes; ``time_us`` where it was measured."""

    identity: PlanIdentity
    time_us: float | None = None


def near_best(standings: Sequence[Standing]) -> list[int]:
    """Engines worth a search, the fastest first; where nothing was measured, all of them in their order."""
    fastest: dict[int, float] = {}
    for standing in standings:
        if standing.time_us is not None:
            engine = standing.identity.engine_id
            fastest[engine] = min(standing.time_us, fastest.get(engine, standing.time_us))
    if not fastest:
        return list(dict.fromkeys(standing.identity.engine_id for standing in standings))
    limit = NEAR * min(fastest.values())
    return sorted((engine for engine, time in fastest.items() if time <= limit), key=lambda engine: fastest[engine])


def choose(
    spaces: Sequence[KnobSpace],
    standings: Sequence[Standing],
    tried: Collection[str],
    seed: int,
    count: int,
    spent: Mapping[int, float] | None = None,
) -> list[PlanIdentity]:
    """The next choices, at most ``count``: none whose key is in ``tried``, none twice. Fewer where the spaces have no
    more to give.

    The first of ``spaces`` gets about half of them, the second a quarter, and so on; ``spent``, what the search has
    spent on each engine so far, counts.
    """
    drawing = random.Random(f"{seed} {len(tried)}")
    shares = {space.engine_id: 2.0**-place for place, space in enumerate(spaces)}
    cost = {space.engine_id: (spent or {}).get(space.engine_id, 0.0) for space in spaces}
    seen = set(tried) | {standing.identity.key for standing in standings}
    points = [standing.identity for standing in standings]
    left, chosen = [space for space in spaces if space.knobs], list[PlanIdentity]()
    while left and len(chosen) < count:
        space = max(left, key=lambda space: shares[space.engine_id] / (1 + cost[space.engine_id]))
        draws = _draws(space, _plans_of(space, standings), seen, drawing)
        if not draws:
            left.remove(space)
            continue
        there = [point.knobs for point in points if point.engine_id == space.engine_id][-_NEIGHBOURS:]
        near = drawing.random() < _CHANCE
        choice = draws[0] if near else max(draws, key=lambda draw: _distance(space, draw.knobs, there))
        seen.add(choice.key)
        points.append(choice)
        cost[choice.engine_id] += 1
        chosen.append(choice)
    return chosen


def one_by_one(space: KnobSpace, count: int) -> list[PlanIdentity]:
    """At most ``count`` choices of a single knob each, for an engine that refuses to have none chosen: the kernel
    configurations first, evenly thinned where there are more."""
    ordered = sorted(space.knobs, key=lambda knob: knob.name != _WHICH_KERNEL)
    chosen: list[PlanIdentity] = []
    for knob in ordered:
        left = count - len(chosen)
        step = -(-len(knob.values) // left) if left > 0 else 0
        values = knob.values[::step] if step else ()
        chosen += [PlanIdentity(engine_id=space.engine_id, knobs={knob.name: value}) for value in values]
    return chosen


def _plans_of(space: KnobSpace, standings: Iterable[Standing]) -> list[Mapping[str, int]]:
    """Knobs of an engine's plans: the measured ones first, the fastest before the others."""
    own = [standing for standing in standings if standing.identity.engine_id == space.engine_id]
    own.sort(key=lambda standing: float("inf") if standing.time_us is None else standing.time_us)
    return [standing.identity.knobs for standing in own]


def _draws(
    space: KnobSpace, plans: Sequence[Mapping[str, int]], seen: Collection[str], drawing: random.Random
) -> list[PlanIdentity]:
    """Several new choices; empty where so many draws in a row were known ones that there can be few others."""
    found: dict[str, PlanIdentity] = {}
    for _ in range(_PATIENCE):
        identity = PlanIdentity(engine_id=space.engine_id, knobs=_draw(space, plans, drawing))
        if identity.key not in seen:
            found[identity.key] = identity
        if len(found) == DRAWS:
            break
    return list(found.values())


def _draw(space: KnobSpace, plans: Sequence[Mapping[str, int]], drawing: random.Random) -> dict[str, int]:
    defaults: dict[str, int] = {}
    from_plan = plans and drawing.random() >= _DEFAULTS
    knobs = dict(plans[_favour_first(drawing, len(plans))]) if from_plan else defaults
    for knob in [knob for knob in space.knobs if drawing.random() < _CHANCE] or [drawing.choice(space.knobs)]:
        knobs[knob.name] = _value(knob, drawing)
    return knobs


def _value(knob: KnobRange, drawing: random.Random) -> int:
    """Any value; of counts (from 1 on, a wide range, such as how often K is split) small ones as often as large ones,
    by ratio."""
    values = knob.values
    if knob.low >= 1 and knob.high >= _WIDE * knob.low:
        wanted = knob.low * (knob.high / knob.low) ** drawing.random()
        return values[min(len(values) - 1, int((wanted - knob.low) / knob.stride + 0.5))]
    return drawing.choice(values)


def _favour_first(drawing: random.Random, count: int) -> int:
    """0 in half of the cases, 1 in a quarter, and so on."""
    place = 0
    while place < count - 1 and drawing.random() >= _CHANCE:
        place += 1
    return place


def _distance(space: KnobSpace, knobs: Mapping[str, int], others: Iterable[Mapping[str, int]]) -> float:
    """To the nearest of ``others``: 1 for each knob that differs, and up to 1 more by how much."""
    return min((sum(_apart(knob, knobs, other) for knob in space.knobs) for other in others), default=float("inf"))


def _apart(knob: KnobRange, one: Mapping[str, int], other: Mapping[str, int]) -> float:
    a, b = one.get(knob.name), other.get(knob.name)
    if a == b:
        return 0.0
    if a is None or b is None:
        return 1.0
    return 1.0 + min(1.0, abs(a - b) / max(1, knob.high - knob.low))
