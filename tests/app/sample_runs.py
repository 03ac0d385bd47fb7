"""Runs with plainly invented numbers, for tests of what draws them. Nothing here was measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from engine.graph.pipelines import pipeline
from engine.records.environment import Environment, GpuInfo
from engine.records.plan import OutputAccuracy, PlanIdentity, PlanRecord, Stage, Status, Timings
from engine.records.run import Baseline, RunKind, RunRecord, RunStatus, Source, SweepOptions, TargetInfo
from engine.records.samples import Samples

GPU = GpuInfo(name="NVIDIA H200", uuid="GPU-0", compute_capability="9.0", sm_count=132, memory_bytes=150_000_000_000)
STATUS_STAGES = {
    Status.LISTED: Stage.LIST,
    Status.UNSUPPORTED: Stage.BUILD,
    Status.BUILD_FAILED: Stage.BUILD,
    Status.EXEC_FAILED: Stage.EXECUTE,
    Status.WRONG_RESULT: Stage.CHECK,
    Status.TIMEOUT: Stage.EXECUTE,
    Status.CRASHED: Stage.EXECUTE,
    Status.CANCELLED: Stage.TIME,
}


def samples(median_us: float, spread: float = 0.01, count: int = 41, executions: int = 20) -> Samples:
    """Evenly spread over ``spread`` of the median on both sides."""
    return Samples.of(np.linspace(median_us * (1 - spread), median_us * (1 + spread), count), executions)


def timings(median_us: float, spread: float = 0.01) -> Timings:
    """Hot around the median, cold a fifth slower, 20 us on the host."""
    return Timings(hot=samples(median_us, spread), cold=samples(median_us * 1.2, 0.05), host=samples(20.0, 0.2))


def accuracy(max_rel: float | None, name: str = "Y", tolerance: float = 1e-2, **more: Any) -> OutputAccuracy:
    """One output with this error."""
    fields = {"max_abs": None if max_rel is None else max_rel * 3, "unwritten": 0, "nonfinite": 0, "elements": 1000}
    return OutputAccuracy(name=name, max_rel=max_rel, tolerance=tolerance, **{**fields, **more})


def ok_plan(engine: int, median_us: float, knobs: dict[str, int] | None = None, **more: Any) -> PlanRecord:
    """A plan that ran, was right and was timed."""
    knobs = knobs or {}
    name = "_".join([f"eng{engine}", *(f"k{i}={v}" for i, v in enumerate(knobs.values()))])
    fields: dict[str, Any] = {
        "identity": PlanIdentity(engine_id=engine, knobs=knobs),
        "plan_name": name,
        "modes": {},
        "status": Status.OK,
        "stage": Stage.TIME,
        "workspace_bytes": 0,
        "build_ms": 400.0,
        "build_contended": True,
        "deserialize_ms": 1.5,
        "blob_sha256": "ab" * 32,
        "blob_bytes": 30_000,
        "accuracy": (accuracy(2e-3),),
        "timings": timings(median_us),
    }
    return PlanRecord(**{**fields, **more})


def failed_plan(engine: int, status: Status, **more: Any) -> PlanRecord:
    """A plan that ended otherwise."""
    message = None if status is Status.LISTED else f"it ended as {status}"
    fields = {"plan_name": f"eng{engine}", "modes": {}, "stage": STATUS_STAGES[status], "message": message}
    return PlanRecord(**{"identity": PlanIdentity(engine_id=engine), "status": status, **fields, **more})


def run_of(plans: list[PlanRecord], name: str = "conv_bias_relu", **more: Any) -> RunRecord:
    """A finished sweep of a pipeline at its defaults."""
    target = TargetInfo(name="h200", gpu_name=GPU.name, sm=90, memory_bytes=GPU.memory_bytes, source=Source.DEVICE)
    environment = Environment(
        gpu=GPU, cudnn_backend="9.19.0", cudnn_frontend="1.32.0", python="3.11.2", host="a-host", os="Linux"
    )
    fields: dict[str, Any] = {
        "id": "0" * 32,
        "kind": RunKind.SWEEP,
        "status": RunStatus.DONE,
        "pipeline": name,
        "parameters": {},
        "graph": pipeline(name).graph({}),
        "target": target,
        "environment": environment,
        "options": SweepOptions(),
        "started_at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        "baseline": Baseline(name="torch eager", accuracy=(), timings=timings(130.0)),
        "plans": tuple(plans),
    }
    return RunRecord(**{**fields, **more})


def wide_run() -> RunRecord:
    """33 plans of 22 engines over three decades, and one of every other outcome."""
    plans = [
        ok_plan(
            i % 22,
            80.0 * 1.25**i,
            {"KERNEL_CFG": i, "SPLIT_K_SLC": i % 3},
            modes={"A": (i + 30) % 33},
            build_ms=float(5 + 40 * (i % 7)),
            deserialize_ms=0.5 + i / 8,
            accuracy=(accuracy(1e-3 * (1 + i % 5)),),
        )
        for i in range(33)
    ]
    failed = [
        failed_plan(100 + i, status) for i, status in enumerate(STATUS_STAGES) if status is not Status.WRONG_RESULT
    ]
    wrong = failed_plan(
        99, Status.WRONG_RESULT, accuracy=(accuracy(0.7, unwritten=12),), build_ms=3.0, deserialize_ms=1.0
    )
    return run_of([*plans, wrong, *failed])
