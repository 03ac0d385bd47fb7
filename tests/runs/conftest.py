"""Runs to keep: real graphs of the catalogue with plainly constructed plan records (a store does not care who made
them)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.graph.pipelines import CATALOGUE
from engine.records.environment import Environment, GpuInfo
from engine.records.plan import OutputAccuracy, PlanIdentity, PlanRecord, Stage, Status, Timings
from engine.records.run import Baseline, RunKind, RunRecord, RunStatus, Source, SweepOptions, TargetInfo
from engine.records.samples import Samples
from engine.runs.store import Store

GPU = GpuInfo(name="NVIDIA H200", compute_capability="9.0", sm_count=132, memory_bytes=150_000_000_000, driver="580.1")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def timings(median_us: float, count: int = 50) -> Timings:
    """Three regimes of samples around a median."""
    spread = np.linspace(-0.01, 0.01, count | 1)
    return Timings(
        hot=Samples.of(median_us * (1 + spread), executions=10),
        cold=Samples.of(1.2 * median_us * (1 + spread)),
        host=Samples.of(20 * (1 + spread)),
    )


def plan(
    engine_id: int, us: float | None = None, status: Status = Status.OK, blob: bytes | None = None, **fields: object
) -> PlanRecord:
    """A plan record; ``us`` makes it a measured one."""
    right = OutputAccuracy(name="C", max_abs=0.01, max_rel=0.002, unwritten=0, nonfinite=0, elements=64, tolerance=0.02)
    return PlanRecord(
        **{
            "identity": PlanIdentity(engine_id=engine_id, knobs={"KERNEL_CFG": 3 * engine_id}),
            "plan_name": f"eng{engine_id}_k24={3 * engine_id}",
            "modes": {"A": engine_id},
            "status": status,
            "stage": Stage.TIME,
            "message": None if status in (Status.OK, Status.LISTED) else "it did not go well",
            "workspace_bytes": 1024,
            "build_ms": 12.5,
            "accuracy": (right,) if us else (),
            "timings": timings(us) if us else None,
            "blob_sha256": hashlib.sha256(blob).hexdigest() if blob else None,
            "blob_bytes": len(blob) if blob else None,
            **fields,
        }
    )


def run(
    pipeline: str = "matmul",
    parameters: Mapping[str, object] | None = None,
    plans: tuple[PlanRecord, ...] = (),
    **fields: object,
) -> RunRecord:
    """A finished sweep on an H200."""
    catalogued = CATALOGUE[pipeline]
    texts = catalogued.texts(catalogued.parse(parameters or {}))
    return RunRecord(
        **{
            "id": uuid.uuid4().hex,
            "kind": RunKind.SWEEP,
            "status": RunStatus.DONE,
            "pipeline": pipeline,
            "parameters": texts,
            "graph": catalogued.graph(texts),
            "target": TargetInfo(
                name="h200", gpu_name=GPU.name, sm=90, memory_bytes=GPU.memory_bytes, source=Source.DEVICE
            ),
            "environment": Environment(
                gpu=GPU,
                cudnn_backend="9.19.0",
                cudnn_frontend="1.32.0",
                torch="2.11.0",
                python="3.11",
                host="bench",
                os="Debian",
            ),
            "options": SweepOptions(seed=7),
            "started_at": NOON,
            "finished_at": NOON + timedelta(seconds=9),
            "baseline": Baseline(name="torch eager", accuracy=(), timings=timings(30.0)),
            "plans": plans,
            **fields,
        }
    )


@pytest.fixture
def make() -> SimpleNamespace:
    """Factories: ``make.run``, ``make.plan``, ``make.timings``."""
    return SimpleNamespace(run=run, plan=plan, timings=timings, noon=NOON)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store(tmp_path / "home") as opened:
        yield opened
