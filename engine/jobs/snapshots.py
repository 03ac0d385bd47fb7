"""What others see of a job: frozen values, so that a page reads one as often as it likes while the job goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from engine.records.environment import Environment
from engine.records.plan import PlanRecord, Status
from engine.records.run import Baseline, Refusal, RunKind, TargetInfo

JobKind = RunKind | Literal["fusion", "reuse"]
"""A run of one of these kinds, a comparison, which is no run, or a study of reuse, which ends as a run of plans."""


class JobState(StrEnum):
    """Life of a job. ``done``: it came to its end, also when cuDNN refused the graph or some plans failed."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class JobSnapshot:
    """A job at one moment.

    ``done`` of ``total`` steps (a plan built is a step, a plan measured another; 0 of 0 before they are known);
    ``message``: one sentence on what happens now, or why it ended; ``position``: jobs that come before this one in its
    queue, the running one included (0 once it runs or has ended); ``plans`` in the order cuDNN listed them, each as far
    as it has come (``ok`` without timings in a sweep: built, its turn to be measured is still to come); ``remarks``:
    what a person should know beside; ``eta_s`` is None where nothing can be said, also once an estimate has run out;
    ``run_id``: the run in the store that a sweep writes to, or the comparison or study that was kept; ``version`` grows
    with every change.
    """

    id: str
    kind: JobKind
    state: JobState
    pipeline: str
    parameters: Mapping[str, str]
    graph_id: str
    target: TargetInfo
    submitted_at: datetime
    done: int
    total: int
    eta_s: float | None
    elapsed_s: float
    message: str
    position: int
    plans: tuple[PlanRecord, ...]
    refusal: Refusal | None
    baseline: Baseline | None
    environment: Environment | None
    remarks: tuple[str, ...]
    run_id: str | None
    version: int

    @property
    def fraction(self) -> float:
        """Progress from 0 to 1, for a bar."""
        return 1.0 if self.state is JobState.DONE else self.done / self.total if self.total else 0.0

    def count(self, *statuses: Status) -> int:
        """How many plans stand at one of these."""
        return sum(plan.status in statuses for plan in self.plans)
