"""A sweep from beginning to end: lock the GPU, list and build every plan, then measure each, and keep every outcome.

The job manager and the command line both come through here. Plans are built first and measured after, so that no build
disturbs a timing; the measuring process starts and prepares its data meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from engine.jobs.gpulock import LOCK_FOLDER, GpuLock
from engine.jobs.ledger import Ledger, Report, RunSink
from engine.jobs.measuring import WORKER_MODULE, Deadlines, GpuWorker
from engine.jobs.planning import CannotPlan, plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.request import Request
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord, RunStatus
from engine.runs.store import StoreError


def run_sweep(
    request: Request,
    *,
    store: RunSink,
    pool: BuilderPool,
    cancel: threading.Event | None = None,
    report: Report | None = None,
    worker_module: str = WORKER_MODULE,
    deadlines: Deadlines | None = None,
    lock_folder: Path = LOCK_FOLDER,
) -> RunRecord:
    """Sweep ``request.graph`` on ``request.gpu``; gives the run as it ended, also when cancelled, refused or failed.

    ``report`` hears of every step, on this thread; its last word has ``ended`` set and comes before processes that were
    killed are waited for. Setting ``cancel`` ends the run within two seconds, and what was measured is kept; a run that
    fails sets it too. Raises JobCancelled and JobError only where it ends before there is anything to record.
    """
    if request.gpu is None or request.gpu.uuid is None:
        raise JobError("a sweep needs a GPU of this machine, with a UUID")
    stop = cancel or threading.Event()
    ledger = Ledger(request, store, pool.size, report or (lambda progress: None))
    worker = GpuWorker(request.graph, request.options.seed, request.gpu.uuid, stop, worker_module, deadlines)
    lock = GpuLock(request.gpu.uuid, str(request), lock_folder)
    with lock.acquired(stop, lambda holder: ledger.tell(f"waiting for the GPU, which is held by a {holder}")):
        try:
            return _Sweep(request, ledger, store, pool, worker, stop).run()
        finally:
            worker.close()


class _Sweep:
    """One call of ``run_sweep``, with the GPU's lock held."""

    def __init__(
        self,
        request: Request,
        ledger: Ledger,
        store: RunSink,
        pool: BuilderPool,
        worker: GpuWorker,
        cancel: threading.Event,
    ) -> None:
        self._request, self._ledger, self._store = request, ledger, store
        self._pool, self._worker, self._cancel = pool, worker, cancel

    def run(self) -> RunRecord:
        """To the end, whatever that is."""
        self._ledger.begin()
        try:
            self._work()
            return self._ledger.close(RunStatus.DONE, None)
        except JobCancelled:
            return self._stop(RunStatus.CANCELLED, "cancelled")
        except (JobError, CannotPlan, StoreError) as error:
            return self._stop(RunStatus.FAILED, str(error))
        except BaseException:
            with contextlib.suppress(JobError):
                self._stop(RunStatus.FAILED, "ended by an error of Planscope itself, see its log")
            raise

    def _stop(self, status: RunStatus, message: str) -> RunRecord:
        self._cancel.set()  # What the builders still have to do is for nobody.
        self._worker.kill()
        return self._ledger.close(status, message)

    def _work(self) -> None:
        self._ledger.tell("listing plans")
        self._worker.start()
        built_in = self._build()
        if self._ledger.refusal is not None:
            return
        self._ledger.tell("preparing data and reference on the GPU")
        environment = self._worker.prepare()
        if environment.gpu is None:
            raise JobError(f"the measuring process does not see the GPU {self._request.target.info.gpu_name}")
        self._ledger.open(environment)
        if environment.cudnn_backend != built_in:
            raise JobError(
                f"plans were built with cuDNN {built_in}, but the measuring process has loaded "
                f"{environment.cudnn_backend}; the System page shows where each comes from"
            )
        self._measure()

    def _build(self) -> str:
        """List and build everything; gives the cuDNN version that did."""
        request, ledger = self._request, self._ledger
        outcome = plan_graph(
            request.graph,
            request.target,
            request.options.modes,
            pool=self._pool,
            blob_dir=self._store.blob_dir,
            variants=request.variants,
            reload=False,  # The measuring process is another one than the builder, and loads every plan.
            sink=self._take,
            cancel=self._cancel,
        )
        ledger.note(outcome.plans)
        ledger.refusal, ledger.remarks = outcome.refusal, outcome.remarks
        ledger.environment = ledger.environment or outcome.environment
        if outcome.cancelled or outcome.environment is None:
            raise JobCancelled
        return outcome.environment.cudnn_backend

    def _take(self, plan: PlanRecord, done: int, total: int) -> None:
        ledger = self._ledger
        if plan.status is Status.LISTED:
            ledger.note([plan])
            ledger.estimate.listed(total)
            ledger.tell(f"{total} plans to build")
            return
        ledger.enter(plan)
        ledger.estimate.built(done)
        # The run can be stored once the measuring process, which starts meanwhile, has told what it runs on.
        if not ledger.is_open and (environment := self._worker.glance()) is not None and environment.gpu is not None:
            ledger.open(environment)
        ledger.tell(f"built {done} of {total} plans")

    def _measure(self) -> None:
        ledger, built = self._ledger, self._ledger.built()
        ledger.estimate.ready(len(built) + 1)
        ledger.tell("measuring torch eager")
        ledger.enter_baseline(self._worker.baseline())
        for number, plan in enumerate(built, 1):
            ledger.estimate.measured()
            ledger.tell(f"measuring plan {number} of {len(built)}, {plan.plan_name}")
            ledger.enter(self._worker.measure(plan, self._store.blob_dir / str(plan.blob_sha256)))
        ledger.estimate.measured()
