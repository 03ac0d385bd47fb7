"""A study of reuse from beginning to end: plan and build, then pay for everything once more, alone."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.jobs import many_shapes, paying
from engine.jobs.capacity import default_size
from engine.jobs.gpulock import LOCK_FOLDER, GpuLock
from engine.jobs.many_shapes import ManyShapes, dynamic_shapes
from engine.jobs.measuring import WORKER_MODULE, Deadlines
from engine.jobs.paying import graph_uses, plan_costs
from engine.jobs.planning import PlanOutcome, plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.request import Study
from engine.jobs.shape_speeds import with_speeds
from engine.jobs.standby import REUSER_MODULE, STEPS, Standby
from engine.records.plan import PlanRecord
from engine.records.reuse import DynamicShapes, Reuse
from engine.records.run import RunKind, RunRecord, RunStatus

Report = Callable[[str, int, int, float | None], None]
"""What is being done, how many steps are done and of how many, and a guess at the seconds left."""
_COPIES = 4
"""Of a graph's tensors a process holds at most: two sets, to see whom CUDA graphs write to, and what it compares."""


@dataclass(frozen=True)
class Processes:
    """Whom a study starts; tests take others. ``builders``: how many at once, also of those that then stand by."""

    builder: str = "engine.jobs.builder"
    reuser: str = REUSER_MODULE
    worker: str = WORKER_MODULE
    deadlines: Deadlines | None = None
    lock_folder: Path = LOCK_FOLDER
    builders: int | None = None


def study(
    asked: Study,
    folder: Path,
    cancel: threading.Event,
    report: Report | None = None,
    processes: Processes | None = None,
) -> tuple[RunRecord, PlanOutcome]:
    """Do it; serialized plans come into ``folder`` by their SHA-256. Where cuDNN refuses the graph the run has no
    ``reuse``. Raises JobCancelled, JobError and CannotPlan. Start it from a thread that outlives it."""
    return _Studying(asked, folder, cancel, report or (lambda *_: None), processes or Processes()).run()


class _Steps:
    """What a report is told: every step counts alike, and goes on at the pace of those before it."""

    def __init__(self, report: Report, total: int) -> None:
        self._report, self._done, self._total = report, 0, total
        self._began = time.monotonic()

    def taken(self, what: str, steps: int) -> None:
        """So many more, and ``what`` is being done."""
        self._done = min(self._done + steps, self._total)
        elapsed_s = time.monotonic() - self._began
        left_s = elapsed_s / self._done * (self._total - self._done) if self._done else None
        self._report(what, self._done, self._total, left_s)

    def end(self) -> None:
        """Some may not have been needed."""
        self.taken("done", self._total)


class _Studying:
    def __init__(
        self, asked: Study, folder: Path, cancel: threading.Event, report: Report, processes: Processes
    ) -> None:
        self._asked, self._folder, self._cancel = asked, folder, cancel
        self._report, self._processes = report, processes
        self._on_gpu = asked.target.is_local

    def run(self) -> tuple[RunRecord, PlanOutcome]:
        started = datetime.now(UTC)
        outcome = self._plan()
        if self._cancel.is_set() or outcome.environment is None:
            raise JobCancelled
        reuse = None
        if any(plan.blob_sha256 for plan in outcome.plans):
            reuse = self._locked(outcome.plans) if self._on_gpu else self._pay(outcome.plans)
        asked = self._asked
        run = RunRecord(
            id=uuid.uuid4().hex,
            kind=RunKind.PLAN,
            status=RunStatus.DONE,
            pipeline=asked.pipeline,
            parameters=dict(asked.parameters),
            graph=asked.graph,
            target=asked.target.info,
            environment=outcome.environment,
            options=asked.options,
            started_at=started,
            finished_at=datetime.now(UTC),
            refusal=outcome.refusal,
            plans=outcome.plans,
            reuse=reuse,
        )
        return run, outcome

    def _plan(self) -> PlanOutcome:
        """List and build everything, at once and so under load: of this nothing is timed."""
        asked, processes = self._asked, self._processes
        self._report("building every plan", 0, 0, None)
        with BuilderPool(
            processes.builders, compute_cache=True, gpu_uuid=asked.target.gpu_uuid, module=processes.builder
        ) as pool:
            return plan_graph(
                asked.graph,
                asked.target,
                asked.options.modes,
                pool=pool,
                blob_dir=self._folder,
                cancel=self._cancel,
                variants=(),
            )

    def _locked(self, plans: Sequence[PlanRecord]) -> Reuse:
        uuid_ = self._asked.target.gpu_uuid
        if uuid_ is None:
            raise JobError("a study on a GPU needs one with a UUID.")
        with GpuLock(uuid_, "study of reuse", self._processes.lock_folder).acquired(self._cancel):
            return self._pay(plans)

    def _pay(self, plans: Sequence[PlanRecord]) -> Reuse:
        asked = self._asked
        built = [plan for plan in plans if plan.blob_sha256][: asked.plans]
        graphs = asked.graphs and self._on_gpu
        steps = _Steps(self._report, self._steps(len(built), graphs))
        standby = Standby(
            asked.graph.model_dump_json(),
            asked.target,
            self._cancel,
            self._on_gpu,
            self._size(built),
            self._processes.reuser,
            steps.taken,
        )
        costs = plan_costs(standby, built, self._folder, asked.repeats)
        uses = graph_uses(standby, built, self._folder, asked.options.seed) if graphs else ()
        shapes = self._shapes(standby, steps) if asked.shapes else None
        steps.end()
        return Reuse(on_gpu=self._on_gpu, repeats=asked.repeats, costs=costs, shapes=shapes, graphs=uses)

    def _steps(self, plans: int, graphs: bool) -> int:
        asked = self._asked
        questions = paying.questions_asked(plans, asked.repeats, graphs)
        if asked.shapes:
            questions += many_shapes.questions_asked(len(asked.shapes), asked.matrix and not self._on_gpu)
        return STEPS * (questions + (len(asked.shapes) if self._on_gpu else 0))

    def _size(self, plans: Sequence[PlanRecord]) -> int:
        """How many processes stand by at once: each holds the graph's tensors and, once asked, a plan's workspace."""
        if self._processes.builders:
            return self._processes.builders
        specs = (self._asked.graph, *self._asked.shapes.values())
        tensors = max(sum(tensor.nbytes for tensor in spec.real) for spec in specs)
        workspace = max((plan.workspace_bytes or 0 for plan in plans), default=0)
        return default_size(self._asked.target if self._on_gpu else None, _COPIES * tensors + workspace)

    def _shapes(self, standby: Standby, steps: _Steps) -> DynamicShapes:
        asked, processes = self._asked, self._processes
        many = ManyShapes(standby, asked.shapes, asked.options.modes, self._folder)
        # On a GPU the matrix is measured, of each size's best plan.
        shapes = dynamic_shapes(many, asked.letter, list(asked.shapes), asked.matrix and not self._on_gpu)
        if not self._on_gpu:
            return shapes
        steps.taken(f"measuring every size of {asked.letter}", 0)
        return with_speeds(
            shapes,
            asked.shapes,
            many.blobs,
            asked.target,
            self._folder,
            self._cancel,
            processes.worker,
            processes.builder,
            processes.deadlines,
        )
