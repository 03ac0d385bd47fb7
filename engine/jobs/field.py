"""The plans that go on after screening, over restarts of the measuring process: who is loaded, and who had to be left.

What takes the process with it costs the plan that is to blame; where nobody knows who that is, the same is asked again
with every plan announced before its turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engine.jobs.admission import Entry
from engine.jobs.conversation import Content, OnPart
from engine.jobs.measuring import GpuWorker, Setback
from engine.jobs.protocol import JobError

logger = logging.getLogger(__name__)

MOST_LOSSES = 3
"""That no plan is to blame for: after so many the machine is."""
Ask = Callable[[tuple[str, ...], bool], Mapping[str, Any]]
"""What to send along, for these plans; whether each has to be announced."""


class Field:
    """``executions``: how many executions a plan's replays hold, once that is settled."""

    def __init__(self, worker: GpuWorker, entries: Iterable[Entry]) -> None:
        self._worker = worker
        self.entries = {entry.plan.key: entry for entry in entries}
        self.executions: dict[str, int] = {}
        self.lost: dict[str, Setback] = {}
        self._careful = False
        self._losses = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Those still in it."""
        return tuple(key for key in self.entries if key not in self.lost)

    def ask(self, op: str, content: Ask, on_part: OnPart | None = None, keys: Iterable[str] | None = None) -> Content:
        """A request about plans (all, or of ``keys`` those still there), with those that cost the process left out of
        the next try. Gives the answer; empty where no plan is left. Raises JobError where the machine is to blame.
        """
        wanted = None if keys is None else tuple(keys)
        while going := tuple(key for key in self.keys if wanted is None or key in wanted):
            try:
                self._load(going)
                return self._worker.request(op, on_part, **content(going, self._careful))
            except Setback as setback:
                self._take(setback)
        return {}

    def _load(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            if key not in self._worker.loaded:
                entry, held = self.entries[key], self.executions.get(key)
                self._worker.request("reload", **entry.content, executions=held)
                self._worker.loaded.add(key)

    def _take(self, setback: Setback) -> None:
        if setback.key in self.keys:
            assert setback.key is not None
            logger.warning("plan %s: %s", setback.key, setback.message)
            self.lost[setback.key] = setback
            return
        self._losses += 1
        self._careful = True
        if self._losses >= MOST_LOSSES:
            raise JobError(f"the measuring process was lost {self._losses} times; the last time: {setback.message}")
