"""The account of a sweep while it goes on: every outcome goes into the store as it comes, and into what is reported."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from engine.jobs.estimate import Estimate
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.request import Progress, Request
from engine.measure.screening import RULES
from engine.records.environment import Environment
from engine.records.plan import PlanRecord, Stage, Status
from engine.records.run import Baseline, Confirmation, Phases, Refusal, RunKind, RunRecord, RunStatus
from engine.runs.store import StoreError

logger = logging.getLogger(__name__)

FLUSH_S = 0.25
"""Outcomes that come faster than this go into the store together: writing must not hold up measuring."""
Report = Callable[[Progress], None]


class RunSink(Protocol):
    """Where a run is kept as it happens; ``engine.runs.store.Store`` is one. Its methods may raise StoreError."""

    @property
    def blob_dir(self) -> Path:
        """Where builders write serialized plans, named by their SHA-256."""

    def create_run(self, run: RunRecord) -> None:
        """Keep a new run."""

    def add_plans(self, run_id: str, plans: Sequence[PlanRecord]) -> None:
        """Keep plans, in place of earlier records of theirs."""

    def set_baseline(self, run_id: str, baseline: Baseline) -> None:
        """Keep what torch took."""

    def set_aftermath(self, run_id: str, confirmation: Confirmation | None, phases: Phases | None) -> None:
        """Keep the confirmation of the winner, and what the phases took."""

    def finish(
        self, run_id: str, status: RunStatus, message: str | None = None, refusal: Refusal | None = None
    ) -> None:
        """The run has ended."""

    def abandon(self, run_id: str) -> None:
        """The run has ended, and that cannot be stored. Never raises."""


class Ledger:
    """One run's account. ``estimate`` is told of steps by whoever takes them."""

    def __init__(self, request: Request, store: RunSink, builders: int, report: Report) -> None:
        self._request, self._store, self._report = request, store, report
        self.estimate = Estimate(builders, RULES[request.options.preset])
        self.refusal: Refusal | None = None
        self.remarks: tuple[str, ...] = ()
        self.environment: Environment | None = None
        self._plans: dict[str, PlanRecord] = {}
        self._unwritten: dict[str, PlanRecord] = {}
        self._written_at = time.monotonic()
        self.confirmation: Confirmation | None = None
        self.phases: Phases | None = None
        self._baseline: Baseline | None = None
        self._run: RunRecord | None = None
        self._started_at = datetime.now(UTC)

    @property
    def is_open(self) -> bool:
        """Whether the run is in the store."""
        return self._run is not None

    def begin(self) -> None:
        """The waiting is over."""
        self._started_at = datetime.now(UTC)

    @property
    def plans(self) -> dict[str, PlanRecord]:
        """All plans as they stand, by key, in the order cuDNN listed them."""
        return dict(self._plans)

    def note(self, plans: Sequence[PlanRecord]) -> None:
        """Take in plans without storing them."""
        self._plans.update({plan.key: plan for plan in plans})

    def enter(self, plan: PlanRecord) -> None:
        """Take in a plan's outcome; it is in the store soon, once the run is."""
        self.note([plan])
        self._unwritten[plan.key] = plan
        self.tick()

    def tick(self) -> None:
        """Time goes by: store what has been waiting for FLUSH_S."""
        if time.monotonic() - self._written_at > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Store what has come in."""
        if self._run is not None and self._unwritten:
            self._store.add_plans(self._run.id, list(self._unwritten.values()))
            self._unwritten.clear()
            self._written_at = time.monotonic()

    def enter_baseline(self, baseline: Baseline) -> None:
        """Take in and store what torch took."""
        assert self._run is not None
        self._baseline = baseline
        self._store.set_baseline(self._run.id, baseline)

    def open(self, environment: Environment) -> None:
        """Put the run into the store, with what there is of it; harmless when it is there."""
        if self._run is not None:
            return
        request = self._request
        run = RunRecord(
            id=uuid.uuid4().hex,
            kind=RunKind.SWEEP,
            status=RunStatus.RUNNING,
            pipeline=request.pipeline,
            parameters=dict(request.parameters),
            graph=request.graph,
            target=request.target.info,
            environment=environment,
            options=request.options,
            started_at=self._started_at,
            plans=tuple(self._plans.values()),
        )
        self._store.create_run(run)
        self._unwritten.clear()
        self._run, self.environment = run, environment

    def tell(self, message: str, ended: RunStatus | None = None) -> None:
        """Report how far it is."""
        self._report(
            Progress(
                done=self.estimate.done,
                total=self.estimate.total,
                eta_s=None if ended else self.estimate.left_s,
                message=message,
                plans=tuple(self._plans.values()),
                refusal=self.refusal,
                baseline=self._baseline,
                environment=self.environment,
                remarks=self.remarks,
                run_id=self._run.id if self._run else None,
                ended=ended,
            )
        )

    def close(self, status: RunStatus, message: str | None) -> RunRecord:
        """End every plan that has not ended, and the run: in the store, and in memory also where the store fails.

        Raises JobCancelled or JobError where there is nothing to record yet.
        """
        if status is not RunStatus.DONE:
            self._forgo("it was cancelled" if status is RunStatus.CANCELLED else "the run failed")
        elif self.refusal is None and not any(plan.timings for plan in self._plans.values()):
            message = "no plan could be built and measured"
        try:
            self._finish(status, message)
        except StoreError as error:
            logger.error("the end of a %s could not be stored: %s", self._request, error)
            if status is RunStatus.DONE:
                status = RunStatus.FAILED
            if self._run is not None:
                self._store.abandon(self._run.id)
            message = str(error) if message in (None, str(error)) else f"{message}; {error}"
        if self._run is None:
            raise JobCancelled if status is RunStatus.CANCELLED else JobError(message or "nothing could be recorded")
        ending = {
            "status": status,
            "message": message,
            "refusal": self.refusal,
            "baseline": self._baseline,
            "confirmation": self.confirmation,
            "phases": self.phases,
        }
        plans = tuple(self._plans.values())
        self._run = self._run.model_copy(update={**ending, "plans": plans, "finished_at": datetime.now(UTC)})
        self.tell(self._verdict(message), ended=status)
        return self._run

    def _finish(self, status: RunStatus, message: str | None) -> None:
        if self._run is None and self.environment is not None:
            self.open(self.environment)
        if self._run is not None:
            if status is not RunStatus.DONE:
                self._unwritten = dict(self._plans)
            self.flush()
            if self.confirmation is not None or self.phases is not None:
                self._store.set_aftermath(self._run.id, self.confirmation, self.phases)
            self._store.finish(self._run.id, status, message, self.refusal)

    def _forgo(self, why: str) -> None:
        for plan in list(self._plans.values()):
            if plan.status is Status.LISTED or (plan.status is Status.OK and plan.timings is None):
                stage = Stage.BUILD if plan.status is Status.LISTED else Stage.EXECUTE
                ending = {"status": Status.CANCELLED, "stage": stage, "message": f"not measured: {why}"}
                self.note([PlanRecord.model_validate({**dict(plan), **ending})])

    def _verdict(self, message: str | None) -> str:
        if self.refusal is not None:
            return "cuDNN has no plan for this graph"
        measured = sum(plan.timings is not None for plan in self._plans.values())
        counted = f"{measured} of {len(self._plans)} plans measured"
        return counted if message is None else f"{message} ({counted})"
