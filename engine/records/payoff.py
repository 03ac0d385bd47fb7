"""When reuse pays: how often a plan must run until tuning it, shipping it, or caching kernels has paid for itself.

All formulas are of one form, cost / saving per call, with every number measured: N calls pay for a cost of C where each
saves s, once N s >= C, so N = ceil(C / s). Where nothing is saved, nothing ever pays, and that is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.records.reuse import DynamicShapes, GraphUse, PlanCost, Reuse, Series, Way
from engine.records.run import RunRecord
from engine.records.verdict import verdict
from engine.records.wording import count_bytes, factor, microseconds, several, span


@dataclass(frozen=True)
class Payoff:
    """``calls`` until a cost has paid, 0 where it pays from the first, None where never. ``formula``: with its numbers;
    ``source``: where they were measured."""

    what: str
    calls: int | None
    formula: str
    source: str

    @property
    def sentence(self) -> str:
        """In words."""
        if self.calls is None:
            return f"{self.what} never pays by speed alone: {self.formula}."
        paid = "has paid from the first call on" if self.calls == 0 else f"has paid after {_about(self.calls)} calls"
        return f"{self.what} {paid}: {self.formula}."


def payoffs(run: RunRecord, measured: RunRecord | None = None) -> list[Payoff]:
    """What can be told of a run with a study; ``measured``: a sweep of the same graph, for what a call takes."""
    study = run.reuse
    if study is None or measured is None:
        return []
    found = verdict(measured)
    first = measured.first_pick
    if found.winner is None or first is None or first.key not in found.intervals:
        return []
    slow, fast = found.intervals[first.key].median, found.intervals[found.winner].median
    a_call = f"a call takes {microseconds(fast)} in place of the first pick's {microseconds(slow)}"
    saving = slow - fast
    if first.key == found.winner:
        a_call = f"its winner is the first pick, {microseconds(slow)} a call"
    elif first.key in found.tie_set:
        saving = 0.0
        a_call = f"a call of {microseconds(fast)} and the first pick's of {microseconds(slow)} tie"
    gpu = measured.environment.gpu
    source = (
        f"times of a call: swept on {gpu.name if gpu else measured.target.gpu_name}, {measured.started_at:%Y-%m-%d}"
    )
    told = []
    if measured.phases and (took_s := measured.phases.total_s):
        words = f"the sweep took {took_s:.1f} s, and {a_call}"
        told.append(Payoff("Tuning", calls_until(took_s * 1e6, saving), words, source))
    costs = {cost.key: cost for cost in study.costs}
    tuned, untuned = costs.get(found.winner), costs.get(first.key)
    if tuned is not None and untuned is not None and tuned.first_load_ms is not None and untuned.cold_ms is not None:
        load, build = tuned.first_load_ms.median_ms * 1e3, untuned.cold_ms.median_ms * 1e3
        words = f"its first load takes {microseconds(load)} where a cold build of the first pick takes "
        words += f"{microseconds(build)}, and {a_call}"
        told.append(Payoff("Shipping the serialized plan", calls_until(load - build, saving), words, source))
    return told


def calls_until(cost_us: float, saving_us: float) -> int | None:
    """ceil(cost / saving): 0 where it costs nothing, None where it saves nothing."""
    if cost_us <= 0:
        return 0
    return None if saving_us <= 0 else math.ceil(cost_us / saving_us)


def _about(calls: int) -> str:
    """A count of calls, three significant digits: it is a quotient of measured times."""
    step = 10 ** max(len(str(calls)) - 3, 0)
    return f"{calls:,}" if step == 1 else f"about {-(-calls // step) * step:,}"


def load_speedup(costs: Iterable[PlanCost], compiled: bool = True) -> float | None:
    """Median over plans of build over second load (see PlanCost.speedup); those compiled at run time, or those that
    are not."""
    ratios = sorted(cost.speedup for cost in costs if cost.compiled is compiled and cost.speedup is not None)
    if not ratios:
        return None
    middle = len(ratios) // 2
    return ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2


def sentences(study: Reuse) -> Iterator[str]:
    """What a study came to, most important first."""
    yield from _costs(study)
    if study.shapes is not None:
        yield from _shapes(study.shapes)
    yield from _graphs(study.graphs)
    if not study.on_gpu:
        yield "Built and loaded without a GPU: nothing was executed, and no speed was measured."


def _costs(study: Reuse) -> Iterator[str]:
    for compiled, which in ((True, "compiled at run time"), (False, "precompiled")):
        ratio = load_speedup(study.costs, compiled)
        count = sum(cost.compiled is compiled and cost.speedup is not None for cost in study.costs)
        if ratio is None:
            continue
        build = "a cold build" if compiled else "a build with libraries loaded"
        words = f"is {factor(ratio)} faster than" if ratio >= 1 else f"takes {factor(1 / ratio)} the time of"
        yield f"Loading {words} {build}: the median of {several(count, 'plan')} {which}."
    caches = [cost.cache_bytes for cost in study.costs if cost.compiled and cost.cache_bytes is not None]
    if caches and not any(caches):
        yield "The driver's compute cache stayed empty, so a warm build was no other than a cold one."
    recompiled = [cost.plan_name for cost in study.costs if cost.precompiled is False]
    asked = sum(cost.precompiled is not None for cost in study.costs)
    if recompiled:
        yield f"Loading compiles anew for {several(len(recompiled), 'plan')}: {', '.join(recompiled[:4])}."
    elif asked:
        yield f"Loading compiled nothing again: enforce_precompiled accepts {'all' if asked > 1 else 'the'} " + (
            f"{several(asked, 'plan')}."
        )


def _shapes(shapes: DynamicShapes) -> Iterator[str]:
    static, cached = shapes.of(Way.STATIC), shapes.of(Way.CACHE)
    for series in shapes.series:
        refused = [size for size in series.sizes if size.refused]
        if refused and series.way is not Way.STATIC:
            yield f"No {series.way} for {len(refused)} of {several(len(series.sizes), 'size')}: {refused[0].refused}"
        wrong = [size.size for size in series.sizes if size.right is False]
        if wrong:
            yield f"Wrong with {series.way} at {shapes.letter} = {', '.join(map(str, wrong))}."
    if static and cached:
        yield from _sharing(shapes, static, cached)
    if cached and cached.cache_bytes is not None and cached.reloaded_ms is not None:
        first_ms = next((size.build_ms for size in cached.sizes if size.build_ms is not None), None)
        beside = "" if first_ms is None else f", new it took {microseconds(first_ms * 1e3)}"
        yield (
            f"Saved ({count_bytes(cached.cache_bytes)}) and loaded by another process it builds the first size in "
            f"{microseconds(cached.reloaded_ms * 1e3)}{beside}."
        )


def _sharing(shapes: DynamicShapes, static: Series, cached: Series) -> Iterator[str]:
    """The kernel cache against each size on its own, over the sizes that were built in both ways."""
    pairs = [
        (own, shared)
        for own, shared in zip(static.sizes, cached.sizes, strict=True)
        if own.build_ms is not None and shared.build_ms is not None
    ]
    if not pairs:
        return
    own_ms, shared_ms = (sum(size.build_ms or 0.0 for size in way) for way in zip(*pairs, strict=True))
    more = ", and chooses among more plans" if all(own.plans > shared.plans for own, shared in pairs) else ""
    alone = "each on its own takes" if len(pairs) > 1 else "on its own it takes"
    yield (
        f"A shared kernel cache builds {several(len(pairs), 'size')} in {microseconds(shared_ms * 1e3)}; {alone} "
        f"{microseconds(own_ms * 1e3)}{more}."
    )
    if (paid := sizes_until(shapes)) is not None:
        yield f"It has paid from size number {paid} on."
    elif shared_ms >= own_ms:
        yield "It has not paid by the last of them." if len(pairs) > 1 else "It has not paid with one size."
    prices = [
        shared.hot.median_us / own.hot.median_us
        for own, shared in pairs
        if own.hot and shared.hot and own.right and shared.right
    ]
    if prices:
        least, most = factor(min(prices)), factor(max(prices))
        price = least if least == most else f"{least} to {most}"
        yield f"Where both are right, running its plan takes {price} the time of the best static one."


def sizes_until(shapes: DynamicShapes) -> int | None:
    """From how many sizes on the kernel cache has cost less than building each on its own, to the last one; None where
    it has not, or where a size was not built in both ways."""
    static, cached = shapes.of(Way.STATIC), shapes.of(Way.CACHE)
    if static is None or cached is None:
        return None
    ahead, since = 0.0, None
    for number, (own, shared) in enumerate(zip(static.sizes, cached.sizes, strict=True), 1):
        if own.build_ms is None or shared.build_ms is None:
            return None
        ahead += own.build_ms - shared.build_ms
        since = (since or number) if ahead > 0 else None
    return since


def _graphs(graphs: Iterable[GraphUse]) -> Iterator[str]:
    used = list(graphs)
    if not used:
        return
    captured = sum(use.captured for use in used)
    native = sum(bool(use.populated and use.updated) for use in used)
    yield f"Stream capture works for {captured} of {several(len(used), 'plan')}, the native calls for {native}."
    removed = [use.removed_us for use in used if use.removed_us is not None]
    if removed:
        gained, lost = [us for us in removed if us >= 0], [-us for us in removed if us < 0]
        if gained:
            yield f"A CUDA graph of many executions removes {span(min(gained), max(gained))} of a call's time."
        if lost:
            longer = span(min(lost), max(lost))
            yield f"A CUDA graph of many executions adds {longer} to a call of {several(len(lost), 'plan')}."
    stale = [use.plan_name for use in used if use.new_data is False or use.update_right is False]
    if stale:
        yield f"A replay gave an old answer for {', '.join(stale[:4])}."
