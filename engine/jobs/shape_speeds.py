"""How fast the plans for many sizes are, on a GPU: at each size every plan that the heuristics list there, the dynamic
one and those tuned at other sizes, right or wrong, sampled in turns."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.graph.spec import GraphSpec
from engine.jobs.admission import Admission, Entry
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
    seen: dict[int, dict[str, Seen]] = {}
    names: dict[int, dict[str, PlanRecord]] = {}
    options = SweepOptions()
    worker = GpuWorker(target.gpu_uuid, cancel, worker_module, deadlines)
    try:
        with BuilderPool(None, compute_cache=True, gpu_uuid=target.gpu_uuid, module=builder_module) as pool:
            for size, spec in specs.items():
                outcome = plan_graph(
                    spec, target, options.modes, pool=pool, blob_dir=folder, reload=False, cancel=cancel
                )
                plans = {plan.key: plan for plan in outcome.plans if plan.status is Status.OK and plan.blob_sha256}
                if (dynamic := _dynamic(shapes, size, blobs)) is not None:
                    plans[dynamic.key] = dynamic
                names[size] = plans
                seen[size] = _measure(worker, spec, options, plans, folder, cancel)
    finally:
        worker.close()
    static, cached = shapes.of(Way.STATIC), shapes.of(Way.CACHE)
    series = tuple(
        _with_best(one, seen, names) if one is static else _with_dynamic(one, seen) if one is cached else one
        for one in shapes.series
    )
    return shapes.model_copy(update={"series": series, "matrix": _matrix(seen, names)})


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


def _best(seen: Mapping[str, Seen]) -> str | None:
    """The fastest static plan that is right."""
    times = {
        key: one.hot.median_us
        for key, one in seen.items()
        if _CACHED not in key and one.finding.status is Status.OK and one.hot is not None
    }
    return min(times, key=lambda key: times[key]) if times else None


def _with_best(
    series: Series, seen: Mapping[int, Mapping[str, Seen]], names: Mapping[int, Mapping[str, PlanRecord]]
) -> Series:
    """Static plans: the best at each size in place of the first; build times stay those of the first."""
    sizes = []
    for size in series.sizes:
        key = _best(seen.get(size.size, {}))
        if key is not None and size.build_ms is not None:
            plan = names[size.size][key]
            update = {"identity": plan.identity, "plan_name": plan.plan_name, **_told(seen[size.size][key])}
            size = size.model_copy(update=update)
        sizes.append(size)
    return series.model_copy(update={"sizes": tuple(sizes)})


def _with_dynamic(series: Series, seen: Mapping[int, Mapping[str, Seen]]) -> Series:
    def told(size: SizePlan) -> SizePlan:
        one = seen.get(size.size, {}).get(_marked(size.identity).key) if size.identity is not None else None
        return size if one is None else size.model_copy(update=_told(one))

    return series.model_copy(update={"sizes": tuple(map(told, series.sizes))})


def _told(one: Seen) -> dict[str, object]:
    finding = one.finding
    worst = max(finding.accuracy, key=lambda output: (output.max_rel or 0.0) / output.tolerance, default=None)
    return {
        "right": finding.status is Status.OK,
        "max_rel": worst.max_rel if worst else None,
        "allowed": worst.tolerance if worst else None,
        "complaint": finding.message,
        "hot": one.hot,
    }


def _matrix(
    seen: Mapping[int, Mapping[str, Seen]], names: Mapping[int, Mapping[str, PlanRecord]]
) -> tuple[Transplant, ...]:
    """The best plan of each size at every size, where the heuristics list it there too."""
    found = []
    for at, plans in seen.items():
        key = _best(plans)
        for size in seen if key is not None else ():
            assert key is not None
            one, name = seen[size].get(key), names[at][key].plan_name
            message = None if one else "the heuristics do not list it at this size, or it does not build there."
            right = None if one is None else one.finding.status is Status.OK
            hot = one.hot if one is not None else None
            built = one is not None
            found.append(
                Transplant(
                    tuned_at=at, run_at=size, plan_name=name, builds=built, message=message, right=right, hot=hot
                )
            )
    return tuple(found)
