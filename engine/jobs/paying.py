"""What plans cost, each number by a process of its own that does nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.jobs.conversation import Content
from engine.jobs.protocol import JobError
from engine.jobs.standby import Question, Standby
from engine.records.plan import PlanRecord
from engine.records.reuse import GraphUse, PlanCost, Times


class _Kind(StrEnum):
    COLD = "cold build"
    WARM = "warm build"
    LOAD = "load"


_Answers = list[Content | JobError]


def questions_asked(plans: int, repeats: int, graphs: bool) -> int:
    """How many ``plan_costs`` and, with ``graphs``, ``graph_uses`` ask."""
    return plans * (3 * repeats + 1 + (1 if graphs else 0))


def plan_costs(standby: Standby, plans: Sequence[PlanRecord], folder: Path, repeats: int) -> tuple[PlanCost, ...]:
    """All there is to know of built plans, their serialized forms in ``folder``. What fails is told in the record.
    Raises JobCancelled."""
    with tempfile.TemporaryDirectory(prefix="planscope-cache-") as name:
        paid = [_Paid(plan, folder, Path(name) / str(number), repeats) for number, plan in enumerate(plans)]
        for one in paid:
            one.cache.mkdir()
        _ask(standby, paid, (_Kind.COLD,), fill=True)
        for one in paid:
            one.weigh_cache()
        # Only now, for a process may look into its cache when it starts.
        _ask(standby, paid, (_Kind.WARM, _Kind.LOAD))
    return tuple(one.cost() for one in paid)


def graph_uses(standby: Standby, plans: Sequence[PlanRecord], folder: Path, seed: int) -> tuple[GraphUse, ...]:
    """What CUDA graphs give built plans. Raises JobCancelled."""
    questions = []
    for plan in plans:
        content = {"identity": plan.identity.model_dump_json(), "plan_name": plan.plan_name, "seed": seed}
        content |= {"compiled": plan.is_compiled, "blob": str(folder / str(plan.blob_sha256))}
        questions.append(Question(f"CUDA graphs of {plan.plan_name}", "graphs", content))
    return tuple(map(_use, plans, standby.answers(questions)))


def _use(plan: PlanRecord, answer: Content | JobError) -> GraphUse:
    try:
        if isinstance(answer, JobError):
            raise answer
        return GraphUse.model_validate_json(json.dumps(answer["use"]))
    except (JobError, KeyError, ValidationError) as error:
        return GraphUse(
            identity=plan.identity,
            plan_name=plan.plan_name,
            compiled=plan.is_compiled,
            captured=False,
            capture_message=str(error)[:500],
        )


def _ask(standby: Standby, paid: Iterable[_Paid], kinds: Sequence[_Kind], fill: bool = False) -> None:
    """Plan by plan; ``fill``: and fill each plan's cache."""
    asked = [(one.answers[kind], question) for one in paid for kind in kinds for question in one.questions(kind)]
    if fill:
        asked += [(one.filled, one.question(_Kind.WARM, "filling the cache for")) for one in paid]
    for (kept, _), answer in zip(asked, standby.answers([question for _, question in asked]), strict=True):
        kept.append(answer)


class _Paid:
    """One plan's. Where filling its cache has failed, its warm builds end as that did: they are of one group."""

    def __init__(self, plan: PlanRecord, folder: Path, cache: Path, repeats: int) -> None:
        self._plan, self.cache, self._repeats = plan, cache, repeats
        self._blob = folder / str(plan.blob_sha256)
        self._cache_bytes: int | None = None
        self.filled: _Answers = []
        self.answers: dict[_Kind, _Answers] = {kind: [] for kind in _Kind}

    def questions(self, kind: _Kind) -> list[Question]:
        """As often as each is to be asked."""
        return [self.question(kind, f"{kind} of")] * self._repeats

    def question(self, kind: _Kind, what: str) -> Question:
        """One of a kind; ``what`` it is for, in words before the plan's name."""
        plan = self._plan
        named, group = f"{what} {plan.plan_name}", f"{kind} {plan.key}"
        if kind is _Kind.LOAD:
            return Question(named, "load", {"blob": str(self._blob)}, group, ready=False)
        identity = plan.identity.model_dump_json()
        building = {"identity": identity, "plan_name": plan.plan_name, "modes": list(plan.modes)}
        if kind is _Kind.WARM:
            return Question(named, "build", building, group, cache=self.cache)
        return Question(named, "build", {**building, "again": not plan.is_compiled}, group)

    def weigh_cache(self) -> None:
        """Once it is filled."""
        if not any(isinstance(answer, JobError) for answer in self.filled):
            self._cache_bytes = sum(file.stat().st_size for file in self.cache.rglob("*") if file.is_file())

    def cost(self) -> PlanCost:
        """As far as it is known."""
        plan, found, messages = self._plan, dict[str, Any](), []
        for kind, answers in self.answers.items():
            error = next((answer for answer in answers if isinstance(answer, JobError)), None)
            if error is None:
                found |= _fields(kind, [answer for answer in answers if not isinstance(answer, JobError)])
            else:
                messages.append(f"{kind}: {error}")
        return PlanCost(
            identity=plan.identity,
            plan_name=plan.plan_name,
            modes=dict(plan.modes),
            compiled=plan.is_compiled,
            blob_bytes=plan.blob_bytes,
            cache_bytes=self._cache_bytes,
            message=" ".join(messages) or None,
            **found,
        )


def _fields(kind: _Kind, answers: Sequence[Content]) -> dict[str, Any]:
    if kind is _Kind.LOAD:
        return {
            "first_load_ms": _times(answers, "first_ms"),
            "load_ms": _times(answers, "load_ms"),
            "execute_load_ms": _times(answers, "execute_ms"),
            "precompiled": answers[0]["precompiled"],
            "precompiled_message": answers[0]["precompiled_message"],
        }
    name = "cold" if kind is _Kind.COLD else "warm"
    told = {f"{name}_ms": _times(answers, "build_ms"), f"execute_{name}_ms": _times(answers, "execute_ms")}
    return {**told, "again_ms": _times(answers, "again_ms")} if kind is _Kind.COLD else told


def _times(answers: Sequence[Content], name: str) -> Times | None:
    values = [answer[name] for answer in answers if answer[name] is not None]
    return Times(values_ms=tuple(values)) if values else None
