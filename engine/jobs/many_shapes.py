"""Plans for a list of sizes: each on its own, with a shared kernel cache, and by override; and a recipe tuned at one
size built at another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.graph.spec import GraphSpec
from engine.jobs.conversation import Content, Lost
from engine.jobs.paying import Payer
from engine.jobs.protocol import JobError
from engine.records.plan import PlanIdentity
from engine.records.reuse import DynamicShapes, Series, SizePlan, Transplant, Way

CACHE_FILE = "kernel-cache"


class ManyShapes:
    """One letter's sizes with their graphs, in the order asked; ``folder`` is for files that processes exchange."""

    def __init__(self, payer: Payer, specs: Mapping[int, GraphSpec], modes: Sequence[str], folder: Path) -> None:
        self._payer, self._specs = payer, specs
        self._modes, self._folder = list(modes), folder
        self.blobs: dict[tuple[Way, int], str] = {}
        """Serialized plans in ``folder`` by their SHA-256."""

    def series(self, way: Way) -> Series:
        """All sizes in one process. Raises JobCancelled."""
        saved = self._folder / CACHE_FILE
        found, told, message = self._ask(way, list(self._specs), cache_out=saved if way is Way.CACHE else None)
        sizes = [found.get(size) or SizePlan(size=size, refused=message or "no answer.") for size in self._specs]
        reloaded_ms = None
        if way is Way.CACHE and told.get("cache_bytes"):
            first = next((plan.size for plan in sizes if plan.build_ms is not None), None)
            if first is not None:
                again, _, _ = self._ask(way, [first], cache_in=saved)
                reloaded_ms = again[first].build_ms if first in again else None
        return Series(
            way=way,
            sizes=tuple(sizes),
            cache_bytes=told.get("cache_bytes"),
            cache_message=told.get("cache_message"),
            reloaded_ms=reloaded_ms,
        )

    def transplants(self, chosen: Mapping[int, tuple[PlanIdentity, str]]) -> tuple[Transplant, ...]:
        """The plan chosen at each size, built at every other: whether cuDNN takes it there. Raises JobCancelled."""
        found = []
        for at, (identity, name) in chosen.items():
            for size, spec in self._specs.items():
                content = {"spec": spec.model_dump_json(), "identity": identity.model_dump_json()}
                message = None
                if size != at:
                    try:
                        self._payer.ask("build", {**content, "plan_name": None, "modes": []}, ready=False)
                    except JobError as error:
                        message = str(error)
                built = message is None
                found.append(Transplant(tuned_at=at, run_at=size, plan_name=name, builds=built, message=message))
        return tuple(found)

    def _ask(
        self, way: Way, sizes: list[int], cache_in: Path | None = None, cache_out: Path | None = None
    ) -> tuple[dict[int, SizePlan], Content, str | None]:
        """Plans by size, as many as there are; the answer; and why there is none."""
        found: dict[int, SizePlan] = {}

        def take(part: Content) -> None:
            try:
                plan = SizePlan.model_validate_json(json.dumps(part["plan"]))
            except (KeyError, ValidationError) as error:
                raise Lost(f"sent something that is no plan of a size: {error}") from None
            found[plan.size] = plan
            if part.get("blob_sha256"):
                self.blobs[(way, plan.size)] = part["blob_sha256"]

        content: dict[str, Any] = {
            "specs": [self._specs[size].model_dump_json() for size in sizes],
            "sizes": sizes,
            "way": way.value,
            "modes": self._modes,
            "blob_dir": str(self._folder),
            "cache_in": str(cache_in) if cache_in else None,
            "cache_out": str(cache_out) if cache_out else None,
        }
        try:
            return found, self._payer.ask("shapes", content, on_part=take), None
        except JobError as error:
            return found, {}, str(error)


def dynamic_shapes(shapes: ManyShapes, letter: str, sizes: Sequence[int], matrix: bool = True) -> DynamicShapes:
    """Every way, and with ``matrix`` each size's first plan at every other size. Raises JobCancelled."""
    series = tuple(shapes.series(way) for way in Way)
    chosen = {
        plan.size: (plan.identity, plan.plan_name)
        for plan in series[0].sizes
        if plan.identity is not None and plan.plan_name is not None
    }
    transplants = shapes.transplants(chosen) if matrix else ()
    return DynamicShapes(letter=letter, sizes=tuple(sizes), series=series, matrix=transplants)
