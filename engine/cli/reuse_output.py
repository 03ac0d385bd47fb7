"""A study of reuse for people, as tables."""

from __future__ import annotations

from engine.cli.output import print_table
from engine.records.reuse import GraphUse, Reuse, SizePlan, Times


def print_reuse(reuse: Reuse) -> None:
    """Costs, sizes and CUDA graphs, each where the study has them."""
    on_gpu = reuse.on_gpu
    where = "on the GPU" if on_gpu else "without a GPU: nothing was executed"
    print(f"\nMedians of {reuse.repeats} fresh processes each, milliseconds; {where}.")
    rows = [
        (
            cost.plan_name,
            "compiled" if cost.compiled else "precompiled",
            _ms(cost.cold_ms),
            _ms(cost.warm_ms),
            _ms(cost.again_ms),
            _ms(cost.first_load_ms),
            _ms(cost.load_ms),
            None if cost.speedup is None else f"{cost.speedup:.3g}x",
            {True: "no", False: "yes", None: None}[cost.precompiled],
            cost.blob_bytes and f"{cost.blob_bytes:,}",
            *(_ms(times) for times in (cost.execute_cold_ms, cost.execute_warm_ms, cost.execute_load_ms) if on_gpu),
            cost.message,
        )
        for cost in reuse.costs
    ]
    header = (
        "plan",
        "kernel",
        "cold build",
        "warm build",
        "again",
        "first load",
        "load",
        "build/load",
        "recompiles",
        "bytes",
    )
    first_runs = ("first run, built", "first run, warm", "first run, loaded") if on_gpu else ()
    print_table((*header, *first_runs, "message"), rows)
    if reuse.shapes is not None:
        print()
        built = [
            (
                f"{reuse.shapes.letter}={size.size}",
                series.way.value,
                size.plan_name,
                size.best_name,
                size.plans or None,
                None if size.build_ms is None else f"{size.build_ms:.4g}",
                _us(size),
                {True: "right", False: "WRONG", None: "failed" if size.complaint else None}[size.right],
                size.refused or size.complaint,
            )
            for series in reuse.shapes.series
            for size in series.sizes
        ]
        print_table(("size", "way", "plan", "timed", "of plans", "build ms", "hot us", "result", "reason"), built)
    if reuse.graphs:
        print()
        print_table(
            ("plan", "capture", "populate", "update", "call us", "replay us", "removed us"), _graphs(reuse.graphs)
        )


def _graphs(uses: tuple[GraphUse, ...]) -> list[tuple[str | None, ...]]:
    """A row per plan: what works with CUDA graphs, and what a call takes, called and replayed."""
    words = {True: "yes", False: "no", None: None}
    return [
        (
            use.plan_name,
            *(words[works] for works in (use.captured, use.populated, use.updated)),
            None if use.call_us is None else f"{use.call_us.median_us:.4g}",
            ", ".join(f"{samples.median_us:.4g} in {count}" for count, samples in use.replays.items()) or None,
            None if use.removed_us is None else f"{use.removed_us:.3g}",
        )
        for use in uses
    ]


def _ms(times: Times | None) -> str | None:
    return None if times is None else f"{times.median_ms:.4g}"


def _us(size: SizePlan) -> str | None:
    return None if size.hot is None else f"{size.hot.median_us:.4g}"
