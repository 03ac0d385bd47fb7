"""How fast the plans for many sizes are, on a GPU: at each size every plan that the heuristics list there, the dynamic
one and those tuned at other sizes, right or wrong, sampled in turns."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.graph.spec import GraphSpec
from engine.jobs.admission import Admission, Entry
from engine.jobs.asking import Asking
from engine.jobs.field import Field
from engine.jobs.measuring import WORKER_MODULE, Deadlines, GpuWorker
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.sampling import HotSampling
from engine.measure.findings import Finding
from engine.measure.screening import RULES
from engine.plans.targets import Target
from engine.records.options import SweepOptions
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Stage, Status
from engine.records.reuse import DynamicShapes, Series, SizePlan, Transplant, Way
from engine.records.samples import Samples

_CACHED = "KERNEL_CACHE"
"""Marks the dynamic plan among static ones of the same engine and knobs, where keys have to differ."""
_WAIT_S = 0.1


@dataclass(frozen=True)
class Seen:
    """A plan at a size."""

    finding: Finding
    hot: Samples | None


def with_speeds(
    shapes: DynamicShapes,
    specs: Mapping[int, GraphSpec],
    blobs: Mapping[tuple[Way, int], str],
    target: Target,
    folder: Path,
    cancel: threading.Event,
    worker_module: str = WORKER_MODULE,
    builder_module: str = "engine.jobs.builder",
    deadlines: Deadlines | None = None,
) -> DynamicShapes:
    """The same with what a GPU says: right or wrong and hot samples of the best static plan and the dynamic one at each
    size, and of plans tuned at other sizes. The GPU's lock is the caller's. Raises JobError and JobCancelled."""
    worker = GpuWorker(target.gpu_uuid, cancel, worker_module, deadlines)
    try:
        with BuilderPool(None, compute_cache=True, gpu_uuid=target.gpu_uuid, module=builder_module) as pool:
            speeds = _Speeds(worker, pool, specs, target, folder, cancel)
            for size in specs:
                speeds.measure(size, _dynamic(shapes, size, blobs))
            speeds.best = {size: key for size in specs if (key := best_key(speeds.seen[size])) is not None}
            for size in specs:
                speeds.transplant(size)
    finally:
        worker.close()
    static, cached = shapes.of(Way.STATIC), shapes.of(Way.CACHE)
    series = tuple(
        _with_best(one, speeds) if one is static else _with_dynamic(one, speeds.seen) if one is cached else one
        for one in shapes.series
    )
    return shapes.model_copy(update={"series": series, "matrix": _matrix(speeds)})


class _Speeds:
    """``plans`` and what was ``seen`` of them, by size and key; ``best``: the key of the best static plan that the
    heuristics list at a size; ``crossed``: what was seen of the best of all sizes at a size, sampled in turns."""

    def __init__(
        self,
        worker: GpuWorker,
        pool: BuilderPool,
        specs: Mapping[int, GraphSpec],
        target: Target,
        folder: Path,
        cancel: threading.Event,
    ) -> None:
        self._worker, self._pool, self._specs, self._target = worker, pool, specs, target
        self._folder, self._cancel, self._options = folder, cancel, SweepOptions()
        self.plans: dict[int, dict[str, PlanRecord]] = {}
        self.seen: dict[int, dict[str, Seen]] = {}
        self.best: dict[int, str] = {}
        self.crossed: dict[int, dict[str, Seen]] = {}

    def measure(self, size: int, dynamic: PlanRecord | None) -> None:
        """Everything the heuristics list at a size, and the dynamic plan."""
        plans = self._built(size)
        if dynamic is not None:
            plans[dynamic.key] = dynamic
        self.plans[size] = plans
        self.seen[size] = self._measured(size, plans)

    def transplant(self, size: int) -> None:
        """The best plans of all sizes at this one. Where the heuristics do not list all of them here, all are sampled
        once more, so that what is compared was sampled in turns."""
        own, best = self.plans[size], set(self.best.values())
        wanted = {key: self.plans[at][key].identity for at, key in self.best.items() if key not in own}
        common = {"spec": self._specs[size].model_dump_json(), "target": self._target.model_dump_json()}
        asking = Asking(self._pool, common, self._folder, self._cancel)
        built = {key: plan for key, identity in wanted.items() if (plan := asking.build(identity, None, [])[1])}
        listed = {key: plan for key, plan in own.items() if key in best}
        self.crossed[size] = self._measured(size, {**built, **listed}) if built else self.seen[size]

    def _built(self, size: int) -> dict[str, PlanRecord]:
        outcome = plan_graph(
            self._specs[size],
            self._target,
            pool=self._pool,
            blob_dir=self._folder,
            reload=False,
            cancel=self._cancel,
        )
        return {plan.key: plan for plan in outcome.plans if plan.status is Status.OK and plan.blob_sha256}

    def _measured(self, size: int, plans: Mapping[str, PlanRecord]) -> dict[str, Seen]:
        return _measure(self._worker, self._specs[size], self._options, plans, self._folder, self._cancel)


def _dynamic(shapes: DynamicShapes, size: int, blobs: Mapping[tuple[Way, int], str]) -> PlanRecord | None:
    series = shapes.of(Way.CACHE)
    plan = next((one for one in series.sizes if one.size == size), None) if series else None
    sha256 = blobs.get((Way.CACHE, size))
    if plan is None or plan.identity is None or plan.plan_name is None or sha256 is None:
        return None
    return PlanRecord(
        identity=_marked(plan.identity),
        plan_name=plan.plan_name,
        modes={},
        origin=PlanOrigin.EXPLICIT,
        status=Status.OK,
        stage=Stage.BUILD,
        blob_sha256=sha256,
    )


def _marked(identity: PlanIdentity) -> PlanIdentity:
    return PlanIdentity(engine_id=identity.engine_id, knobs={**identity.knobs, _CACHED: 1})


def _measure(
    worker: GpuWorker,
    spec: GraphSpec,
    options: SweepOptions,
    plans: Mapping[str, PlanRecord],
    folder: Path,
    cancel: threading.Event,
) -> dict[str, Seen]:
    worker.begin(spec, options)
    admission = Admission(worker, options.seed)
    for plan in plans.values():
        admission.add(Entry(plan, folder / str(plan.blob_sha256)))
    findings: dict[str, Finding] = {}
    while not admission.idle:
        if cancel.is_set():
            raise JobCancelled
        if (finding := admission.step(_WAIT_S)) is not None:
            findings[finding.key] = finding
    right = [plans[key] for key, finding in findings.items() if finding.status is Status.OK]
    field = Field(worker, [Entry(plan, folder / str(plan.blob_sha256)) for plan in right])
    sampling = HotSampling(
        field, RULES["quick"], options.seed, [key for key in plans if _CACHED in key], lambda _: None
    )
    if right:
        try:
            sampling.run()
        except JobError:
            if cancel.is_set():
                raise JobCancelled from None
            raise
    hot = {key: timings.hot for key, one in sampling.sampled.items() if (timings := one.timings()) is not None}
    return {key: Seen(finding, hot.get(key) or finding.screening) for key, finding in findings.items()}


def best_key(seen: Mapping[str, Seen]) -> str | None:
    """The fastest static plan that is right."""
    times = {
        key: one.hot.median_us
        for key, one in seen.items()
        if _CACHED not in key and one.finding.status is Status.OK and one.hot is not None
    }
    return min(times, key=lambda key: times[key]) if times else None


def _with_best(series: Series, speeds: _Speeds) -> Series:
    """Static plans: how the best at each size does. What was timed to build stays the first one."""

    def told(size: SizePlan) -> SizePlan:
        key = speeds.best.get(size.size)
        if key is None or size.refused:
            return size
        name = speeds.plans[size.size][key].plan_name
        return size.model_copy(update={"best_name": name, **_told(speeds.seen[size.size][key])})

    return series.model_copy(update={"sizes": tuple(map(told, series.sizes))})


def _with_dynamic(series: Series, seen: Mapping[int, Mapping[str, Seen]]) -> Series:
    def told(size: SizePlan) -> SizePlan:
        one = seen.get(size.size, {}).get(_marked(size.identity).key) if size.identity is not None else None
        return size if one is None else size.model_copy(update=_told(one))

    return series.model_copy(update={"sizes": tuple(map(told, series.sizes))})


def _told(one: Seen) -> dict[str, object]:
    finding = one.finding
    worst = max(finding.accuracy, key=lambda output: (output.max_rel or 0.0) / output.tolerance, default=None)
    return {
        "right": _right(finding),
        "max_rel": worst.max_rel if worst else None,
        "allowed": worst.tolerance if worst else None,
        "complaint": finding.message,
        "hot": one.hot,
    }


def _right(finding: Finding) -> bool | None:
    """None for a plan that did not run."""
    return {Status.OK: True, Status.WRONG_RESULT: False}.get(finding.status)


def _matrix(speeds: _Speeds) -> tuple[Transplant, ...]:
    """The best plan of each size at every size."""
    found = []
    for at, key in speeds.best.items():
        for size, seen in speeds.crossed.items():
            one = seen.get(key)
            found.append(
                Transplant(
                    tuned_at=at,
                    run_at=size,
                    plan_name=speeds.plans[at][key].plan_name,
                    builds=one is not None,
                    message=None if one else "it does not build at this size.",
                    right=None if one is None else _right(one.finding),
                    hot=one.hot if one is not None else None,
                )
            )
    return tuple(found)
