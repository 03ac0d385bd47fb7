"""What records look like in the command line's JSON: the keys that programs build on, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.records.arithmetic import arithmetic, seen_arithmetic
from engine.records.options import DataKind
from engine.records.timings import Regime

if TYPE_CHECKING:
    from engine.graph.spec import GraphSpec
    from engine.records.environment import Environment
    from engine.records.plan import PlanRecord
    from engine.records.run import Baseline, Confirmation, Refusal, RunRecord, TargetInfo
    from engine.records.samples import Samples
    from engine.records.timings import Timings
    from engine.records.verdict import FirstPick, Verdict
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
        **regimes_json(timings),
        "dominates": timings.dominates if timings else None,
        "stopped": timings.stopped if timings else None,
        "set_aside": timings.set_aside if timings else None,
        "accuracy": [output.model_dump(mode="json") for output in plan.accuracy],
        "repeats": plan.repeats and {**plan.repeats.model_dump(mode="json"), "bitwise": plan.repeats.bitwise},
        "capturable": plan.capturable,
    }


def regimes_json(timings: Timings | None) -> dict[str, Any]:
    """Samples of every regime in brief, ``hot_us`` and so on; None where a regime was not measured."""
    return {f"{regime}_us": samples_json(timings.of(regime)) if timings else None for regime in Regime}


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
        **regimes_json(timings),
        "arithmetic": seen_arithmetic(graph.io_dtype, baseline.accuracy, data),
        "accuracy": [output.model_dump(mode="json") for output in baseline.accuracy],
        "error": baseline.message,
    }


def run_json(run: RunRecord, origin: Origin | None = None) -> dict[str, Any]:
    """A whole run, samples summarized; ``origin`` None is this process's own."""
    from engine.records.regimes import verdicts
    from engine.records.run import Source
    from engine.records.sentences import sentences
    from engine.runs.summary import Origin

    first, at, judged = run.first_pick, target_json(run.target), verdicts(run)
    hot = judged.get(Regime.HOT)
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
        "best": hot and hot.winner,
        "first_pick": first and first.key,
        "first_picks": {pick.mode: pick_json(pick) for pick in hot.picks if pick.key} if hot else {},
        "verdict": hot and verdict_json(hot),
        "regimes": {
            regime.value: {"winner": one.winner, "tie_set": list(one.tie_set)} for regime, one in judged.items()
        },
        "confirmation": confirmation_json(run.confirmation),
        "sentences": [{"topic": said.topic, "text": said.text} for said in sentences(run)],
        "phases": run.phases and run.phases.model_dump(mode="json"),
        "plans": [plan_json(plan, run.graph, run.options.data) for plan in run.plans],
        "baseline": baseline_json(run.baseline, run.graph, run.options.data),
        "refusal": refusal_json(run.refusal),
    }


def verdict_json(judged: Verdict) -> dict[str, Any]:
    """One regime's verdict, plans by key, times in microseconds: the ``winner`` and why it is chosen among the plans of
    the ``tie_set``, whose first has the smallest median; what ``constraints`` are in force, and what each costs."""
    constraints, unlisted = judged.constraints, judged.unlisted
    return {
        "winner": judged.winner,
        "reason": judged.reason,
        "tie_set": list(judged.tie_set),
        "intervals": {
            key: {"median": one.median, "low": one.low, "high": one.high, "effective_samples": one.effective}
            for key, one in judged.intervals.items()
        },
        "constraints": {
            "workspace_limit_bytes": constraints.workspace_limit_bytes,
            "deterministic_only": constraints.deterministic_only,
            "capturable_only": constraints.capturable_only,
        },
        "costs": {
            cost.demand: {"ratio": cost.ratio, "same": cost.same, "excluded": cost.excluded, "is_set": cost.is_set}
            for cost in judged.costs
        },
        "unlisted": unlisted
        and {
            "measured": unlisted.measured,
            "best": unlisted.key,
            "origin": unlisted.origin.value,
            "ratio": unlisted.ratio,
            "ties": unlisted.ties,
        },
    }


def pick_json(pick: FirstPick) -> dict[str, Any]:
    """A heuristics mode's first pick: ``regret`` is its time over the best's, ``close_after`` how many plans of the
    mode's list to try until one is within 2 % of the best."""
    return {
        "key": pick.key,
        "regret": pick.regret,
        "ties": pick.ties,
        "close_after": pick.close_after,
        "listed": pick.listed,
    }


def confirmation_json(confirmation: Confirmation | None) -> dict[str, Any] | None:
    """The winner against the first pick in a fresh process; None where that was not needed."""
    if confirmation is None:
        return None
    return {
        "winner": confirmation.winner,
        "first_pick": confirmation.first_pick,
        "winner_us": samples_json(confirmation.winner_us),
        "first_pick_us": samples_json(confirmation.first_pick_us),
        "error": confirmation.message,
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
