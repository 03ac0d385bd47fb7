"""A comparison of fused and unfused as a job: it waits in the GPU's queue as a sweep does, says how far it is, and
what it measured is kept in the data folder."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

from engine.graph.growth import growth
from engine.graph.spec import GraphSpec
from engine.jobs.fusion import FusionRequest, run_fusion
from engine.jobs.job import Job
from engine.jobs.measuring import Deadlines, Setback
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobError
from engine.jobs.request import Progress
from engine.jobs.snapshots import JobState
from engine.records.run import RunStatus
from engine.runs.comparisons import keep

logger = logging.getLogger(__name__)

START_S = 20.0
STAGE_S = 6.0
"""By the fifteen comparisons recorded on an H200, which took 24 to 53 s: most of it is torch.compile, and each stage of
growth is planned and measured for itself."""


def expected_s(graph: GraphSpec) -> float:
    """About how long a comparison takes."""
    return START_S + STAGE_S * max(1, len(growth(graph)))


class _Account:
    """Each thing that a comparison tells is a step: it plans the graph and every stage of growth, measures the graph,
    the ceilings, and the stages but for the last, which is the graph."""

    def __init__(self, job: Job) -> None:
        self._job, self._began, self._told = job, time.monotonic(), 0
        stages = len(growth(job.request.graph))
        grown = stages if stages > 1 else 0
        self._total = 1 + grown + 2 + max(0, grown - 1)
        self._expected_s = expected_s(job.request.graph)

    def tell(self, message: str) -> None:
        """It does this now."""
        done = min(self._told, self._total)
        self._told += not message.startswith("waiting")
        left = self._expected_s - (time.monotonic() - self._began)
        self._job.report(Progress(done=done, total=self._total, eta_s=max(0.0, left), message=message))


def compare(
    job: Job, pool: BuilderPool, home: Path, worker_module: str, deadlines: Deadlines | None, lock_folder: Path
) -> None:
    """To the job's end. Raises JobCancelled, CannotPlan and JobError where nothing was measured."""
    request, account = job.request, _Account(job)
    asked = FusionRequest(
        request.pipeline,
        request.parameters,
        request.graph,
        request.target,
        request.options.seed,
        request.options.preset,
    )
    with tempfile.TemporaryDirectory(prefix="planscope-") as folder:
        try:
            record = run_fusion(
                asked,
                pool=pool,
                blob_dir=Path(folder),
                cancel=job.cancel,
                report=account.tell,
                worker_module=worker_module,
                deadlines=deadlines,
                lock_folder=lock_folder,
            )
        except Setback as setback:
            raise JobError(setback.message) from None
    if not record.measured:
        raise JobError(next((v.message for v in record.versions if v.message), "nothing could be measured"))
    try:
        path = keep(record, home)
    except OSError as error:
        raise JobError(f"what was measured could not be kept: {error}") from None
    logger.info("kept %s", path)
    cancelled = record.status is RunStatus.CANCELLED
    message = "cancelled; the versions measured until then are kept" if cancelled else "compared"
    total = sum(version.timings is not None for version in record.versions)
    job.report(Progress(done=total, total=total, message=message, remarks=record.remarks, run_id=record.id))
    job.end(JobState.CANCELLED if cancelled else JobState.DONE, message)
