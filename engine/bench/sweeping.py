"""The sweep against the yardstick, on the same graphs in one go, each with a cold compute cache; and its floor.

COVERED says what each of the three times holds. The floor is what the same work takes in any order: the slowest single
build alone, cold, the samples of every survivor at their GPU time, and one execution of every other plan. That build is
made again after the sweep, and takes longer one time than another: a sweep can come in below its floor.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from engine.bench.process import ask_process
from engine.graph.pipelines import CATALOGUE
from engine.jobs.builder import small_graphs
from engine.jobs.measuring import GpuWorker
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobError
from engine.jobs.request import Request
from engine.jobs.sweep import run_sweep
from engine.plans.targets import Target
from engine.records.environment import Environment, GpuInfo
from engine.records.options import SweepOptions
from engine.records.plan import PlanRecord
from engine.records.run import Phases, RunKind, RunRecord, RunStatus
from engine.runs.store import Store

COVERED = {
    "yardstick": "one process, with its context and cuDNN handle made before: the graph validated, all plans built one "
    "after another with the driver's compute cache off, each timed by a loop of calls; no result is compared",
    "planscope": "from the sweep's request to its hot verdict. Before it: the measuring process and the builders are "
    "started, their imports and contexts done; each builder has listed the plans of three small graphs and the "
    "measuring process made data and reference of them, so that cuDNN's and torch's libraries are loaded; nothing is "
    "built. Within it: data and reference made, plans listed, built with the driver's compute cache off, executed, "
    "compared and screened, and at least 100 samples of each survivor, one sample being one event-timed replay of a "
    "CUDA graph. After it, timed apart: cold regime, host cost, repeated runs, confirmation",
    "floor": "the slowest single build alone, cold; 100 samples of every survivor at their GPU time; one execution of "
    "every other plan",
}
WANTED = {"matmul_epilogue": 4.0, "sdpa": 2.5, "conv_bias_relu": 1.5}
"""How many times faster than the yardstick a sweep is meant to be, at least, on an H200 with 16 cores."""
FLOOR_SAMPLES = 100
READY_S = 300.0
YARDSTICK_S = 600.0
SLOWEST = 2
"""Builds that took longest beside others, tried again alone."""
TRIES = 2
RATIO, SLACK_S = 1.3, 0.4
"""How far above its floor the span may be: so many times, or so many seconds, whichever is more."""


class Floor(BaseModel):
    """Parts in seconds; ``slowest_plan`` is the one whose build alone takes ``build_s``."""

    slowest_plan: str
    build_s: float
    survivors_s: float
    others_s: float

    @property
    def total_s(self) -> float:
        """All parts."""
        return self.build_s + self.survivors_s + self.others_s

    @property
    def allowed_s(self) -> float:
        """What the span may be."""
        return max(RATIO * self.total_s, self.total_s + SLACK_S)


class Comparison(BaseModel):
    """One graph. ``yardstick``: as ``engine.bench.yardstick`` writes it. ``prepare_s``: what data and reference took,
    beside the builds."""

    pipeline: str
    environment: Environment
    builders: int
    yardstick: dict[str, Any] | None
    span_s: float
    phases: Phases
    prepare_s: float | None
    plans: int
    right: int
    survivors: int
    least_samples: int
    executions_per_sample: dict[str, int]
    floor: Floor

    @property
    def ratio(self) -> float | None:
        """How many times faster than the yardstick."""
        return None if self.yardstick is None else float(self.yardstick["total_s"]) / self.span_s

    @property
    def is_fast_enough(self) -> bool | None:
        """Whether it is as many times faster as WANTED, and its span within what the floor allows; None where either
        is not known."""
        if self.ratio is None or self.pipeline not in WANTED:
            return None
        return self.ratio >= WANTED[self.pipeline] and self.span_s <= self.floor.allowed_s


@dataclass(frozen=True)
class Swept:
    """A sweep that was made: by how many builders, and what preparing took the measuring process."""

    run: RunRecord
    builders: int
    prepare_s: float | None


def run_yardstick(pipelines: Sequence[str], gpu_uuid: str) -> list[dict[str, Any]]:
    """The yardstick's account of each pipeline at its defaults, all in one process, as its method has it.
    Raises JobError."""
    graphs = "".join(CATALOGUE[name].graph({}).model_dump_json() + "\n" for name in pipelines)
    environment = {"CUDA_CACHE_DISABLE": "1", "CUDA_VISIBLE_DEVICES": gpu_uuid}
    told = ask_process("engine.bench.yardstick", graphs, environment, YARDSTICK_S)
    if told.failed or len(told.objects) != len(pipelines):
        raise JobError(f"the yardstick {told.ending}")
    return told.objects


def sweep_once(
    pipeline: str,
    target: Target,
    gpu: GpuInfo,
    options: SweepOptions,
    builders: int | None,
    aftermath: bool = True,
    keep: Path | None = None,
) -> Swept:
    """A sweep of the pipeline at its defaults by processes that were started and made ready before. ``keep``: a file
    the run goes into."""
    found = CATALOGUE[pipeline]
    texts = found.texts(found.parse({}))
    request = Request(RunKind.SWEEP, pipeline, texts, found.graph(texts), target, options, gpu)
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="planscope-") as folder, Store(Path(folder)) as store:
        pool = BuilderPool(builders, compute_cache=options.compute_cache, gpu_uuid=gpu.uuid, ready_for=target)
        worker = GpuWorker(gpu.uuid, stop)
        with pool:
            for graph in small_graphs():
                worker.begin(graph, SweepOptions())
                worker.ready()
            if not pool.wait_until_ready(READY_S):
                raise JobError("the builders did not get ready")
            run = run_sweep(request, store=store, pool=pool, cancel=stop, worker=worker, aftermath=aftermath)
        if run.status is not RunStatus.DONE or run.phases is None or run.phases.verdict_at_s is None:
            raise JobError(f"the sweep of {pipeline} ended as {run.status}: {run.message or run.refusal}")
        if keep is not None:
            from engine.runs.archive import export_run

            keep.write_bytes(export_run(store, run.id))
    return Swept(run, pool.size, worker.prepare_s)


def compare(
    pipeline: str,
    yardstick: dict[str, Any] | None,
    target: Target,
    gpu: GpuInfo,
    options: SweepOptions,
    builders: int | None,
    keep: Path | None = None,
) -> Comparison:
    """One graph's sweep and its floor, beside what the yardstick took."""
    swept = sweep_once(pipeline, target, gpu, options, builders, keep=keep)
    run = swept.run
    assert run.phases is not None and run.phases.verdict_at_s is not None
    survivors = [p for p in run.timed() if p.timings and p.timings.stopped != "screened"]
    return Comparison(
        pipeline=pipeline,
        environment=run.environment,
        builders=swept.builders,
        prepare_s=swept.prepare_s,
        yardstick=yardstick,
        span_s=run.phases.verdict_at_s,
        phases=run.phases,
        plans=len(run.plans),
        right=len(run.timed()),
        survivors=len(survivors),
        least_samples=min((p.timings.hot.count for p in survivors if p.timings), default=0),
        executions_per_sample={p.plan_name: p.timings.hot.executions for p in survivors if p.timings},
        floor=find_floor(run, survivors, target),
    )


def find_floor(run: RunRecord, survivors: Sequence[PlanRecord], target: Target) -> Floor:
    """The floor of a sweep that was made."""
    keys = {plan.key for plan in survivors}
    name, build_s = slowest_build_alone(run, target)
    sampled = [p.timings.hot for p in survivors if p.timings]
    others = [p.timings.hot for p in run.timed() if p.key not in keys and p.timings]
    return Floor(
        slowest_plan=name,
        build_s=build_s,
        survivors_s=sum(FLOOR_SAMPLES * s.executions * s.median_us for s in sampled) * 1e-6,
        others_s=sum(s.median_us for s in others) * 1e-6,
    )


def slowest_build_alone(run: RunRecord, target: Target) -> tuple[str, float]:
    """The plan whose build takes longest in a process that is ready and alone, and the seconds it takes, at best."""
    built = sorted((p for p in run.plans if p.build_ms is not None), key=lambda p: p.build_ms or 0.0)
    if not built:
        return "none", 0.0
    texts = {"spec": run.graph.model_dump_json(), "target": target.model_dump_json()}
    best: dict[str, float] = {}
    alone = BuilderPool(1, gpu_uuid=target.gpu_uuid, ready_for=target)
    with tempfile.TemporaryDirectory(prefix="planscope-") as folder, alone as pool:
        pool.wait_until_ready(READY_S)
        for plan in built[-SLOWEST:] * TRIES:
            content = {"identity": plan.identity.model_dump_json(), "plan_name": plan.plan_name}
            reply = pool.submit("build", {**texts, **content, "modes": list(plan.modes), "blob_dir": folder}).result()
            if "build_ms" in reply.content:
                seconds = float(reply.content["build_ms"]) / 1e3
                best[plan.plan_name] = min(seconds, best.get(plan.plan_name, seconds))
    return max(best.items(), key=lambda item: item[1], default=("none", 0.0))
