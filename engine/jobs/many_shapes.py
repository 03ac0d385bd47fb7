"""Plans for a list of sizes: each on its own, with a shared kernel cache, and by override; and a recipe tuned at one
size built at another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.graph.spec import GraphSpec
from engine.jobs.conversation import Content, Lost
from engine.jobs.protocol import JobError
from engine.jobs.standby import Question, Standby
from engine.records.plan import PlanIdentity
from engine.records.reuse import DynamicShapes, Series, SizePlan, Transplant, Way

CACHE_FILE = "kernel-cache"


class ManyShapes:
    """One letter's sizes with their graphs, in the order asked; ``folder`` is for files that processes exchange."""

    def __init__(self, standby: Standby, specs: Mapping[int, GraphSpec], modes: Sequence[str], folder: Path) -> None:
        self._standby, self._specs = standby, specs
        self._modes, self._folder = list(modes), folder
        self.blobs: dict[tuple[Way, int], str] = {}
        """Serialized plans in ``folder`` by their SHA-256."""

    def series(self, ways: Sequence[Way] = tuple(Way)) -> tuple[Series, ...]:
        """Each way all sizes in one process. Raises JobCancelled."""
        asked = [_Asked(way, list(self._specs), self._saved if way is Way.CACHE else None) for way in ways]
        return tuple(map(self._series, asked, self._ask(asked)))

    def transplants(self, chosen: Mapping[int, tuple[PlanIdentity, str]]) -> tuple[Transplant, ...]:
        """The plan chosen at each size, built at every other: whether cuDNN takes it there. Raises JobCancelled."""
        elsewhere = [(at, size) for at in chosen for size in self._specs if size != at]
        answers = self._standby.answers([self._transplanted(*chosen[at], at, size) for at, size in elsewhere])
        refused = {
            pair: str(answer) for pair, answer in zip(elsewhere, answers, strict=True) if isinstance(answer, JobError)
        }
        return tuple(
            Transplant(
                tuned_at=at,
                run_at=size,
                plan_name=name,
                builds=(at, size) not in refused,
                message=refused.get((at, size)),
            )
            for at, (_, name) in chosen.items()
            for size in self._specs
        )

    def _series(self, asked: _Asked, answer: Content | JobError) -> Series:
        told: Content = {} if isinstance(answer, JobError) else answer
        message = str(answer) if isinstance(answer, JobError) else "no answer."
        sizes = [asked.found.get(size) or SizePlan(size=size, refused=message) for size in asked.sizes]
        reloaded_ms = None
        if asked.way is Way.CACHE and told.get("cache_bytes"):
            first = next((plan.size for plan in sizes if plan.build_ms is not None), None)
            if first is not None:
                again = _Asked(asked.way, [first], cache_in=self._saved)
                self._ask([again])
                reloaded_ms = again.found[first].build_ms if first in again.found else None
        return Series(
            way=asked.way,
            sizes=tuple(sizes),
            cache_bytes=told.get("cache_bytes"),
            cache_message=told.get("cache_message"),
            reloaded_ms=reloaded_ms,
        )

    @property
    def _saved(self) -> Path:
        return self._folder / CACHE_FILE

    def _ask(self, asked: Sequence[_Asked]) -> list[Content | JobError]:
        return self._standby.answers([self._question(one) for one in asked])

    def _question(self, asked: _Asked) -> Question:
        def take(part: Content) -> None:
            try:
                plan = SizePlan.model_validate_json(json.dumps(part["plan"]))
            except (KeyError, ValidationError) as error:
                raise Lost(f"sent something that is no plan of a size: {error}") from None
            asked.found[plan.size] = plan
            if part.get("blob_sha256"):
                self.blobs[(asked.way, plan.size)] = part["blob_sha256"]

        content: dict[str, Any] = {
            "specs": [self._specs[size].model_dump_json() for size in asked.sizes],
            "sizes": asked.sizes,
            "way": asked.way.value,
            "modes": self._modes,
            "blob_dir": str(self._folder),
            "cache_in": str(asked.cache_in) if asked.cache_in else None,
            "cache_out": str(asked.cache_out) if asked.cache_out else None,
        }
        return Question(f"{asked.way}, {len(asked.sizes)} sizes", "shapes", content, on_part=take)

    def _transplanted(self, identity: PlanIdentity, name: str, at: int, size: int) -> Question:
        content = {"spec": self._specs[size].model_dump_json(), "identity": identity.model_dump_json()}
        return Question(f"{name} of {at} at {size}", "build", {**content, "plan_name": None, "modes": []}, ready=False)


@dataclass
class _Asked:
    """Sizes asked for in one way, and as many plans of them as have been ``found``."""

    way: Way
    sizes: list[int]
    cache_out: Path | None = None
    cache_in: Path | None = None
    found: dict[int, SizePlan] = field(default_factory=dict)


def questions_asked(sizes: int, matrix: bool) -> int:
    """How many ``dynamic_shapes`` asks at most."""
    return len(Way) + 1 + (sizes * (sizes - 1) if matrix else 0)


def dynamic_shapes(shapes: ManyShapes, letter: str, sizes: Sequence[int], matrix: bool = True) -> DynamicShapes:
    """Every way, and with ``matrix`` each size's first plan at every other size. Raises JobCancelled."""
    series = shapes.series()
    chosen = {
        plan.size: (plan.identity, plan.plan_name)
        for plan in series[0].sizes
        if plan.identity is not None and plan.plan_name is not None
    }
    transplants = shapes.transplants(chosen) if matrix else ()
    return DynamicShapes(letter=letter, sizes=tuple(sizes), series=series, matrix=transplants)
