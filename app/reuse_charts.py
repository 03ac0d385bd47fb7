"""From a study of reuse to figures: what each way costs per plan or size, side by side on a logarithmic axis. Pure.

Every figure is None where there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from app import theme
from app.plan_rows import points, rows_figure, value_axis
from engine.records.reuse import DynamicShapes, GraphUse, PlanCost, Reuse, SizePlan, Times, Way

LEAST = 1e-4
"""What stands for a time of zero on a logarithmic axis: nothing here is timed to less."""


@dataclass(frozen=True)
class Mark:
    """A kind of time: its name, colour and symbol, so that colour is never all that tells."""

    name: str
    colour: str
    symbol: str


COLD = Mark("cold build", theme.WRONG_COLOUR, "square")
WARM = Mark("build, compute cache warm", theme.FIRST_PICK_COLOUR, "diamond")
AGAIN = Mark("build again, libraries loaded", theme.OTHER_COLOUR, "diamond-open")
FIRST_LOAD = Mark("first load of a process", theme.ENGINE_COLOURS[0], "circle-open")
LOAD = Mark("load", theme.FASTEST_COLOUR, "circle")
WAYS = {
    Way.STATIC: Mark("each on its own", theme.WRONG_COLOUR, "square"),
    Way.CACHE: Mark("shared kernel cache", theme.FASTEST_COLOUR, "circle"),
    Way.OVERRIDE: Mark("override shape", theme.ENGINE_COLOURS[0], "diamond"),
}
WRONG = Mark("wrong result", theme.WRONG_COLOUR, "x")


def costs_figure(reuse: Reuse) -> go.Figure | None:
    """Build against load: one row per plan, the dearest cold build first; milliseconds, medians with all repetitions
    as bars. At the right how many times a load a build takes (PlanCost.speedup)."""
    costs = sorted(reuse.costs, key=lambda cost: -cost.cold_ms.median_ms if cost.cold_ms else 0.0)
    costs = [cost for cost in costs if cost.cold_ms or cost.load_ms]
    if not costs:
        return None
    rows = [{"key": cost.key, "plan_name": cost.plan_name} for cost in costs]
    kinds: tuple[tuple[Mark, Callable[[PlanCost], Times | None]], ...] = (
        (COLD, lambda cost: cost.cold_ms),
        (WARM, lambda cost: cost.warm_ms),
        (AGAIN, lambda cost: cost.again_ms),
        (FIRST_LOAD, lambda cost: cost.first_load_ms),
        (LOAD, lambda cost: cost.load_ms),
    )
    traces = []
    for mark, of in kinds:
        found = [of(cost) for cost in costs]
        at = [i for i, times in enumerate(found) if times]
        middle = [times.median_ms if times else 0.0 for times in found]
        ranges = [times.range_ms if times else (0.0, 0.0) for times in found]
        bars = {
            "array": [ranges[i][1] - middle[i] for i in at],
            "arrayminus": [middle[i] - ranges[i][0] for i in at],
        }
        error_x = {"type": "data", "symmetric": False, "thickness": 2, "width": 3, **bars}
        hover = [
            f"<b>{cost.plan_name}</b><br>{mark.name}: {_ms(times)}<br>{_repeats(times)}"
            for cost, times in zip(costs, found, strict=True)
        ]
        if at:
            traces.append(_trace(mark, rows, at, middle, hover, error_x=error_x))
    limits = [value for trace in traces for value in trace["x"]]
    axis = value_axis("milliseconds, median of fresh processes", min(limits), max(limits), log=True)
    return rows_figure(rows, traces, axis, [theme.fmt_ratio(cost.speedup) for cost in costs], None)


def builds_figure(shapes: DynamicShapes) -> go.Figure | None:
    """Building at each size, in each way: milliseconds. A plan that was built for another size already costs nothing
    more, and is not drawn there."""
    return _by_size(shapes, lambda size: size.build_ms or None, "milliseconds to build", theme.fmt_ms)


def speeds_figure(shapes: DynamicShapes) -> go.Figure | None:
    """What runs at each size, in each way: hot microseconds; a wrong result is a red cross, however fast. At the right
    the kernel cache's plan over the best static one."""
    return _by_size(shapes, lambda size: size.hot.median_us if size.hot else None, "microseconds, hot", theme.fmt_us)


def graphs_figure(uses: Sequence[GraphUse]) -> go.Figure | None:
    """A plain call against replays of 1, 10 and 100 executions, per execution. At the right what a call gets rid of."""
    uses = [use for use in uses if use.call_us]
    if not uses:
        return None
    rows = [{"key": use.identity.key, "plan_name": use.plan_name} for use in uses]
    kinds = [(Mark("plain calls", theme.WRONG_COLOUR, "square"), "")]
    symbols = {"1": "circle-open", "10": "diamond", "100": "circle"}
    colours = {"1": theme.ENGINE_COLOURS[0], "10": theme.FIRST_PICK_COLOUR, "100": theme.FASTEST_COLOUR}
    kinds += [
        (Mark(f"graph of {count}", colours.get(count, theme.OTHER_COLOUR), symbols.get(count, "circle")), count)
        for count in dict.fromkeys(count for use in uses for count in use.replays)
    ]
    traces = []
    for mark, count in kinds:
        found = [use.replays.get(count) if count else use.call_us for use in uses]
        at = [i for i, samples in enumerate(found) if samples]
        x = [samples.median_us if samples else 0.0 for samples in found]
        hover = [
            f"<b>{use.plan_name}</b><br>{mark.name}: {theme.fmt_us(value)}" for use, value in zip(uses, x, strict=True)
        ]
        traces.append(_trace(mark, rows, at, x, hover))
    limits = [value for trace in traces for value in trace["x"]]
    axis = value_axis("microseconds per execution", min(limits), max(limits), log=max(limits) > 8 * min(limits))
    readings = [theme.fmt_us(use.removed_us) if use.removed_us is not None else theme.NOTHING for use in uses]
    return rows_figure(rows, traces, axis, readings, None)


def _by_size(
    shapes: DynamicShapes,
    value: Callable[[SizePlan], float | None],
    title: str,
    read: Callable[[float], str],
) -> go.Figure | None:
    rows = [{"key": str(size), "plan_name": f"{shapes.letter} = {size}"} for size in shapes.sizes]
    place = {size: i for i, size in enumerate(shapes.sizes)}
    traces, values = [], dict[Way, dict[int, float]]()
    wrong: list[tuple[int, float, str]] = []
    for series in shapes.series:
        mark = WAYS[series.way]
        x, hover, at = [0.0] * len(rows), [""] * len(rows), []
        for size in series.sizes:
            if (number := value(size)) is None:
                continue
            i = place[size.size]
            name = size.best_name if size.hot and number == size.hot.median_us and size.best_name else size.plan_name
            text = f"<b>{shapes.letter} = {size.size}</b><br>{mark.name}: {name}, {read(number)}"
            if size.right is False:
                wrong.append((i, number, f"{text}<br>wrong: {size.complaint}"))
                continue
            at.append(i)
            x[i], hover[i] = max(number, LEAST), text
        values[series.way] = {i: x[i] for i in at}
        if at:
            traces.append(_trace(mark, rows, at, x, hover))
    if wrong:
        at = list(range(len(wrong)))
        own = [rows[i] for i, _, _ in wrong]
        trace = _trace(WRONG, own, at, [max(number, LEAST) for _, number, _ in wrong], [text for *_, text in wrong])
        traces.append({**trace, "y": [i for i, _, _ in wrong]})
    limits = [number for trace in traces for number in trace["x"]]
    if not limits:
        return None
    static, cached = values.get(Way.STATIC, {}), values.get(Way.CACHE, {})
    readings = [theme.fmt_ratio(cached[i] / static[i]) if i in static and i in cached else "" for i in range(len(rows))]
    axis = value_axis(title, min(limits), max(limits), log=max(limits) > 8 * min(limits))
    return rows_figure(rows, traces, axis, readings, None)


def _trace(
    mark: Mark,
    rows: Sequence[dict[str, Any]],
    at: Sequence[int],
    x: Sequence[float],
    hover: Sequence[str],
    **more: Any,
) -> dict[str, Any]:
    return points(mark.name, rows, at, x, hover, {"color": mark.colour, "size": 9, "symbol": mark.symbol}, **more)


def _ms(times: Times | None) -> str:
    return theme.fmt_ms(times.median_ms, 3) if times else theme.NOTHING


def _repeats(times: Times | None) -> str:
    return ", ".join(theme.fmt_ms(value, 3) for value in _values(times))


def _values(times: Times | None) -> Iterable[float]:
    return times.values_ms if times else ()
