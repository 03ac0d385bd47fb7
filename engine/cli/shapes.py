"""What records look like in the command line's JSON: the keys that programs build on, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.records.arithmetic import arithmetic, seen_arithmetic
from engine.records.options import DataKind

if TYPE_CHECKING:
    from engine.graph.spec import GraphSpec
    from engine.records.environment import Environment
    from engine.records.plan import PlanRecord
    from engine.records.run import Baseline, Refusal, RunRecord, TargetInfo
    from engine.records.samples import Samples
    from engine.runs.summary import Origin, RunSummary


def target_json(target: TargetInfo) -> dict[str, Any]:
    """A target."""
    return {
        "name": target.name,
        "gpu": target.gpu_name,
        "sm": target.sm,
        "memory_bytes": target.memory_bytes,
        "source": target.source.value,
    }


def cudnn_json(environment: Environment | None) -> dict[str, Any]:
    """cuDNN's versions; None where they are not known."""
    return {
        "backend": environment.cudnn_backend if environment else None,
        "frontend": environment.cudnn_frontend if environment else None,
    }


def refusal_json(refusal: Refusal | None) -> dict[str, Any] | None:
    """A refusal."""
    return {"message": refusal.message, "reasons": list(refusal.reasons)} if refusal else None


def plan_json(plan: PlanRecord, graph: GraphSpec, data: DataKind = DataKind.NORMAL) -> dict[str, Any]:
    """A plan of this graph, measured on this kind of data; what was not measured is None, and so is the arithmetic of
    any type but fp32."""
    timings, well = plan.timings, plan.status in ("ok", "listed")
    return {
        "plan_name": plan.plan_name,
        "key": plan.key,
        "engine_id": plan.identity.engine_id,
        "knobs": dict(plan.identity.knobs),
        "modes": dict(plan.modes),
        "origin": plan.origin.value,
        "engine_name": plan.engine_name,
        "workspace_bytes": plan.workspace_bytes,
        "behavior_notes": list(plan.behavior_notes),
        "numerical_notes": list(plan.numerical_notes),
        "arithmetic": arithmetic(graph.io_dtype, plan, data),
        "status": plan.status.value,
        "stage": plan.stage.value,
        "build_ms": plan.build_ms,
        "build_contended": plan.build_contended,
        "deserialize_ms": plan.deserialize_ms,
        "blob_bytes": plan.blob_bytes,
        "blob_sha256": plan.blob_sha256,
        "error": None if well else plan.message,
        "remark": plan.message if well else None,
        "hot_us": samples_json(timings.hot) if timings else None,
        "cold_us": samples_json(timings.cold) if timings else None,
        "host_us": samples_json(timings.host) if timings else None,
        "dominates": timings.dominates if timings else None,
        "accuracy": [output.model_dump(mode="json") for output in plan.accuracy],
    }


def samples_json(samples: Samples | None) -> dict[str, Any] | None:
    """A summary of samples, microseconds; None where there are none."""
    if samples is None:
        return None
    return {
        "median": samples.median_us,
        "p10": samples.quantile_us(0.1),
        "p90": samples.quantile_us(0.9),
        "samples": samples.count,
    }


def baseline_json(
    baseline: Baseline | None, graph: GraphSpec, data: DataKind = DataKind.NORMAL
) -> dict[str, Any] | None:
    """torch's own time on the same data."""
    if baseline is None:
        return None
    timings = baseline.timings
    return {
        "name": baseline.name,
        "hot_us": samples_json(timings.hot) if timings else None,
        "cold_us": samples_json(timings.cold) if timings else None,
        "host_us": samples_json(timings.host) if timings else None,
        "arithmetic": seen_arithmetic(graph.io_dtype, baseline.accuracy, data),
        "accuracy": [output.model_dump(mode="json") for output in baseline.accuracy],
        "error": baseline.message,
    }


def run_json(run: RunRecord, origin: Origin | None = None) -> dict[str, Any]:
    """A whole run, samples summarized; ``origin`` None is this process's own."""
    from engine.records.run import Source
    from engine.runs.summary import Origin

    best, first, at = run.best, run.first_pick, target_json(run.target)
    origin = origin or Origin.OWN
    if origin is not Origin.OWN and run.target.source is Source.DEVICE:
        at["source"] = "the GPU itself"  # of another machine, and not "this machine's"
    return {
        "id": run.id,
        "title": run.title,
        "origin": origin.value,
        "recorded": origin is Origin.RECORDING,
        "kind": run.kind.value,
        "status": run.status.value,
        "message": run.message,
        "pipeline": run.pipeline,
        "parameters": dict(run.parameters),
        "graph_id": run.graph_id,
        "target": at,
        "cudnn": cudnn_json(run.environment),
        "environment": run.environment.model_dump(mode="json"),
        "options": run.options.model_dump(mode="json"),
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at and run.finished_at.isoformat(),
        "best": best and best.key,
        "first_pick": first and first.key,
        "first_picks": {
            mode: {"key": pick.key, "regret": run.regret(pick)} for mode, pick in run.first_picks().items()
        },
        "plans": [plan_json(plan, run.graph, run.options.data) for plan in run.plans],
        "baseline": baseline_json(run.baseline, run.graph, run.options.data),
        "refusal": refusal_json(run.refusal),
    }


def summary_json(run: RunSummary) -> dict[str, Any]:
    """A run in brief."""
    content = run.model_dump(mode="json")
    derived = {"recorded": run.recorded, "measured": run.measured, "plans": run.plans}
    speedups = {
        "speedup_vs_first_pick": run.speedup_vs_first_pick,
        "speedup_vs_torch": run.speedup_vs_torch,
    }
    return {**content, **derived, **speedups}
