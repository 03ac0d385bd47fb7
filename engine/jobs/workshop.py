"""What one dispatcher works with: a pool of builders kept ready from job to job, and how a job is done with it."""

from __future__ import annotations

import importlib.metadata
import logging
from dataclasses import dataclass, field
from pathlib import Path

from engine.jobs.comparing import compare
from engine.jobs.estimate import Estimate
from engine.jobs.fusion import WORKER_MODULE as FUSION_MODULE
from engine.jobs.gpulock import LOCK_FOLDER
from engine.jobs.job import Job
from engine.jobs.measuring import WORKER_MODULE, Deadlines
from engine.jobs.planning import CannotPlan, plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.request import Progress, Study
from engine.jobs.reusing import conduct
from engine.jobs.snapshots import JobState
from engine.jobs.standby import REUSER_MODULE
from engine.jobs.studying import Processes
from engine.jobs.sweep import run_sweep
from engine.jobs.unlisted import Beyond
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunKind, RunStatus
from engine.runs.store import Store, StoreError

logger = logging.getLogger(__name__)

BUILDER_MODULE = "engine.jobs.builder"
_PACKAGES = ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-frontend")
_ENDS = {
    RunStatus.DONE: JobState.DONE,
    RunStatus.CANCELLED: JobState.CANCELLED,
    RunStatus.FAILED: JobState.FAILED,
}


@dataclass(frozen=True)
class WorkshopSettings:
    """``builders``: processes per pool, None for as many as the machine carries; ``idle_s``: how long a pool is kept
    ready without work. The modules are the worker processes' mains."""

    builders: int | None = None
    idle_s: float = 300.0
    builder_module: str = BUILDER_MODULE
    worker_module: str = WORKER_MODULE
    fusion_module: str = FUSION_MODULE
    reuser_module: str = REUSER_MODULE
    deadlines: Deadlines = field(default_factory=Deadlines)
    lock_folder: Path = LOCK_FOLDER


class Workshop:
    """Used by one dispatcher thread alone."""

    def __init__(self, store: Store, settings: WorkshopSettings) -> None:
        self._store, self._settings = store, settings
        self._pool: BuilderPool | None = None
        self._pool_is_for: tuple[object, ...] = ()

    def work(self, job: Job) -> None:
        """Do one job to its end; what may go wrong in it is its end, and programming errors pass."""
        job.start()
        try:
            if job.request.kind is RunKind.SWEEP:
                self._sweep(job)
            elif job.request.kind == "fusion":
                self._compare(job)
            elif job.request.study is not None:
                self._study(job, job.request.study)
            else:
                self._plan(job)
        except JobCancelled:
            job.end(JobState.CANCELLED, "cancelled")
        except (JobError, CannotPlan, StoreError) as error:
            logger.warning("%s failed: %s", job.request, error)
            job.end(JobState.FAILED, str(error))

    def rest(self) -> None:
        """Give back the processes kept ready."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _ready_pool(self, job: Job) -> BuilderPool:
        """The pool for this job's GPU and options: the last one where it fits, else a new one in its place."""
        request = job.request
        uuid, cache = request.gpu.uuid if request.gpu else None, request.options.compute_cache
        # A process that has loaded one cuDNN goes on with it when another has been installed meanwhile.
        wanted = (uuid, cache, library_versions())
        if self._pool is None or self._pool_is_for != wanted:
            self.rest()
            self._pool = BuilderPool(
                self._settings.builders,
                compute_cache=cache,
                gpu_uuid=uuid,
                module=self._settings.builder_module,
                ready_for=request.target if uuid else None,
            )
            self._pool_is_for = wanted
        return self._pool

    def _sweep(self, job: Job) -> None:
        def report(progress: Progress) -> None:
            job.report(progress)
            if progress.ended is not None:
                job.end(_ENDS[progress.ended], progress.message)

        run_sweep(
            job.request,
            store=self._store,
            pool=self._ready_pool(job),
            cancel=job.cancel,
            report=report,
            worker_module=self._settings.worker_module,
            deadlines=self._settings.deadlines,
            lock_folder=self._settings.lock_folder,
        )

    def _compare(self, job: Job) -> None:
        settings = self._settings
        compare(
            job,
            self._ready_pool(job),
            self._store.home,
            settings.fusion_module,
            settings.deadlines,
            settings.lock_folder,
        )

    def _study(self, job: Job, asked: Study) -> None:
        self.rest()  # What is timed alone has the machine to itself.
        settings = self._settings
        processes = Processes(
            builder=settings.builder_module,
            reuser=settings.reuser_module,
            worker=settings.worker_module,
            deadlines=settings.deadlines,
            lock_folder=settings.lock_folder,
            builders=settings.builders,
        )
        conduct(job, asked, self._store, processes)

    def _plan(self, job: Job) -> None:
        request, pool = job.request, self._ready_pool(job)
        account = _PlanAccount(job, pool.size)
        job.report(Progress(message="listing plans"))
        outcome = plan_graph(
            request.graph,
            request.target,
            request.options.modes,
            pool=pool,
            blob_dir=self._store.blob_dir,
            build=request.build,
            variants=request.variants,
            sink=account.take,
            cancel=job.cancel,
            beyond=Beyond.of(request.options),
        )
        plans = outcome.plans
        message = "cuDNN has no plan for this graph" if outcome.refusal else _verdict(plans, request.build)
        job.report(
            Progress(
                done=len(plans),
                total=len(plans),
                message=message,
                plans=plans,
                refusal=outcome.refusal,
                environment=outcome.environment,
                remarks=outcome.remarks,
            )
        )
        job.end(*((JobState.CANCELLED, "cancelled") if outcome.cancelled else (JobState.DONE, message)))


class _PlanAccount:
    """A plan job's records as they come."""

    def __init__(self, job: Job, builders: int) -> None:
        self._job, self._estimate = job, Estimate(builders, rule=None)
        self._plans: dict[str, PlanRecord] = {}

    def take(self, plan: PlanRecord, done: int, total: int) -> None:
        """One more record, and how many have ended."""
        self._plans[plan.key] = plan
        if plan.status is Status.LISTED:
            self._estimate.listed(total)
        else:
            self._estimate.built(done)
        message = f"built {done} of {total} plans" if done else f"{total} plans to build"
        plans = tuple(self._plans.values())
        self._job.report(Progress(done=done, total=total, eta_s=self._estimate.left_s, message=message, plans=plans))


def _verdict(plans: tuple[PlanRecord, ...], build: bool) -> str:
    if not build:
        return f"{len(plans)} plans listed"
    return f"{sum(plan.status is Status.OK for plan in plans)} of {len(plans)} plans built"


def library_versions() -> tuple[str | None, ...]:
    """Installed versions that decide which plans there are; they can change under a running server."""

    def version(package: str) -> str | None:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    return tuple(version(package) for package in _PACKAGES)
