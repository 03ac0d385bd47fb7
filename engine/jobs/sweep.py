"""A sweep from beginning to end: lock the GPU, build and receive every plan, sample the survivors, and what follows.

The job manager and the command line both come through here. Plans are loaded, compared and screened while others are
still being built; what ranks them is sampled when the last builder is idle. Every outcome is kept as it comes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from engine.jobs.admission import Admission, Entry
from engine.jobs.aftermath import Aftermath
from engine.jobs.field import Field
from engine.jobs.gpulock import LOCK_FOLDER, GpuLock
from engine.jobs.ledger import Ledger, Report, RunSink
from engine.jobs.measuring import WORKER_MODULE, Deadlines, GpuWorker
from engine.jobs.outcomes import Outcomes
from engine.jobs.planning import CannotPlan
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.receiving import Building, Reception
from engine.jobs.request import Request
from engine.jobs.sampling import HotSampling
from engine.jobs.scores import Scores
from engine.jobs.workers import Workers
from engine.measure.findings import Finding
from engine.measure.screening import RULES
from engine.records.constraints import Constraints
from engine.records.environment import Environment
from engine.records.plan import PlanRecord, Status
from engine.records.run import Phases, RunRecord, RunStatus
from engine.records.timings import Regime
from engine.records.verdict import verdict
from engine.runs.store import StoreError

_JOIN_S = 5.0


def run_sweep(
    request: Request,
    *,
    store: RunSink,
    pool: BuilderPool,
    cancel: threading.Event | None = None,
    report: Report | None = None,
    worker: GpuWorker | None = None,
    worker_module: str = WORKER_MODULE,
    deadlines: Deadlines | None = None,
    lock_folder: Path = LOCK_FOLDER,
    aftermath: bool = True,
) -> RunRecord:
    """Sweep ``request.graph`` on ``request.gpu``; gives the run as it ended, also when cancelled, refused or failed.

    ``report`` hears of every step, on this thread; its last word has ``ended`` set and comes before processes that were
    killed are waited for. Setting ``cancel`` ends the run within two seconds, and what was measured is kept; a run that
    fails sets it too. ``worker``: a measuring process of this GPU that was started before, with this ``cancel``; it is
    closed at the end like one of the sweep's own. Without ``aftermath`` it ends with the hot verdict. Raises
    JobCancelled and JobError only where it ends before there is anything to record.
    """
    if request.gpu is None or request.gpu.uuid is None:
        raise JobError("a sweep needs a GPU of this machine, with a UUID")
    uuid, stop = request.gpu.uuid, cancel or threading.Event()
    ledger = Ledger(request, store, pool.size, report or (lambda progress: None))
    lock = GpuLock(uuid, str(request), lock_folder)
    with lock.acquired(stop, lambda holder: ledger.tell(f"waiting for the GPU, which is held by a {holder}")):

        def make() -> GpuWorker:
            return GpuWorker(uuid, stop, worker_module, deadlines)

        workers = Workers(worker or make(), make)
        try:
            return _Sweep(request, ledger, store, pool, workers, stop, aftermath).run()
        finally:
            workers.close()


class _Sweep:
    """One call of ``run_sweep``, with the GPU's lock held."""

    def __init__(
        self,
        request: Request,
        ledger: Ledger,
        store: RunSink,
        pool: BuilderPool,
        workers: Workers,
        cancel: threading.Event,
        aftermath: bool,
    ) -> None:
        self._aftermath = aftermath
        self._request, self._ledger, self._store = request, ledger, store
        self._pool, self._workers, self._cancel = pool, workers, cancel
        self._worker = workers.first
        self._outcomes, self._scores = Outcomes(ledger), Scores()
        self._began = time.monotonic()

    def run(self) -> RunRecord:
        """To the end, whatever that is."""
        self._ledger.begin()
        self._began = time.monotonic()
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
        self._workers.kill()
        return self._ledger.close(status, message)

    def _work(self) -> None:
        ledger, options = self._ledger, self._request.options
        ledger.tell("listing plans")
        self._worker.begin(self._request.graph, options)
        blob_dir = self._store.blob_dir.resolve()
        building = Building(self._request, self._pool, blob_dir, self._cancel, self._worker.wake, self._scores)
        admission = Admission(self._worker, options.seed)
        building.start()
        try:
            outcome = Reception(
                building,
                self._worker,
                admission,
                blob_dir,
                self._environments,
                self._built,
                self._received,
                ledger.tick,
            ).run(self._cancel)
        except BaseException:
            self._cancel.set()
            raise
        finally:
            building.join(_JOIN_S)
        ledger.note([ledger.plans.get(plan.key, plan) for plan in outcome.plans])
        ledger.refusal, ledger.remarks = outcome.refusal, outcome.remarks
        ledger.environment = ledger.environment or outcome.environment
        if ledger.refusal is None:
            self._rank(blob_dir)

    def _rank(self, blob_dir: Path) -> None:
        """Sample the survivors, and what follows."""
        ledger, request, rule = self._ledger, self._request, RULES[self._request.options.preset]
        self._ready()
        outcomes = self._outcomes
        modes, constraints = request.options.modes, Constraints.of(request.options)
        meeting = outcomes.meeting(constraints, rule.margin)
        chosen = [ledger.plans[key] for key in outcomes.survivors(modes, rule.margin, meeting)]
        field = Field(self._worker, [Entry(plan, blob_dir / str(plan.blob_sha256)) for plan in chosen])
        ledger.estimate.sampling(len(chosen))
        sampling_began = time.monotonic()

        def progress(fraction: float) -> None:
            ledger.estimate.sampled(fraction)
            ledger.tell(f"sampling {len(field.keys)} plans in turns")

        progress(0.0)
        keep = [*outcomes.first_picks(modes), *meeting]
        sampling = HotSampling(field, rule, request.options.seed, keep, progress)
        try:
            sampling.run()
        finally:  # Also what was sampled until then.
            outcomes.sampled(field, sampling)
        judged = verdict(ledger.plans.values(), Regime.HOT, constraints, modes)
        now = time.monotonic()
        ledger.phases = Phases(**outcomes.seconds(), rounds_s=now - sampling_began, verdict_at_s=now - self._began)
        ledger.flush()
        ledger.tell("the hot verdict is there")
        if self._aftermath:
            winner = ledger.plans[judged.winner] if judged.winner else None
            Aftermath(request, ledger, outcomes, field, self._workers, rule, blob_dir).run(winner)
        ledger.phases = ledger.phases.model_copy(update={"total_s": time.monotonic() - self._began})

    def _ready(self) -> None:
        """Also where nothing was built: a run that has measured nothing says where."""
        if not self._ledger.is_open:
            environment = self._worker.ready()
            self._see_gpu(environment)
            self._ledger.open(environment)

    def _environments(self, builders: Environment, measuring: Environment | None) -> None:
        if measuring is None:
            self._ledger.environment = builders
            return
        self._see_gpu(measuring)
        self._ledger.open(measuring)
        if measuring.cudnn_backend != builders.cudnn_backend:
            raise JobError(
                f"plans were built with cuDNN {builders.cudnn_backend}, but the measuring process has loaded "
                f"{measuring.cudnn_backend}; the System page shows where each comes from"
            )

    def _see_gpu(self, environment: Environment) -> None:
        if environment.gpu is None:
            raise JobError(f"the measuring process does not see the GPU {self._request.target.info.gpu_name}")

    def _built(self, plan: PlanRecord, done: int, total: int) -> None:
        ledger = self._ledger
        ledger.estimate.listed(total)
        if plan.status is Status.LISTED:
            self._outcomes.listed(time.monotonic() - self._began)
            ledger.enter(plan)
            ledger.tell(f"{total} plans to build")
            return
        self._outcomes.built(plan, time.monotonic() - self._began)
        ledger.estimate.built(done)
        if plan.status is not Status.OK:
            self._scores.enter(plan.key, None)
            ledger.estimate.received()
        ledger.tell(f"built {done} of {total} plans")

    def _received(self, finding: Finding) -> None:
        self._outcomes.received(finding)
        self._scores.enter(finding.key, finding.screening.median_us if finding.screening else None)
        self._ledger.estimate.received()
        self._ledger.tell(f"received plan {self._outcomes.count} of {len(self._ledger.plans)}")
