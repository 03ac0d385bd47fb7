"""What benchmarks print: a table, and below it what its numbers cover."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.repeating import Repeats
from engine.bench.sweeping import COVERED, WANTED, Comparison
from engine.bench.timing import PROFILED_US, SAME, TIMED_US, Timed
from engine.cli.output import print_facts, print_table
from engine.records.wording import several


def print_comparisons(found: Sequence[Comparison]) -> None:
    """The yardstick beside Planscope's sweep and its floor, seconds."""
    header = (
        "pipeline",
        "yardstick_s",
        "planscope_s",
        "ratio",
        "wanted",
        "floor_s",
        "allowed_s",
        "list_s",
        "build_s",
        "rounds_s",
    )
    rows = [
        (
            one.pipeline,
            _number(float(one.yardstick["total_s"]) if one.yardstick else None),
            _number(one.span_s),
            f"{one.ratio:.2f}" if one.ratio else None,
            WANTED.get(one.pipeline),
            _number(one.floor.total_s),
            _number(one.floor.allowed_s),
            _number(one.phases.list_s),
            _number(one.phases.build_s),
            _number(one.phases.rounds_s),
        )
        for one in found
    ]
    print_table(header, rows)
    print()
    print_facts(COVERED.items())
    for one in found:
        floor, counted = one.floor, sorted(set(one.executions_per_sample.values()))
        print(f"\n{one.pipeline}, {one.builders} builders")
        yard = one.yardstick
        print_facts(
            [
                (
                    "yardstick",
                    yard and f"{yard['plans']} plans built in {yard['build_s']:.2f} s, then timed by a loop of 15",
                ),
                ("", yard and f"executions each in {yard['timing_s']:.2f} s; nothing compared"),
                (
                    "planscope",
                    f"{one.plans} plans built, {one.right} right by the reference; {one.survivors} survivors with",
                ),
                ("", f"at least {one.least_samples} samples of {counted} executions each"),
                (
                    "floor",
                    f"{floor.build_s:.2f} s build of {floor.slowest_plan} alone, {floor.survivors_s:.2f} s samples,",
                ),
                ("", f"{floor.others_s:.2f} s one execution of each other plan;"),
                ("", f"the span is {'within' if one.span_s <= floor.allowed_s else 'above'} what is allowed"),
                (
                    "beside",
                    f"data and reference {_number(one.prepare_s)} s, comparing {_number(one.phases.check_s)} s,",
                ),
                ("", f"screening {_number(one.phases.screen_s)} s, while plans were built"),
                ("afterwards", _afterwards(one)),
            ]
        )


def _afterwards(one: Comparison) -> str:
    names = ("cold_s", "host_s", "passport_s", "confirmation_s", "total_s")
    return ", ".join(f"{name} {_number(getattr(one.phases, name))}" for name in names)


def print_timed(pipelines: Sequence[Timed]) -> None:
    """Each plan by every timer, microseconds, and how many agree where they have to."""
    found = [(one.pipeline, plan) for one in pipelines for plan in one.plans]
    header = ("pipeline", "plan", "hot_us", "triton_us", "off", "kernels_us", "off", "kernels", "gap_us")
    rows = [
        (
            pipeline,
            plan.plan if plan.message is None else f"{plan.plan}: {plan.message}",
            _number(plan.hot_us),
            _number(plan.triton_us),
            _percent(plan.off_triton),
            _number(plan.kernels_us),
            _percent(plan.off_kernels),
            _number(plan.kernels),
            _number(plan.gap_us),
        )
        for pipeline, plan in found
    ]
    print_table(header, rows)
    print()
    for least_us, other, agrees in (
        (TIMED_US, "do_bench_cudagraph", [plan.agrees_with_triton for _, plan in found]),
        (PROFILED_US, "the kernels' own times", [plan.agrees_with_kernels for _, plan in found]),
    ):
        compared = [agreeing for agreeing in agrees if agreeing is not None]
        near = f"{sum(compared)} of {several(len(compared), 'plan')} of at least {least_us:g} us"
        print(f"{near} within {SAME:.0%} of {other}")


def print_repeats(found: Sequence[Repeats]) -> None:
    """Each sweep's winner, and whether the other sweeps agree."""
    rows = [
        (
            one.pipeline,
            number,
            sweep.winner,
            f"{sweep.medians_us[sweep.winner]:.2f}",
            len(sweep.tie_set),
            "yes" if not any(number - 1 in pair for pair in one.disagreements) else "no",
        )
        for one in found
        for number, sweep in enumerate(one.sweeps, 1)
    ]
    print_table(("pipeline", "sweep", "winner", "hot_us", "tied", "agrees"), rows)


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{value:+.1%}"
