"""Builders, asked one thing after the other about the plans of one graph of a bundle."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.bundles.checkups import Loading, Rebuilding
from engine.bundles.reading import BundledPlan
from engine.jobs.builder import UNUSABLE
from engine.jobs.endings import built
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.replies import End, Reply
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Status


class Asking:
    """Builders, asked about the plans of one graph."""

    def __init__(self, pool: BuilderPool, common: Mapping[str, str], folder: Path, cancel: threading.Event) -> None:
        self._pool, self._common, self._folder, self._cancel = pool, common, folder, cancel

    def load(self, plan: BundledPlan, here: str) -> Loading:
        """Load the serialized form, where it is of the cuDNN version at hand."""
        made_by = plan.file.recipe.cudnn_backend
        if made_by != here:
            told = f"cuDNN {made_by} serialized it, and cuDNN {here} loads what it serialized itself alone."
            return Loading(ok=False, message=told)
        reply = self._ask("load", sha256=plan.file.serialized_sha256, blob_dir=str(self._folder))
        if reply.end is End.DONE:
            return Loading(ok=True, milliseconds=reply.content["deserialize_ms"])
        return Loading(ok=False, message=reply.message)

    def rebuild(self, plan: BundledPlan) -> tuple[Rebuilding, PlanRecord | None]:
        """Build it anew; the plan where that is the same one."""
        recipe, record = plan.file.recipe, plan.file.record
        return self.build(record.identity, recipe.plan_name, list(record.modes))

    def build(
        self, identity: PlanIdentity, plan_name: str | None, modes: list[str]
    ) -> tuple[Rebuilding, PlanRecord | None]:
        """Build a plan into the folder, under this name or not at all."""
        reply = self._ask(
            "build",
            identity=identity.model_dump_json(),
            plan_name=plan_name,
            modes=modes,
            blob_dir=str(self._folder),
        )
        if reply.end is not End.DONE:
            return Rebuilding(ok=False, message=reply.message), None
        plan = PlanRecord(
            identity=identity,
            plan_name=plan_name or identity.key,
            modes={},
            origin=PlanOrigin.EXPLICIT,
            status=Status.OK,
            **built(reply),
        )
        rebuilding = Rebuilding(
            ok=True, workspace_bytes=plan.workspace_bytes, milliseconds=plan.build_ms, message=plan.message
        )
        return rebuilding, plan

    def first_pick(self, mode: str) -> PlanRecord | None:
        """What a heuristics mode lists first here."""
        reply = self._ask("list", mode=mode)
        if reply.end is not End.DONE or not reply.events:
            return None
        return PlanRecord.model_validate_json(reply.events[0]["record"])

    def _ask(self, op: str, **content: Any) -> Reply:
        reply = self._pool.submit(op, {**self._common, **content}, cancel=self._cancel).result()
        if reply.end is End.CANCELLED:
            raise JobCancelled
        if reply.end is End.FAILED and reply.content.get("status") == UNUSABLE:
            raise JobError(reply.message)
        return reply
