"""A comparison from beginning to end: plan the graph, its pieces and its stages of growth, then measure them one after
the other on a locked GPU. Without a GPU it ends with what was planned.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.graph.cost import cost
from engine.graph.growth import growth
from engine.graph.spec import GraphSpec
from engine.jobs.conversation import Lost
from engine.jobs.fusion_contest import GraphContest
from engine.jobs.fusion_plans import FusionPlanner, PlannedGraph
from engine.jobs.gpulock import LOCK_FOLDER, GpuLock
from engine.jobs.measuring import Deadlines, GpuWorker, Setback, read
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.measure.screening import RULES
from engine.plans.targets import Target
from engine.records.environment import Environment
from engine.records.fusion import FusionRecord, GrowthRecord, MeasuredCeilings, PieceRecord, Version, VersionKind
from engine.records.options import Preset
from engine.records.run import RunStatus

WORKER_MODULE = "engine.jobs.fusion_worker"
GROWN = (VersionKind.UNFUSED, VersionKind.FIRST_PICK, VersionKind.TUNED)
"""Versions of a stage of growth."""
Report = Callable[[str], None]


@dataclass(frozen=True)
class FusionRequest:
    """What was asked. ``parameters``: the pipeline's, as texts."""

    pipeline: str
    parameters: Mapping[str, str]
    graph: GraphSpec
    target: Target
    seed: int = 0
    preset: Preset = Preset.STANDARD

    def __str__(self) -> str:
        return f"fusion of {self.pipeline}"


def plan_fusion(
    request: FusionRequest,
    *,
    pool: BuilderPool,
    blob_dir: Path,
    cancel: threading.Event | None = None,
    report: Report | None = None,
) -> FusionRecord:
    """The cut, a plan for each piece and the whole, and what cuDNN refuses; nothing is measured. Raises JobCancelled,
    CannotPlan."""
    return _Fusion(request, pool, blob_dir, cancel, report).planned()


def run_fusion(
    request: FusionRequest,
    *,
    pool: BuilderPool,
    blob_dir: Path,
    cancel: threading.Event | None = None,
    report: Report | None = None,
    worker_module: str = WORKER_MODULE,
    deadlines: Deadlines | None = None,
    lock_folder: Path = LOCK_FOLDER,
) -> FusionRecord:
    """The whole comparison on the request's GPU, which is locked meanwhile. Raises JobCancelled, CannotPlan, JobError;
    what fails in one version is that version's end."""
    uuid_of_gpu = request.target.gpu_uuid
    if uuid_of_gpu is None:
        raise JobError("a comparison measures: it needs a GPU of this machine")
    stop = cancel or threading.Event()
    fusion = _Fusion(request, pool, blob_dir, stop, report)
    planned = fusion.planned(every=True)
    lock = GpuLock(uuid_of_gpu, str(request), lock_folder)
    with lock.acquired(stop, lambda holder: fusion.tell(f"waiting for the GPU, which is held by a {holder}")):
        worker = GpuWorker(uuid_of_gpu, stop, worker_module, deadlines)
        try:
            return fusion.measured(planned, worker)
        finally:
            worker.close()


class _Fusion:
    """One call of either."""

    def __init__(
        self,
        request: FusionRequest,
        pool: BuilderPool,
        blob_dir: Path,
        cancel: threading.Event | None,
        report: Report | None,
    ) -> None:
        self._request, self._blob_dir = request, blob_dir
        self._cancel = cancel or threading.Event()
        self.tell = report or (lambda message: None)
        self._planner = FusionPlanner(pool, request.target, blob_dir, self._cancel)
        stages = growth(request.graph)
        self._stages = stages if len(stages) > 1 else ()
        self._whole: PlannedGraph | None = None
        self._grown: dict[str, PlannedGraph] = {}

    def planned(self, every: bool = False) -> FusionRecord:
        """``every``: build all plans of what will be measured fused, to choose the fastest from."""
        began = datetime.now(UTC)
        self.tell("planning the graph and its pieces")
        self._whole = self._planner.plan(self._request.graph, every)
        grown = []
        for stage in self._stages:
            self.tell(f"planning up to {stage.added}")
            same = stage.spec == self._request.graph
            made = self._whole if same else self._planner.plan(stage.spec, every)
            self._grown[stage.spec.graph_id] = made
            grown.append(_growth(stage.added, made))
        environment = self._planner.environment
        assert environment is not None
        return FusionRecord(
            id=uuid.uuid4().hex,
            status=RunStatus.DONE,
            pipeline=self._request.pipeline,
            parameters=dict(self._request.parameters),
            graph=self._request.graph,
            target=self._request.target.info,
            environment=environment,
            seed=self._request.seed,
            preset=self._request.preset,
            started_at=began,
            finished_at=datetime.now(UTC),
            pieces=self._whole.pieces,
            fused_plans=len(self._whole.plans) if every else self._planner.first(self._request.graph).count,
            fused_refusal=self._whole.refusal,
            growth=tuple(grown),
            remarks=tuple(self._planner.remarks),
        )

    def measured(self, record: FusionRecord, worker: GpuWorker) -> FusionRecord:
        """``record`` with what a worker measures of it. Once the versions are there, what comes after may fail, or be
        cancelled, without taking them along."""
        assert self._whole is not None
        whole = self._contest(self._whole, worker)
        self.tell("measuring the graph in all versions")
        versions = whole.run()
        environment = worker.ready()
        self._check(environment, record.environment)
        found: dict[str, Any] = {"versions": versions, "environment": environment}
        remarks = list(record.remarks)
        try:
            found["pieces"] = whole.pieces(alone=True)
            found["ceilings"] = self._ceilings(worker, remarks)
            found["growth"] = self._grow(record.growth, versions, found["pieces"], worker, remarks)
        except JobCancelled:
            found |= {"status": RunStatus.CANCELLED, "message": "cancelled"}
        found |= {"remarks": tuple(remarks), "finished_at": datetime.now(UTC)}
        return FusionRecord(**{**dict(record), **found})

    def _ceilings(self, worker: GpuWorker, remarks: list[str]) -> MeasuredCeilings | None:
        self.tell("measuring what this GPU can do")
        try:
            answer = worker.request("ceilings", seed=self._request.seed)
            return read(MeasuredCeilings, answer.get("ceilings"))
        except (Setback, Lost, JobError) as error:
            worker.close()
            remarks.append(f"What this GPU can do at most was not measured: {error}")
            return None

    def _grow(
        self,
        stages: Sequence[GrowthRecord],
        versions: tuple[Version, ...],
        pieces: tuple[PieceRecord, ...],
        worker: GpuWorker,
        remarks: list[str],
    ) -> tuple[GrowthRecord, ...]:
        """The stages in turn; the last one is the graph itself, whose versions are there already."""
        grown = []
        for stage in stages:
            made = self._grown[stage.graph_id]
            if made is self._whole:
                own = tuple(version for version in versions if version.kind in GROWN)
                grown.append(stage.model_copy(update={"versions": own, "pieces": pieces}))
                continue
            self.tell(f"measuring up to {stage.added}")
            part = self._contest(made, worker)
            try:
                own = part.run(GROWN)
                grown.append(stage.model_copy(update={"versions": own, "pieces": part.pieces()}))
            except JobError as error:
                remarks.append(f"The graph up to {stage.added} was not measured: {error}")
                grown.append(stage)
        return tuple(grown)

    def _contest(self, made: PlannedGraph, worker: GpuWorker) -> GraphContest:
        rule = RULES[self._request.preset]
        return GraphContest(made, worker, self._blob_dir, rule, self._request.seed)

    def _check(self, measuring: Environment, builders: Environment) -> None:
        if measuring.gpu is None:
            raise JobError(f"the measuring process does not see the GPU {self._request.target.info.gpu_name}")
        if measuring.cudnn_backend != builders.cudnn_backend:
            raise JobError(
                f"plans were built with cuDNN {builders.cudnn_backend}, but the measuring process has loaded "
                f"{measuring.cudnn_backend}; the System page shows where each comes from"
            )


def _growth(added: str, made: PlannedGraph) -> GrowthRecord:
    total = cost(made.cut)
    return GrowthRecord(
        added=added,
        graph_id=made.cut.graph.graph_id,
        pieces=made.pieces,
        fused_bytes=total.fused_bytes,
        unfused_bytes=total.unfused_bytes,
        refusal=made.refusal,
    )
