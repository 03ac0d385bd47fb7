"""Tables of plans for people: built ones, measured ones, and what these say at a second look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from engine.cli.output import print_facts, print_table, say
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType
from engine.records.arithmetic import EXPLANATION, arithmetic, seen_arithmetic
from engine.records.plan import OutputAccuracy, PlanRecord, Status, Timings
from engine.records.run import RunRecord


def print_plans(plans: tuple[PlanRecord, ...], graph: GraphSpec) -> None:
    """A table of plans, and how many ended how; what each multiplies in where the graph is fp32."""
    fp32 = graph.io_dtype is DataType.FP32
    print()
    rows = [
        (
            plan.plan_name,
            " ".join(f"{mode}:{rank}" for mode, rank in plan.modes.items()),
            plan.status,
            None if plan.workspace_bytes is None else f"{plan.workspace_bytes:,}",
            None if plan.build_ms is None else f"{plan.build_ms:.1f}",
            None if plan.blob_bytes is None else f"{plan.blob_bytes:,}",
            *([arithmetic(graph.io_dtype, plan)] if fp32 else []),
        )
        for plan in plans
    ]
    header = ("plan", "modes", "status", "workspace_bytes", "build_ms", "blob_bytes")
    print_table((*header, "multiplies in") if fp32 else header, rows)
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
    """Measured plans, the fastest first, and what torch took."""
    picked = {pick.key: [m for m, p in run.first_picks().items() if p == pick] for pick in run.first_picks().values()}
    fp32 = run.graph.io_dtype is DataType.FP32
    print()
    rows: list[tuple[Any, ...]] = []
    for plan in timed:
        rows.append(
            (
                plan.plan_name,
                " ".join(f"{mode}:{rank}" for mode, rank in plan.modes.items()),
                *_medians(plan.timings),
                _worst(plan.accuracy),
                number(plan.build_ms),
                number(plan.deserialize_ms),
                f"{plan.workspace_bytes or 0:,}",
                *([arithmetic(run.graph.io_dtype, plan)] if fp32 else []),
                f"first pick of {', '.join(picked[plan.key])}" if plan.key in picked else "",
            )
        )
    if (base := run.baseline) and base.timings:
        multiplies = [seen_arithmetic(run.graph.io_dtype, base.accuracy)] if fp32 else []
        error = _worst(base.accuracy)
        rows.append((base.name, None, *_medians(base.timings), error, None, None, None, *multiplies, "baseline"))
    header = ["plan", "modes", "hot_us", "cold_us", "host_us", "max_rel", "build_ms", "load_ms", "workspace_bytes"]
    print_table([*header, *(["multiplies in"] if fp32 else []), ""], rows)


def print_findings(run: RunRecord, best: PlanRecord) -> None:
    """The price of trusting each heuristics mode, what a call waits for, and what fp32 means here."""
    print()
    assert best.timings is not None
    picks = run.first_picks()
    regrets = [(mode, pick, run.regret(pick)) for mode, pick in picks.items()]
    of_fastest = "the time of the fastest"
    host, hot = number(best.timings.host.median_us), number(best.timings.hot.median_us)
    print_facts(
        [
            *(
                (f"mode {mode}", f"{pick.plan_name}: {f'{regret:.2f}x {of_fastest}' if regret else pick.status}")
                for mode, pick, regret in regrets
            ),
            *((f"mode {mode}", "lists no plan") for mode in run.options.modes if mode not in picks),
            (
                "per call",
                f"the {'GPU' if best.timings.dominates == 'gpu' else 'host'} dominates: {host} us of the host, "
                f"{hot} us of the GPU (fastest plan)",
            ),
            ("fp32", EXPLANATION if run.graph.io_dtype is DataType.FP32 else None),
        ]
    )
    say_messages(run.timed())


def _medians(timings: Timings | None) -> tuple[str | None, ...]:
    regimes = (timings.hot, timings.cold, timings.host) if timings else ()
    return tuple(number(samples.median_us) for samples in regimes)


def _worst(accuracy: tuple[OutputAccuracy, ...]) -> str | None:
    """The largest error of all outputs, against the float64 (or, where memory was short, float32) reference."""
    errors = [output.max_rel for output in accuracy if output.max_rel is not None]
    return f"{max(errors):.2e}" if errors else None


def number(value: float | None) -> str | None:
    """Four significant digits, which is what these times support."""
    if value is None:
        return None
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
