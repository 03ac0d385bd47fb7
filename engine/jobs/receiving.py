"""Building and receiving at the same time: plans are listed and built in a thread of their own, and each goes to the
measuring process as soon as its file is there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

from engine.jobs.admission import Admission, Entry
from engine.jobs.measuring import GpuWorker
from engine.jobs.planning import PlanOutcome, builder_environment, plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.request import Request
from engine.jobs.scores import Scores
from engine.jobs.unlisted import Beyond
from engine.measure.findings import Finding
from engine.records.environment import Environment
from engine.records.plan import PlanRecord, Status

Built = Callable[[PlanRecord, int, int], None]
Received = Callable[[Finding], None]
WAIT_S = 0.1


class Building(threading.Thread):
    """Lists and builds; ``events`` holds the builders' environment, then (record, done, total) as they come, and at
    last the outcome or what went wrong. ``wake`` is called after each. ``scores``: what is known of plans received."""

    def __init__(
        self,
        request: Request,
        pool: BuilderPool,
        blob_dir: Path,
        cancel: threading.Event,
        wake: Callable[[], None],
        scores: Scores,
    ) -> None:
        super().__init__(name="building", daemon=True)
        self._scores = scores
        self._request, self._pool, self._blob_dir, self._cancel, self._wake = request, pool, blob_dir, cancel, wake
        self.events: queue.SimpleQueue[Environment | tuple[PlanRecord, int, int] | PlanOutcome | BaseException]
        self.events = queue.SimpleQueue()

    def run(self) -> None:
        """To the end, whatever that is."""
        try:
            self._tell(self._build())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that takes the events
            self._tell(error)

    def _build(self) -> PlanOutcome:
        request = self._request
        environment = builder_environment(self._pool, request.target, self._cancel)
        if environment is None:
            raise JobCancelled
        self._tell(environment)
        return plan_graph(
            request.graph,
            request.target,
            request.options.modes,
            pool=self._pool,
            blob_dir=self._blob_dir,
            variants=request.variants,
            reload=False,  # The measuring process is another one than the builder, and loads every plan.
            sink=lambda *progress: self._tell(progress),
            cancel=self._cancel,
            environment=environment,
            beyond=Beyond.of(request.options, self._scores),
        )

    def _tell(self, event: Environment | tuple[PlanRecord, int, int] | PlanOutcome | BaseException) -> None:
        self.events.put(event)
        self._wake()


class Reception:
    """Takes the events of a Building and the findings of the measuring process, as they come.

    ``on_built`` and ``on_received`` hear of them on the calling thread; ``on_environments`` of the builders', then of
    both once the measuring process has told its own, before any plan is received. ``on_wait`` is called several times
    a second.
    """

    def __init__(
        self,
        building: Building,
        worker: GpuWorker,
        admission: Admission,
        blob_dir: Path,
        on_environments: Callable[[Environment, Environment | None], None],
        on_built: Built,
        on_received: Received,
        on_wait: Callable[[], None],
    ) -> None:
        self._building, self._worker, self._admission, self._blob_dir = building, worker, admission, blob_dir
        self._on_environments, self._on_built, self._on_received = on_environments, on_built, on_received
        self._on_wait = on_wait
        self._builders: Environment | None = None
        self._told = self._is_ready = False
        self._outcome: PlanOutcome | None = None

    def run(self, cancel: threading.Event) -> PlanOutcome:
        """Until everything is built and received. Raises what building raises, JobCancelled, and JobError where plans
        cannot be measured; not before the builders have told their environment, so that it can be recorded."""
        try:
            return self._run(cancel)
        except JobError:
            while self._builders is None and not cancel.is_set():
                self._take_event(WAIT_S)
            raise

    def _run(self, cancel: threading.Event) -> PlanOutcome:
        while self._outcome is None or (not self._admission.idle and self._outcome.refusal is None):
            if cancel.is_set():
                raise JobCancelled
            self._on_wait()
            idle = self._is_ready and (self._builders is None or self._admission.idle)
            if not self._take_event(WAIT_S if idle else 0.0) and not idle:
                self._receive()
        if self._outcome.cancelled:
            raise JobCancelled
        return self._outcome

    def _take_event(self, timeout_s: float) -> bool:
        try:
            event = self._building.events.get(timeout=timeout_s) if timeout_s else self._building.events.get_nowait()
        except queue.Empty:
            return False
        if isinstance(event, BaseException):
            raise event
        if isinstance(event, Environment):
            self._builders = event
            self._on_environments(event, None)
        elif isinstance(event, PlanOutcome):
            self._outcome = event
        else:
            plan, done, total = event
            self._on_built(plan, done, total)
            if plan.status is Status.OK and plan.blob_sha256 is not None:
                self._admission.add(Entry(plan, self._blob_dir / plan.blob_sha256))
        return True

    def _receive(self) -> None:
        self._is_ready = self._worker.is_ready(WAIT_S)
        measuring = self._worker.glance()
        if measuring is None or self._builders is None:
            return
        if not self._told:
            self._on_environments(self._builders, measuring)
            self._told = True
        if self._is_ready and (finding := self._admission.step(WAIT_S)) is not None:
            self._on_received(finding)
