"""A bundle's plans on this machine's GPU: run, compared with the reference, and sampled in turns with what else there
is, so that clocks and heat are the same for all.

Whom they are held against: the tie set of when the bundle was made and the heuristics' first pick of then, rebuilt, and
the first pick of the cuDNN at hand. Samples of another day are shown and decide nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bundles.checkups import Running
from engine.bundles.reading import BundledGraph
from engine.jobs.admission import Admission, Entry
from engine.jobs.asking import Asking
from engine.jobs.field import Field
from engine.jobs.gpulock import LOCK_FOLDER, GpuLock
from engine.jobs.measuring import WORKER_MODULE, Deadlines, GpuWorker
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.sampling import HotSampling
from engine.measure.findings import Finding
from engine.measure.screening import RULES
from engine.plans.targets import Target
from engine.records.constraints import Constraints
from engine.records.plan import PlanRecord, Status
from engine.records.timings import Regime
from engine.records.verdict import Verdict, verdict

MOST_RIVALS = 8
_WAIT_S = 0.1


@dataclass(frozen=True)
class Measuring:
    """The measuring process; tests take another."""

    module: str = WORKER_MODULE
    deadlines: Deadlines | None = None
    lock_folder: Path = LOCK_FOLDER


class Contest:
    """One graph of a bundle, its serialized plans in ``folder``. The worker is the caller's, who has one for all."""

    def __init__(
        self,
        graph: BundledGraph,
        target: Target,
        folder: Path,
        cancel: threading.Event,
        worker: GpuWorker,
        lock_folder: Path,
    ) -> None:
        self._graph, self._target, self._folder = graph, target, folder
        self._cancel, self._worker, self._lock_folder = cancel, worker, lock_folder

    def run(self, plans: Sequence[PlanRecord], asking: Asking) -> dict[str, Running]:
        """What each of ``plans`` does, by key. Raises JobError and JobCancelled."""
        uuid, worker = self._target.gpu_uuid, self._worker
        if uuid is None:
            raise JobError("a check runs plans on a GPU of this machine, with a UUID.")
        rivals = self._rivals({plan.key for plan in plans}, asking)
        with GpuLock(uuid, "check of a bundle", self._lock_folder).acquired(self._cancel):
            worker.begin(self._graph.graph.spec, self._graph.run.options)
            findings = self._admit(worker, [*plans, *rivals])
            judged = self._sample(worker, [*plans, *rivals], findings)
        return {plan.key: self._running(plan, findings[plan.key], judged) for plan in plans}

    def _rivals(self, own: set[str], asking: Asking) -> list[PlanRecord]:
        """Built anew, as far as they build here; never one that is being checked itself."""
        wanted = {}
        if self._graph.run.verdict is not None:
            wanted = {c.identity.key: (c.identity, c.plan_name) for c in self._graph.run.verdict.contenders}
        for mode in self._graph.run.options.modes:
            if (pick := asking.first_pick(mode)) is not None:
                wanted.setdefault(pick.key, (pick.identity, pick.plan_name))
                break
        rivals = [what for key, what in wanted.items() if key not in own][:MOST_RIVALS]
        built = (asking.build(identity, name, list(self._graph.run.options.modes))[1] for identity, name in rivals)
        return [plan for plan in built if plan is not None]

    def _admit(self, worker: GpuWorker, plans: Iterable[PlanRecord]) -> dict[str, Finding]:
        admission = Admission(worker, self._graph.run.options.seed)
        for plan in plans:
            admission.add(Entry(plan, self._folder / str(plan.blob_sha256)))
        findings: dict[str, Finding] = {}
        while not admission.idle:
            if self._cancel.is_set():
                raise JobCancelled
            finding = admission.step(_WAIT_S)
            if finding is not None:
                findings[finding.key] = finding
        return findings

    def _sample(self, worker: GpuWorker, plans: Sequence[PlanRecord], findings: dict[str, Finding]) -> Verdict:
        """The hot verdict over all that are right."""
        options = self._graph.run.options
        right = {plan.key: plan for plan in plans if findings[plan.key].status is Status.OK}
        entries = [Entry(plan, self._folder / str(plan.blob_sha256)) for plan in right.values()]
        field = Field(worker, entries)
        sampling = HotSampling(field, RULES["standard"], options.seed, (), lambda fraction: None)
        if entries:
            sampling.run()
        records = [
            plan.model_copy(update={"status": Status.OK, "timings": sampling.sampled[key].timings(), "message": None})
            for key, plan in right.items()
        ]
        return verdict(records, Regime.HOT, Constraints.of(options), options.modes)

    def _running(self, plan: PlanRecord, finding: Finding, judged: Verdict) -> Running:
        timings = next((p.file.record.timings for p in self._graph.plans if p.entry.plan_key == plan.key), None)
        own, others = judged.intervals.get(plan.key), [key for key in judged.intervals if key != plan.key]
        best = others[0] if others else None
        return Running(
            gpu=self._target.info.gpu_name,
            status=finding.status,
            message=finding.message,
            accuracy=finding.accuracy,
            median_us=own.median if own else None,
            then_us=timings.hot.median_us if timings else None,
            best=judged.names[best] if best else None,
            best_us=judged.intervals[best].median if best else None,
            rivals=tuple(judged.names[key] for key in others),
            inside=plan.key in judged.tie_set if own and others else None,
        )
