"""The one place that a server submits work to and asks how it goes: queues, their threads, and who waits for what.

What was measured is in the store and what goes on is here, never in a browser session: whoever comes back asks again.
This process imports neither torch nor cudnn; jobs work in processes of their own, started by their dispatcher's thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from engine.graph.spec import GraphSpec
from engine.jobs.dispatcher import Dispatcher
from engine.jobs.job import Job
from engine.jobs.protocol import JobError
from engine.jobs.request import Request, plan_request
from engine.jobs.snapshots import JobSnapshot, JobState
from engine.jobs.workshop import Workshop, WorkshopSettings, library_versions
from engine.machine.gpus import list_gpus
from engine.plans.targets import Target
from engine.records.environment import GpuInfo
from engine.records.options import SweepOptions
from engine.records.run import RunKind
from engine.runs.store import Store

logger = logging.getLogger(__name__)

_DEVICELESS = "deviceless"
_HISTORY = 100


class JobManager:
    """Plan jobs, sweeps, comparisons and studies of one server. Safe for use from every thread; make one per process
    and ``shutdown`` it."""

    def __init__(
        self,
        store: Store,
        settings: WorkshopSettings | None = None,
        find_gpus: Callable[[], tuple[GpuInfo, ...]] = list_gpus,
    ) -> None:
        self._store, self._find_gpus = store, find_gpus
        self._settings = settings or WorkshopSettings()
        self._lock = threading.Lock()
        self._dispatchers: dict[str, Dispatcher] = {}
        self._jobs: dict[str, Job] = {}
        self._keys: dict[tuple[object, ...], Job] = {}
        self._closed = False

    def gpus(self) -> tuple[GpuInfo, ...]:
        """This machine's GPUs that CUDA_VISIBLE_DEVICES leaves visible."""
        return self._find_gpus()

    def submit_plan(
        self,
        pipeline: str,
        parameters: Mapping[str, str],
        graph: GraphSpec,
        target: Target,
        *,
        client: str,
        options: SweepOptions | None = None,
        build: bool = True,
    ) -> str:
        """Ask for a graph's plans; gives the job's id.

        The same question (graph, target, modes, cuDNN version) is worked on once, whoever asks, and its answer is kept.
        A new question of the same ``client`` (a browser session, say) takes back an older one that is still open.
        Raises InvalidInput.
        """
        gpus = self._find_gpus() if target.is_local else ()
        request = plan_request(pipeline, parameters, graph, target, options or SweepOptions(), gpus, build)
        key = _plan_key(request)
        with self._lock:
            job = self._keys.get(key)
            if job is None or not self._answers(job):
                job = self._queue(Job(request, client))
                self._keys[key] = job
            else:
                job.join(client)
            older = [j for j in self._jobs.values() if j is not job and j.request.kind is RunKind.PLAN]
            for other in older:
                if other.waits(client) and not other.state.ended:
                    other.leave(client)
                    if not other.waited_for():
                        self._cancel(other, "a newer question took its place")
            return job.id

    def submit(self, request: Request, client: str) -> str:
        """Queue a sweep, a comparison or a study, as ``engine.jobs.request`` makes them; gives the job's id."""
        with self._lock:
            return self._queue(Job(request, client)).id

    def snapshot(self, job_id: str) -> JobSnapshot | None:
        """The job now; None when there is none of this id, or it ended long ago."""
        with self._lock:
            job = self._jobs.get(job_id)
            return None if job is None else self._snapshot(job)

    def jobs(self) -> tuple[JobSnapshot, ...]:
        """All jobs that run or wait, queue by queue in their order, then those that ended, the latest first."""
        with self._lock:
            open_jobs = [job for dispatcher in self._dispatchers.values() for job in dispatcher.unfinished()]
            ended = [job for job in reversed(self._jobs.values()) if job not in open_jobs]
            return tuple(self._snapshot(job) for job in (*open_jobs, *ended))

    def cancel(self, job_id: str, client: str | None = None) -> None:
        """End a job within two seconds; what it has measured is kept. Harmless when it has ended.

        A ``client`` who shares a plan job with others that are still there only leaves it.
        """
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.state.ended:
                return
            if client is not None and job.waited_for(but=client):
                job.leave(client)
                return
            self._cancel(job, "cancelled")

    def attend(self, job_id: str, client: str) -> bool:
        """The client looks at a plan job, as it does every second while it waits. False where it does not wait, or has
        left: the job then goes on for others, and ends as cancelled once none of them is there any more."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None:
                return False
            if job.waits(client):
                job.join(client)
            elif not job.state.ended and not job.waited_for():
                self._cancel(job, "cancelled")
            return job.waits(client)

    def wait(self, job_id: str, timeout_s: float) -> bool:
        """Whether the job comes to its end in this time. Not for page scripts: they read snapshots."""
        job = self._jobs.get(job_id)
        return job is None or job.ended.wait(timeout_s)

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Cancel everything and end every process and thread that was started here."""
        with self._lock:
            self._closed = True
            dispatchers = list(self._dispatchers.items())
        for _, dispatcher in dispatchers:
            dispatcher.stop()
        end = time.monotonic() + timeout_s
        for name, dispatcher in dispatchers:
            if not dispatcher.join(max(0.0, end - time.monotonic())):
                logger.error("the dispatcher of %s did not end within %s s", name, timeout_s)

    def _answers(self, job: Job) -> bool:
        """Whether a plan job still answers its question: it goes on, or has ended well and its plans are at hand."""
        if job.cancel.is_set() or job.state in (JobState.FAILED, JobState.CANCELLED):
            return False
        digests = [plan.blob_sha256 for plan in self._snapshot(job).plans if job.state is JobState.DONE]
        return all(digest is None or (self._store.blob_dir / digest).is_file() for digest in digests)

    def _queue(self, job: Job) -> Job:
        if self._closed:
            raise JobError("the job manager has been shut down")
        self._dispatcher(job.request).put(job)
        self._jobs[job.id] = job
        ended = [j for j in self._jobs.values() if j.state.ended]
        for old in ended[: max(0, len(ended) - _HISTORY)]:
            del self._jobs[old.id]
        self._keys = {key: j for key, j in self._keys.items() if j.id in self._jobs}
        return job

    def _dispatcher(self, request: Request) -> Dispatcher:
        name = _DEVICELESS if request.gpu is None else request.gpu.uuid or request.gpu.name
        if name not in self._dispatchers:
            workshop = Workshop(self._store, self._settings)
            dispatcher = Dispatcher(f"planscope-{name}", workshop.work, workshop.rest, self._settings.idle_s)
            self._dispatchers[name] = dispatcher
        return self._dispatchers[name]

    def _cancel(self, job: Job, why: str) -> None:
        job.cancel.set()
        if self._dispatcher(job.request).remove(job):
            job.end(JobState.CANCELLED, why)

    def _snapshot(self, job: Job) -> JobSnapshot:
        return job.snapshot(self._dispatcher(job.request).position(job))


def _plan_key(request: Request) -> tuple[object, ...]:
    """What makes two plan questions the same. The target counts whole: two properties files may share a name."""
    target = request.target
    return (
        request.graph.graph_id,
        target.info,
        repr(sorted((target.properties or {}).items())),
        request.gpu and request.gpu.uuid,
        request.options.modes,
        request.options.compute_cache,
        request.build,
        library_versions(),
    )
