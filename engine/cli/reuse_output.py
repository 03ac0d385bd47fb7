"""A study of reuse for people, as tables."""

from __future__ import annotations

from engine.cli.output import print_table
from engine.plans.refusals import innermost_reason
from engine.records.reuse import DynamicShapes, GraphUse, Reuse, SizePlan, Times, Transplant
from engine.records.wording import factor


def print_reuse(reuse: Reuse) -> None:
    """Costs, sizes and CUDA graphs, each where the study has them."""
    on_gpu = reuse.on_gpu
    where = "on the GPU" if on_gpu else "without a GPU: nothing was executed"
    each = f"Medians of {reuse.repeats} fresh processes each" if reuse.repeats > 1 else "One fresh process each"
    print(f"\n{each}, milliseconds; {where}.")
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
        built: list[tuple[object, ...]] = [
            (
                f"{reuse.shapes.letter}={size.size}",
                series.way.value,
                size.plan_name,
                size.best_name,
                size.plans or None,
                *(None if ms is None else f"{ms:.4g}" for ms in (size.list_ms, size.build_ms)),
                _us(size),
                {True: "right", False: "WRONG", None: "failed" if size.complaint else None}[size.right],
                size.refused or size.complaint,
            )
            for series in reuse.shapes.series
            for size in series.sizes
        ]
        print_table(
            ("size", "way", "plan", "timed", "of plans", "list ms", "build ms", "hot us", "result", "reason"), built
        )
        if reuse.shapes.matrix:
            print("\nTuned at one size, run at another: its time over that of the plan tuned there.")
            sizes = [f"at {size}" for size in reuse.shapes.sizes]
            print_table(("tuned at", "plan", *sizes), _matrix(reuse.shapes))
    if reuse.graphs:
        print()
        titles = ("plan", "capture", "populate", "update", "call us", "replay us", "removed us", "new data", "reason")
        print_table(titles, _graphs(reuse.graphs))


def _matrix(shapes: DynamicShapes) -> list[tuple[str, ...]]:
    """A row per size that a plan was tuned at."""
    rows = []
    for at in shapes.sizes:
        own = {one.run_at: one for one in shapes.matrix if one.tuned_at == at}
        if own:
            cells = (_transplant(own.get(size), shapes.tuned_us.get(size)) for size in shapes.sizes)
            rows.append((f"{shapes.letter}={at}", next(iter(own.values())).plan_name, *cells))
    return rows


def _transplant(one: Transplant | None, best_us: float | None) -> str:
    if one is None:
        return "-"
    if not one.builds or one.right is False:
        return "WRONG" if one.builds else "no build"
    return factor(one.hot.median_us / best_us) if one.hot and best_us else "builds"


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
            {True: "right", False: "WRONG", None: None}[use.new_data],
            message and innermost_reason(message),
        )
        for use in uses
        for message in [use.capture_message or use.populate_message or use.update_message]
    ]


def _ms(times: Times | None) -> str | None:
    return None if times is None else f"{times.median_ms:.4g}"


def _us(size: SizePlan) -> str | None:
    return None if size.hot is None else f"{size.hot.median_us:.4g}"
