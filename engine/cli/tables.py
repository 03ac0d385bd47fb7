"""Tables of plans for people: built ones, measured ones, and what these say at a second look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from engine.cli.output import print_facts, print_table, say
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType
from engine.plans.names import engine_label
from engine.records.arithmetic import EXPLANATION, arithmetic, seen_arithmetic
from engine.records.intervals import SPANNING
from engine.records.passport import OutputAccuracy
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord
from engine.records.sentences import sentences
from engine.records.timings import Regime, Timings
from engine.records.verdict import FirstPick, Verdict, verdict
from engine.records.wording import several


def print_plans(plans: tuple[PlanRecord, ...], graph: GraphSpec) -> None:
    """A table of plans, and how many ended how; what each multiplies in where the graph is fp32."""
    fp32, named = graph.io_dtype is DataType.FP32, any(map(engine_label, plans))
    print()
    rows = [
        (
            plan.plan_name,
            *([engine_label(plan)] if named else []),
            _offered(plan),
            plan.status,
            None if plan.workspace_bytes is None else f"{plan.workspace_bytes:,}",
            None if plan.build_ms is None else f"{plan.build_ms:.1f}",
            None if plan.blob_bytes is None else f"{plan.blob_bytes:,}",
            *([arithmetic(graph.io_dtype, plan)] if fp32 else []),
        )
        for plan in plans
    ]
    header = ["plan", *(["kernel"] if named else []), "modes", "status", "workspace_bytes", "build_ms", "blob_bytes"]
    print_table([*header, *(["multiplies in"] if fp32 else [])], rows)
    if fp32:
        print(f"\n{EXPLANATION}")
    print("\n" + ", ".join(f"{count} {status}" for status, count in Counter(plan.status for plan in plans).items()))
    say_messages(plans)


def say_messages(plans: Sequence[PlanRecord]) -> None:
    """Why plans failed, and what else records say (a plan that does not replay from its recipe), each sentence once; a
    cancelled plan has not failed."""
    names: dict[str, list[str]] = {}
    for plan in plans:
        if plan.message and plan.status is not Status.CANCELLED:
            names.setdefault(f"{plan.status} ({plan.stage}): {plan.message}", []).append(plan.plan_name)
    for reason, who in names.items():
        others = f" and {len(who) - 3} more" if len(who) > 3 else ""
        say(f"{', '.join(who[:3])}{others}: {reason}")


def print_timed(run: RunRecord, timed: list[PlanRecord]) -> None:
    """Measured plans, the fastest first, with their hot medians' 95 % intervals, who wins and who ties, and what torch
    took."""
    judged = verdict(run)
    picked = {pick.key: [m for m, p in run.first_picks().items() if p == pick] for pick in run.first_picks().values()}
    fp32, named = run.graph.io_dtype is DataType.FP32, any(map(engine_label, timed))
    print()
    rows: list[tuple[Any, ...]] = []
    for plan in timed:
        rows.append(
            (
                plan.plan_name,
                *([engine_label(plan)] if named else []),
                _offered(plan),
                *_medians(plan.timings),
                _interval(judged, plan),
                _worst(plan.accuracy),
                number(plan.build_ms),
                number(plan.deserialize_ms),
                None if plan.workspace_bytes is None else f"{plan.workspace_bytes:,}",
                *([arithmetic(run.graph.io_dtype, plan, run.options.data)] if fp32 else []),
                _remark(judged, plan, picked.get(plan.key, [])),
            )
        )
    if (base := run.baseline) and base.timings:
        multiplies = [seen_arithmetic(run.graph.io_dtype, base.accuracy, run.options.data)] if fp32 else []
        error = _worst(base.accuracy)
        rows.append(
            (
                base.name,
                *([None] if named else []),
                None,
                *_medians(base.timings),
                None,
                error,
                None,
                None,
                None,
                *multiplies,
                "baseline",
            )
        )
    regimes = ["hot_us", "cold_us", "host_us", "ready_us", "end_to_end_us"]
    measured = [*regimes, "hot 95 %", "max_rel", "build_ms", "load_ms", "workspace_bytes"]
    header = ["plan", *(["kernel"] if named else []), "modes", *measured]
    print_table([*header, *(["multiplies in"] if fp32 else []), ""], rows)


def print_findings(run: RunRecord) -> None:
    """Of a run with a measured plan: who wins and how surely, the price of trusting each heuristics mode, what a call
    waits for, and what fp32 means here."""
    print()
    judged = verdict(run)
    print_facts(
        [
            *((said.topic, said.text) for said in sentences(run) if said.topic != "heuristics"),
            *((f"mode {pick.mode}", _mode(judged, pick)) for pick in judged.picks),
            ("per call", _per_call(next((plan for plan in run.plans if plan.key == judged.winner), None))),
            ("fp32", EXPLANATION if run.graph.io_dtype is DataType.FP32 else None),
        ]
    )
    say_messages(run.timed())


def _per_call(winner: PlanRecord | None) -> str | None:
    """What a call of the winner waits for; None where its cost to the host was not measured."""
    timings = winner.timings if winner else None
    if timings is None or timings.host is None:
        return None
    host, hot = number(timings.host.median_us), number(timings.hot.median_us)
    return (
        f"the {'GPU' if timings.dominates == 'gpu' else 'host'} dominates: {host} us of the host, {hot} us of the GPU "
        "(winner)"
    )


def _mode(judged: Verdict, pick: FirstPick) -> str:
    """After how many plans of a mode's list one is within 2 % of the best, and what its first pick costs, or how that
    ended."""
    if not pick.listed:
        return "lists no plan"
    plans = several(pick.listed, "plan")
    near = f"none of {plans} within 2 % of the best"
    if pick.close_after is not None:
        near = f"within 2 % of the best after {pick.close_after} of {plans}"
    if pick.key is None:
        return near
    cost = pick.status if pick.regret is None else f"{pick.regret:.2f}x the time of the best"
    return f"{near}; first pick {judged.names[pick.key]}: {cost}"


def _offered(plan: PlanRecord) -> str:
    """Which heuristics modes list it, and where in their lists; what else brought it where none does."""
    return " ".join(f"{mode}:{rank}" for mode, rank in plan.modes.items()) or plan.origin.value


def _medians(timings: Timings | None) -> tuple[str | None, ...]:
    """Of every regime; None for each that was not measured."""
    regimes = [timings.of(regime) if timings else None for regime in Regime]
    return tuple(number(samples.median_us) if samples else None for samples in regimes)


def _interval(judged: Verdict, plan: PlanRecord) -> str | None:
    """Ends of the hot median's 95 % interval, microseconds; None of too few samples for one."""
    found = judged.intervals.get(plan.key)
    return f"{number(found.low)}-{number(found.high)}" if found and found.samples >= SPANNING else None


def _remark(judged: Verdict, plan: PlanRecord, modes: Sequence[str]) -> str:
    """Whether it wins, ties, or was only screened, and whose first pick it is."""
    remarks = []
    if plan.key in judged.tie_set:
        remarks.append("winner" if plan.key == judged.winner else "ties")
    elif plan.timings and plan.timings.stopped == "screened":
        remarks.append("screened only")
    if modes:
        remarks.append(f"first pick of {', '.join(modes)}")
    return ", ".join(remarks)


def _worst(accuracy: tuple[OutputAccuracy, ...]) -> str | None:
    """The largest error of all outputs, against the float64 (or, where memory was short, float32) reference."""
    errors = [output.max_rel for output in accuracy if output.max_rel is not None]
    return f"{max(errors):.2e}" if errors else None


def number(value: float | None) -> str | None:
    """Four significant digits, which is what these times support."""
    if value is None:
        return None
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
