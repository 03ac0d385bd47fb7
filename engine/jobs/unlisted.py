"""Plans that no heuristics mode lists: those a person names, those of engines asked by id, and those a search over
knobs comes upon. All are asked for in builder processes, one task each, so that a crash or a hang costs one of them.

cuDNN finalizes a choice in about a millisecond and refuses most that cannot work; only what it takes becomes a
candidate.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from engine.jobs.endings import failure
from engine.jobs.pool import BuilderPool
from engine.jobs.replies import End, Reply
from engine.jobs.scores import Scores
from engine.plans.engines import KnobRange, ranges_of
from engine.plans.knob_search import KnobSpace, Standing, choose, near_best, one_by_one
from engine.records.options import SweepOptions
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Stage, Status
from engine.records.wording import several

CHECK_DEADLINE_S = 60.0
"""A check is a matter of milliseconds, the first in a process of a second or so."""
CHECKS_PER_CHOICE = 16
"""How many checks the search may spend, per choice of its budget; a choice that cuDNN refuses costs no budget."""
REFUSAL_COST = 0.125
"""Of a choice that cuDNN takes, when the search decides which engine is next: a choosy engine keeps its turn for a
while, and does not use up everything."""
FIRST_CHOICES = 64
"""How many choices an engine is offered that refuses its own default knobs."""
_SMALLEST_BATCH = 8


@dataclass(frozen=True)
class Beyond:
    """What is asked for beyond the heuristics. ``scores``: where somebody measures meanwhile, what is known so far; the
    search then goes on around the fastest plans."""

    explicit: tuple[PlanIdentity, ...] = ()
    every_engine: bool = False
    knob_budget: int = 0
    seed: int = 0
    scores: Scores | None = None

    @classmethod
    def of(cls, options: SweepOptions, scores: Scores | None = None) -> Beyond:
        """What a sweep's options ask for."""
        return cls(options.explicit, options.every_engine, options.knob_budget, options.seed, scores)


class Unlisted:
    """One plan job's questions beyond the heuristics. ``common``: what every task needs (spec, target)."""

    def __init__(
        self, beyond: Beyond, pool: BuilderPool, common: Mapping[str, Any], has_gpu: bool, cancel: threading.Event
    ) -> None:
        self._beyond, self._pool, self._common, self._cancel = beyond, pool, common, cancel
        self._has_gpu = has_gpu
        self._told: dict[int, Reply] = {}
        self._tried: set[str] = set()
        self._spent: dict[int, float] = defaultdict(float)
        self._checked = self._used = self._taken = 0
        self._remarks: list[str] = []

    @property
    def remarks(self) -> list[str]:
        """What a person should know beside the plans, as it stands."""
        return [*self._remarks, *self._search_remarks()]

    def asked_for(self, listed: Mapping[str, PlanRecord]) -> list[PlanRecord]:
        """Candidates besides the ``listed`` ones, by key: explicit plans, each with its end where cuDNN refuses it, and
        the plans of engines that no mode lists."""
        wanted = [identity for identity in self._beyond.explicit if identity.key not in listed]
        found = {plan.key: plan for plan in self._named(wanted)}
        if self._beyond.every_engine:
            for plan in self._of_other_engines({plan.identity.engine_id for plan in listed.values()}):
                found.setdefault(plan.key, plan)
        return list(found.values())

    def next_choices(self, plans: Mapping[str, PlanRecord]) -> list[PlanRecord]:
        """A few more knob choices that cuDNN takes, given all there are, once those that were built have been measured
        (where somebody measures). Empty at the end of the search."""
        left = self._beyond.knob_budget - self._used
        if left <= 0 or self._cancel.is_set():
            return []
        standings = self._standings(plans)
        spaces = [space for engine in near_best(standings) if (space := self._space(engine, plans)).knobs]
        wanted = min(left, max(_SMALLEST_BATCH, 2 * self._pool.size))
        found: list[PlanRecord] = []
        most = CHECKS_PER_CHOICE * self._beyond.knob_budget
        while len(found) < wanted and self._checked < most and not self._cancel.is_set():
            count = min(wanted - len(found), most - self._checked)
            tried = self._tried | plans.keys()
            choices = choose(spaces, standings, tried, self._beyond.seed, count, self._spent)
            if not choices:
                break
            self._tried |= {choice.key for choice in choices}
            self._checked += len(choices)
            further = self._candidates(choices, PlanOrigin.KNOB_SEARCH)
            taken = {plan.key for plan in further}
            for choice in choices:
                self._spent[choice.engine_id] += 1.0 if choice.key in taken else REFUSAL_COST
            found += further
        self._used += len(found)
        self._taken += sum(plan.status is Status.LISTED for plan in found)
        return found

    def _named(self, identities: Sequence[PlanIdentity]) -> list[PlanRecord]:
        """The explicit plans, with their ends where they have come to one."""
        return [
            _listed(reply) if reply.end is End.DONE else _ended(identity, PlanOrigin.EXPLICIT, reply)
            for identity, reply in self._check(identities, PlanOrigin.EXPLICIT)
        ]

    def _of_other_engines(self, listed: set[int]) -> list[PlanRecord]:
        count = self._submit("engines", {}).result()
        if count.end is not End.DONE:
            if count.end is not End.CANCELLED:
                self._remarks.append(f"cuDNN's engines could not be counted: {count.message}")
            return []
        total = int(count.content["count"])
        others = [engine for engine in range(total) if engine not in listed]
        self._ask(others)
        found = [plan for engine in others for plan in self._plans_of(engine)]
        taken = {plan.identity.engine_id for plan in found if plan.status is Status.LISTED}
        self._remarks.append(
            f"Every engine was asked: of the {total} that cuDNN has for such graphs, the heuristics list "
            f"{len(listed)}; {len(taken)} of the others take this one, {len(others) - len(taken)} do not."
        )
        return found

    def _plans_of(self, engine: int) -> list[PlanRecord]:
        """The plan of its default knobs; an engine that refuses these may take others."""
        reply = self._told[engine]
        if reply.end is not End.DONE:
            identity = PlanIdentity(engine_id=engine)
            return [] if reply.end is End.CANCELLED else [_ended(identity, PlanOrigin.ENGINE_LIST, reply)]
        if reply.content["record"] is not None:
            return [_listed(reply)]
        choices = one_by_one(KnobSpace(engine, self._knobs(engine)), FIRST_CHOICES)
        return self._candidates(choices, PlanOrigin.ENGINE_LIST)[:1]

    def _candidates(self, choices: Sequence[PlanIdentity], origin: PlanOrigin) -> list[PlanRecord]:
        """What cuDNN takes, and what cost a builder: a refusal is no outcome of a plan that nobody asked for."""
        replies = self._check(choices, origin)
        taken = [_listed(reply) for _, reply in replies if reply.end is End.DONE]
        lost = [(identity, reply) for identity, reply in replies if reply.end in (End.CRASHED, End.TIMEOUT)]
        return [*taken, *(_ended(identity, origin, reply) for identity, reply in lost)]

    def _standings(self, plans: Mapping[str, PlanRecord]) -> list[Standing]:
        ready = [plan for plan in plans.values() if plan.status in (Status.OK, Status.LISTED)]
        scores = self._beyond.scores
        if scores is None:
            return [Standing(plan.identity) for plan in ready]
        built = [plan.key for plan in ready if plan.status is Status.OK and plan.blob_sha256 is not None]
        times = scores.wait_for(built, self._cancel)
        return [Standing(plan.identity, times.get(plan.key)) for plan in ready if plan.key in times] or [
            Standing(plan.identity) for plan in ready
        ]

    def _space(self, engine: int, plans: Mapping[str, PlanRecord]) -> KnobSpace:
        """What the engine tells of its knobs, or else what its plans show of them."""
        self._ask([engine])
        told = self._knobs(engine)
        if not told and (told := ranges_of(plans, engine)):
            remark = f"Engine {engine} tells no knob ranges here: the values that its listed plans take were combined."
            if remark not in self._remarks:
                self._remarks.append(remark)
        return KnobSpace(engine, told)

    def _knobs(self, engine: int) -> tuple[KnobRange, ...]:
        reply = self._told[engine]
        return tuple(KnobRange(**knob) for knob in reply.content["knobs"]) if reply.end is End.DONE else ()

    def _ask(self, engines: Sequence[int]) -> None:
        """Ask each engine for its knobs and its default plan, once."""
        new = [engine for engine in engines if engine not in self._told]
        tasks = {engine: self._submit("engine", {"engine_id": engine}) for engine in new}
        self._told.update({engine: task.result() for engine, task in tasks.items()})

    def _check(self, identities: Sequence[PlanIdentity], origin: PlanOrigin) -> list[tuple[PlanIdentity, Reply]]:
        """Whether cuDNN takes each, in their order."""
        tasks = [self._submit("check", {"identity": i.model_dump_json(), "origin": origin}) for i in identities]
        return [(identity, task.result()) for identity, task in zip(identities, tasks, strict=True)]

    def _submit(self, op: str, content: Mapping[str, Any]) -> Future[Reply]:
        return self._pool.submit(op, {**self._common, **content}, cancel=self._cancel, deadline_s=CHECK_DEADLINE_S)

    def _search_remarks(self) -> list[str]:
        if not self._beyond.knob_budget:
            return []
        told = [search_remark(self._checked, self._taken)]
        if not self._has_gpu:
            told.append(
                "cuDNN tells knob ranges without regard to the GPU that plans are for: those asked without it may lack "
                "values, or have some too many."
            )
        return told


def search_remark(checked: int, taken: int) -> str:
    """How far a search came."""
    return (
        f"Knob search: {several(checked, 'choice')} {'was' if checked == 1 else 'were'} checked, cuDNN takes {taken:,}."
    )


def _listed(reply: Reply) -> PlanRecord:
    return PlanRecord.model_validate_json(reply.content["record"])


def _ended(identity: PlanIdentity, origin: PlanOrigin, reply: Reply) -> PlanRecord:
    """A candidate that never got a name from cuDNN."""
    return PlanRecord(identity=identity, plan_name=identity.key, modes={}, origin=origin, **failure(reply, Stage.LIST))
