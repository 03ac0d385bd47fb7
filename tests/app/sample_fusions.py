"""Comparisons with plainly invented numbers, for tests of what draws them. Nothing here was measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from engine.graph.cost import cost
from engine.graph.cutting import cut
from engine.graph.growth import growth
from engine.graph.pipelines import pipeline
from engine.records.environment import Environment
from engine.records.fusion import (
    SDPA_BACKENDS,
    FusionRecord,
    GrowthRecord,
    Launch,
    MeasuredCeilings,
    PieceRecord,
    Version,
    VersionKind,
)
from engine.records.run import Refusal, RunStatus, Source, TargetInfo
from tests.app.sample_runs import GPU, accuracy, samples, timings

K = VersionKind
HOT = {
    K.EAGER: 100.0, K.IDIOMATIC: 80.0, K.COMPILED: 60.0, K.AUTOTUNED: 58.0, K.UNFUSED: 90.0, K.FIRST_PICK: 40.0,
    K.TUNED: 30.0,
}  # fmt: skip
REFUSED = Refusal(message="cuDNN has no execution plan for this graph.", reasons=("Unsupported node (engine 2)",))


def version(kind: VersionKind, hot_us: float | None, moved: int | None, **more: Any) -> Version:
    """A right version, or one that says why it has no time."""
    if hot_us is None:
        return Version(kind=kind, message="it does not run here.", **more)
    kernels = {K.EAGER: 5, K.IDIOMATIC: 3, K.UNFUSED: 5}.get(kind, 1)
    fields = {
        "detail": "matmul, scale",
        "timings": timings(hot_us),
        "launches": (Launch(name="kernel", kind="kernel", us=1.0),) * kernels,
        "bytes_moved": moved,
        "accuracy": (accuracy(2e-3, "C"),),
        "memory_bytes": 1 << 24,
        "compile_s": 12.5 if kind in (K.COMPILED, K.AUTOTUNED) else None,
        "plan": {K.FIRST_PICK: ("1", "eng1"), K.TUNED: ("2;KERNEL_CFG=3", "eng2_k24=3")}.get(kind),
    }
    return Version(kind=kind, **{**fields, **more})


def comparison(name: str = "matmul_epilogue", hot: dict[VersionKind, float | None] | None = None, **more: Any):
    """A measured comparison of a pipeline at its defaults."""
    graph = pipeline(name).graph({})
    made, times = cut(graph), {**HOT, **(hot or {})}
    if name == "sdpa":
        times = {**dict.fromkeys(SDPA_BACKENDS, 35.0), **times}
    total = cost(made)
    moved = {K.UNFUSED: total.unfused_bytes, K.EAGER: total.unfused_bytes, K.COMPILED: None, K.AUTOTUNED: None}
    order = [kind for kind in K if kind in times]
    pieces = tuple(
        PieceRecord(
            label=piece.label,
            origin=piece.origin,
            contracts=piece.operation.contracts,
            runs_on="torch" if piece.label in ("amax", "softmax") else "cudnn",
            refusal=REFUSED if piece.label in ("amax", "softmax") else None,
            bytes_moved=piece.spec.bytes_moved(),
            flops=piece.spec.flops(),
            hot=samples(26.0) if piece.operation.contracts else samples(16.0),
        )
        for piece in made.pieces
    )
    stages = growth(graph)
    fields: dict[str, Any] = {
        "id": "a" * 32,
        "status": RunStatus.DONE,
        "pipeline": name,
        "parameters": {},
        "graph": graph,
        "target": TargetInfo(name="local", gpu_name=GPU.name, sm=90, memory_bytes=1, source=Source.DEVICE),
        "environment": Environment(
            gpu=GPU, cudnn_backend="9.19.0", cudnn_frontend="1.32.0", python="3.11.2", host="a-host", os="Linux"
        ),
        "started_at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        "pieces": pieces,
        "fused_plans": 10,
        "versions": tuple(version(kind, times[kind], moved.get(kind, total.fused_bytes)) for kind in order),
        "growth": tuple(
            GrowthRecord(
                added=stage.added,
                graph_id=stage.spec.graph_id,
                pieces=pieces[: i + 1],
                fused_bytes=cost(cut(stage.spec)).fused_bytes,
                unfused_bytes=cost(cut(stage.spec)).unfused_bytes,
                versions=(
                    version(K.UNFUSED, 26.0 + 16.0 * i, 1),
                    version(K.FIRST_PICK, 27.0 + 3 * i, 1),
                    version(K.TUNED, 26.0 + i, 1),
                ),
            )
            for i, stage in enumerate(stages)
        )
        if len(stages) > 1
        else (),
        "ceilings": MeasuredCeilings(
            copy_bytes=2 << 30,
            copy_us=samples(500.0),
            matmul_flops=2 * 8192**3,
            matmul_us=samples(1500.0),
            launch_us=samples(1.5),
        ),
    }
    return FusionRecord(**{**fields, **more})


def planned() -> FusionRecord:
    """One that was planned and not measured."""
    made = comparison()
    environment = made.environment.model_copy(update={"gpu": None})
    stages = tuple(stage.model_copy(update={"versions": ()}) for stage in made.growth)
    return comparison(versions=(), growth=stages, ceilings=None, environment=environment)
