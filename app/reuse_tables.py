"""A study of reuse as tables: what the figures draw, and what they cannot: refusals, the matrix, CUDA graphs. Pure."""

from __future__ import annotations

from app.table_view import Cell, Column, Row, Table
from app.theme import NOTHING, fmt_bytes, fmt_error, fmt_ms, fmt_ratio, fmt_us
from engine.plans.refusals import innermost_reason
from engine.records.reuse import DynamicShapes, GraphUse, Reuse, SizePlan, Times, Transplant, Way

_LAST = None


def costs_table(reuse: Reuse) -> Table:
    """One row per plan."""
    columns = [
        Column("plan"),
        Column("kernel", "compiled at run time, or delivered with cuDNN"),
        Column("cold build", "median of fresh processes, the driver's compute cache off", number=True),
        Column("warm build", "the same with a compute cache that another process filled", number=True),
        Column("build again", "a precompiled plan's second build in a process: its first loads a library", number=True),
        Column("first load", "the first deserialize of a process, libraries included", number=True),
        Column("load", "the second", number=True),
        Column("build / load", "cold build, or second build where precompiled, over the second load", number=True),
        Column("compiles on load", "whether enforce_precompiled refuses it"),
        Column("serialized", number=True),
    ]
    if reuse.on_gpu:
        columns += [
            Column("first run, built", "first execution after a cold build, waited for", number=True),
            Column(
                "first run, warm", "first execution after a build with a warm compute cache, waited for", number=True
            ),
            Column("first run, loaded", "first execution after loading, waited for", number=True),
        ]
    rows = []
    for cost in reuse.costs:
        recompiles = {True: "no", False: "yes", None: NOTHING}[cost.precompiled]
        cells = [
            Cell(cost.plan_name),
            Cell("compiled" if cost.compiled else "precompiled"),
            *(_time(times) for times in (cost.cold_ms, cost.warm_ms, cost.again_ms, cost.first_load_ms, cost.load_ms)),
            Cell(fmt_ratio(cost.speedup), cost.speedup),
            Cell(recompiles if cost.message is None else f"{recompiles}; {cost.message}"),
            Cell(fmt_bytes(cost.blob_bytes), cost.blob_bytes),
        ]
        if reuse.on_gpu:
            cells += [_time(times) for times in (cost.execute_cold_ms, cost.execute_warm_ms, cost.execute_load_ms)]
        rows.append(Row(cost.key, tuple(cells)))
    return Table("What each plan costs to build and to load", tuple(columns), tuple(rows))


def shapes_table(shapes: DynamicShapes) -> Table:
    """One row per size and way; a wrong result and a refusal stand in words."""
    columns = (
        Column(shapes.letter, number=True),
        Column("way"),
        Column("plan"),
        Column("of plans", "how many the heuristics list", number=True),
        Column("list", "asking the heuristics, before anything is built", number=True),
        Column("build", number=True),
        Column("hot", "median GPU time", number=True),
        Column("vs best static", "its time over the best static plan's at this size", number=True),
        Column("error", "largest relative error", number=True),
        Column("result"),
    )
    static = shapes.of(Way.STATIC)
    best = {size.size: size.hot.median_us for size in static.sizes if size.hot and size.right} if static else {}
    rows = []
    for series in shapes.series:
        for size in series.sizes:
            us = size.hot.median_us if size.hot else None
            ratio = us / best[size.size] if us is not None and size.right and size.size in best else None
            cells = (
                Cell(str(size.size), size.size),
                Cell(series.way.value),
                Cell(_name(size)),
                Cell(str(size.plans) if size.plans else NOTHING, size.plans or None),
                Cell(fmt_ms(size.list_ms), size.list_ms),
                Cell(fmt_ms(size.build_ms), size.build_ms),
                Cell(fmt_us(us), us),
                Cell(fmt_ratio(ratio), ratio),
                Cell(fmt_error(size.max_rel), size.max_rel),
                Cell(_result(size)),
            )
            rows.append(Row(f"{series.way.value} {size.size}", cells))
    return Table("Plans for many sizes", columns, tuple(rows))


def matrix_table(shapes: DynamicShapes) -> Table:
    """Tuned at one size, run at another: one row per size it was tuned at; times over the best at the size it ran
    at."""
    best = shapes.tuned_us
    columns = (
        Column("tuned at"),
        Column("plan"),
        *(Column(f"at {size}", "time over that of the plan tuned there", number=True) for size in shapes.sizes),
    )
    rows = []
    for at in shapes.sizes:
        own = {one.run_at: one for one in shapes.matrix if one.tuned_at == at}
        if own:
            cells = tuple(_transplant(own.get(size), best.get(size)) for size in shapes.sizes)
            name = next(iter(own.values())).plan_name
            rows.append(Row(str(at), (Cell(f"{shapes.letter} = {at}", at), Cell(name), *cells)))
    return Table("Tuned at one size, run at another", columns, tuple(rows))


def graphs_table(uses: tuple[GraphUse, ...]) -> Table:
    """One row per plan."""
    columns = (
        Column("plan"),
        Column("kernel"),
        Column("stream capture"),
        Column("native populate"),
        Column("native update"),
        Column("new data", "whether a replay after new data came into the same buffers gives the new answer"),
        Column("other buffers", "what a replay needs for them"),
        Column("removed per call", "plain call minus an execution in the longest graph", number=True),
    )
    rows = [
        Row(
            use.identity.key,
            (
                Cell(use.plan_name),
                Cell("compiled" if use.compiled else "precompiled"),
                Cell(_works(use.captured, use.capture_message)),
                Cell(_works(use.populated, use.populate_message)),
                Cell(_works(use.updated, use.update_message, use.update_right)),
                Cell({True: "new answer", False: "≠ old answer", None: NOTHING}[use.new_data]),
                Cell({True: "update or new capture", False: "followed", None: NOTHING}[use.bound]),
                Cell(fmt_us(use.removed_us), use.removed_us),
            ),
        )
        for use in uses
    ]
    return Table("Plans and CUDA graphs", columns, tuple(rows))


def _time(times: Times | None) -> Cell:
    return Cell(NOTHING, _LAST) if times is None else Cell(fmt_ms(times.median_ms, 3), times.median_ms)


def _name(size: SizePlan) -> str:
    """The plan that was built; and, where another was timed, that one."""
    if size.plan_name is None:
        return NOTHING
    other = size.best_name not in (None, size.plan_name)
    return f"{size.plan_name} (hot: {size.best_name}, the best)" if other else size.plan_name


def _result(size: SizePlan) -> str:
    if size.refused:
        return f"⊘ {size.refused}"
    if size.right is None:
        return f"✗ {size.complaint}" if size.complaint else NOTHING
    return "✓ right" if size.right else f"≠ wrong: {size.complaint}"


def _transplant(one: Transplant | None, best_us: float | None) -> Cell:
    if one is None:
        return Cell(NOTHING, _LAST)
    if not one.builds:
        return Cell("⊘ does not build", _LAST)
    if one.right is False:
        return Cell("≠ wrong", _LAST)
    if one.hot is None or not best_us:
        return Cell("builds", _LAST)
    ratio = one.hot.median_us / best_us
    return Cell(fmt_ratio(ratio), ratio)


def _works(works: bool | None, message: str | None, right: bool | None = None) -> str:
    if works is None:
        return NOTHING
    if not works:
        return f"⊘ {innermost_reason(message or '')}"
    return "≠ wrong answer" if right is False else "✓"
