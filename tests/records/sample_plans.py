"""Plans with samples of one's own, plainly made: a verdict does not care who measured."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from engine.graph.pipelines import CATALOGUE
from engine.records.environment import Environment
from engine.records.options import SweepOptions
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status
from engine.records.run import RunKind, RunRecord, RunStatus, Source, TargetInfo
from engine.records.samples import Samples
from engine.records.timings import Timings


def measured(engine: int, hot: object, **changes: object) -> PlanRecord:
    """A right plan with these hot samples. ``regimes``: other samples by name; ``stopped``, ``states``, ``set_aside``,
    ``gpu`` go into its timings."""
    values = np.atleast_1d(np.asarray(hot, dtype=float))
    timings = {name: changes.pop(name) for name in ("stopped", "states", "set_aside", "gpu") if name in changes}
    regimes = {name: Samples.of(us) for name, us in changes.pop("regimes", {}).items()}
    fields = {
        "identity": PlanIdentity(engine_id=engine),
        "plan_name": f"eng{engine}",
        "modes": {"A": engine},
        "status": Status.OK,
        "stage": Stage.TIME,
        "workspace_bytes": 0,
        "timings": Timings(hot=Samples.of(values, executions=10), **regimes, **timings),
    }
    return PlanRecord(**{**fields, **changes})


def failed(engine: int, status: Status, **changes: object) -> PlanRecord:
    """A plan that ended otherwise."""
    fields = {"plan_name": f"eng{engine}", "modes": {"A": engine}, "stage": Stage.BUILD, "message": "it did"}
    return PlanRecord(**{"identity": PlanIdentity(engine_id=engine), "status": status, **fields, **changes})


def run_of(plans: object, **changes: object) -> RunRecord:
    """A finished sweep of these plans."""
    pipeline = CATALOGUE["matmul"]
    texts = pipeline.texts(pipeline.parse({}))
    fields = {
        "id": "0" * 32,
        "kind": RunKind.SWEEP,
        "status": RunStatus.DONE,
        "pipeline": "matmul",
        "parameters": texts,
        "graph": pipeline.graph(texts),
        "target": TargetInfo(name="h200", gpu_name="NVIDIA H200", sm=90, memory_bytes=1 << 37, source=Source.DEVICE),
        "environment": Environment(
            gpu=None, cudnn_backend="9.19.0", cudnn_frontend="1.32.0", python="3.11", host="bench", os="Debian"
        ),
        "options": SweepOptions(),
        "started_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "plans": tuple(plans),
    }
    return RunRecord(**{**fields, **changes})
