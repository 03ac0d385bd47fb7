"""A study of reuse from beginning to end: plan and build, then pay for everything once more, alone."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from engine.graph.spec import GraphSpec
from engine.jobs.gpulock import LOCK_FOLDER, GpuLock
from engine.jobs.many_shapes import ManyShapes, dynamic_shapes
from engine.jobs.measuring import WORKER_MODULE, Deadlines
from engine.jobs.paying import REUSER_MODULE, Payer, plan_cost
from engine.jobs.planning import PlanOutcome, plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.shape_speeds import with_speeds
from engine.plans.targets import Target
from engine.records.options import SweepOptions
from engine.records.plan import PlanRecord
from engine.records.reuse import GraphUse, Reuse
from engine.records.run import RunKind, RunRecord, RunStatus

Report = Callable[[str, int, int], None]
"""What is being done, how many steps are done, and of how many."""


@dataclass(frozen=True)
class Study:
    """What is asked. ``letter`` and ``shapes``: sizes of a letter with their graphs, in order; ``plans``: how many
    plans, as the heuristics list them, None for all; ``graphs``: whether CUDA graphs are tried, on a GPU."""

    pipeline: str
    parameters: Mapping[str, str]
    graph: GraphSpec
    target: Target
    options: SweepOptions
    repeats: int = 3
    plans: int | None = None
    letter: str = ""
    shapes: Mapping[int, GraphSpec] = field(default_factory=dict)
    matrix: bool = True
    graphs: bool = True


@dataclass(frozen=True)
class Processes:
    """Whom a study starts; tests take others."""

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


class _Studying:
    def __init__(
        self, asked: Study, folder: Path, cancel: threading.Event, report: Report, processes: Processes
    ) -> None:
        self._asked, self._folder, self._cancel = asked, folder, cancel
        self._report, self._processes = report, processes
        self._on_gpu = asked.target.is_local
        self._began = time.monotonic()

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
        self._report("building every plan", 0, 0)
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
        payer = Payer(asked.graph.model_dump_json(), asked.target, self._cancel, self._on_gpu, self._processes.reuser)
        graphs = asked.graphs and self._on_gpu
        total = len(built) * (2 if graphs else 1) + (1 if asked.shapes else 0)
        costs, uses = [], []
        for number, plan in enumerate(built):
            self._report(f"paying for {plan.plan_name}", number, total)
            costs.append(plan_cost(payer, plan, self._folder / str(plan.blob_sha256), asked.repeats))
        for number, plan in enumerate(built if graphs else (), len(costs)):
            self._report(f"CUDA graphs of {plan.plan_name}", number, total)
            uses.append(self._use(payer, plan))
        shapes = None
        if asked.shapes:
            self._report(f"sizes of {asked.letter}", total - 1, total)
            many = ManyShapes(payer, asked.shapes, asked.options.modes, self._folder)
            shapes = dynamic_shapes(many, asked.letter, list(asked.shapes), asked.matrix)
            if self._on_gpu:
                shapes = with_speeds(
                    shapes,
                    asked.shapes,
                    many.blobs,
                    asked.target,
                    self._folder,
                    self._cancel,
                    self._processes.worker,
                    self._processes.builder,
                    self._processes.deadlines,
                )
        self._report("done", total, total)
        return Reuse(on_gpu=self._on_gpu, repeats=asked.repeats, costs=tuple(costs), shapes=shapes, graphs=tuple(uses))

    def _use(self, payer: Payer, plan: PlanRecord) -> GraphUse:
        compiled = "RUNTIME_COMPILATION" in plan.behavior_notes
        content = {
            "blob": str(self._folder / str(plan.blob_sha256)),
            "identity": plan.identity.model_dump_json(),
            "plan_name": plan.plan_name,
            "compiled": compiled,
            "seed": self._asked.options.seed,
        }
        try:
            answer = payer.ask("graphs", content)
            return GraphUse.model_validate_json(json.dumps(answer["use"]))
        except (JobError, KeyError, ValidationError) as error:
            return GraphUse(
                identity=plan.identity,
                plan_name=plan.plan_name,
                compiled=compiled,
                captured=False,
                capture_message=str(error)[:500],
            )
