"""Receives plans while others are still being built: loaded, executed, compared and screened by the measuring process.

A few requests are under way at a time, so that the process need not wait for its parent; which plan is next among those
that wait is drawn with the run's seed. A plan that takes the process with it costs that plan.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.jobs.conversation import Conversation, Declined, Lost
from engine.jobs.measuring import GpuWorker, Setback, read
from engine.measure.findings import Finding
from engine.records.plan import PlanRecord, Stage

AHEAD = 3
PATIENCE = 2
"""How often in a row a process may end before it begins with a plan, until that plan is blamed."""


@dataclass(frozen=True)
class Entry:
    """A plan that was built, and the file it stands in."""

    plan: PlanRecord
    blob: Path

    @property
    def content(self) -> dict[str, Any]:
        """What the measuring process needs to load it."""
        plan = self.plan
        known = {"key": plan.key, "blob": str(self.blob), "sha256": plan.blob_sha256}
        return {**known, "workspace_bytes": plan.workspace_bytes or 0}


class Admission:
    """Feed it with ``add``, call ``step`` until it is ``idle``."""

    def __init__(self, worker: GpuWorker, seed: int) -> None:
        self._worker, self._random = worker, random.Random(seed)
        self._waiting: list[Entry] = []
        self._asked: deque[tuple[Conversation, int, Entry]] = deque()
        self._given_back = 0  # Since the last finding.
        self._best_us: float | None = None

    @property
    def idle(self) -> bool:
        """Whether every plan that was added has been received."""
        return not self._waiting and not self._asked

    def add(self, entry: Entry) -> None:
        """One more plan."""
        self._waiting.append(entry)

    def step(self, timeout_s: float) -> Finding | None:
        """The next finding, waited for at most so long. Raises JobError where no process can be started or prepared."""
        if not self._worker.is_ready(timeout_s):
            return None
        try:
            self._feed()
            return self._next(timeout_s)
        except (Lost, Declined) as error:
            return self._blame(self._worker.setback(error))

    def _feed(self) -> None:
        process = self._worker.process
        while self._asked and self._asked[0][0] is not process:  # What an earlier process was asked for.
            self._waiting.append(self._asked.popleft()[2])
        while self._waiting and len(self._asked) < AHEAD:
            entry = self._waiting[chosen := self._random.randrange(len(self._waiting))]
            number = process.ask("admit", **entry.content, best_us=self._best_us)
            self._asked.append((process, number, self._waiting.pop(chosen)))

    def _next(self, timeout_s: float) -> Finding | None:
        if not self._asked:
            return None
        process, number, entry = self._asked[0]
        answer = process.told(number, timeout_s)
        if answer is None:
            process.check(number, self._worker.deadlines.load_s, self._worker.deadlines.stages)
            return None
        finding = read(Finding, answer.get("finding"))
        if finding.key != entry.plan.key:
            raise Lost(f"answered for another plan, {finding.key}", Stage.LOAD, entry.plan.key)
        self._asked.popleft()
        self._given_back = 0
        if finding.screening is not None:
            self._worker.loaded.add(finding.key)
            self._best_us = min(finding.screening.median_us, self._best_us or finding.screening.median_us)
        if answer.get("restart"):
            self._worker.close()
        return finding

    def _blame(self, setback: Setback) -> Finding | None:
        """The finding about the plan that cost the process; None where no plan did, for it was already ending."""
        if not self._asked:
            return None
        entry = self._asked.popleft()[2]
        if not setback.begun and self._given_back < PATIENCE:
            self._given_back += 1
            self._waiting.append(entry)
            return None
        self._given_back = 0
        return Finding(key=entry.plan.key, status=setback.status, stage=setback.stage, message=setback.message)
