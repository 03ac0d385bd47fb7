"""Layers of a graph for its drawing: who stands in which, in what order, and where the line of layers wraps. Pure.

Layers by longest path, lanes for arrows that pass over layers, order by barycenters (Sugiyama, Tagawa, Toda 1981).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

LANE = 8.0
"""Height that an arrow takes where it passes through a layer."""


@dataclass(frozen=True)
class Box:
    """A node to be placed, by its size."""

    id: str
    width: float
    height: float


@dataclass(frozen=True)
class Arrow:
    """From one node to another."""

    source: str
    target: str


@dataclass
class Vertex:
    """A box, or an arrow's lane through a layer that it passes over."""

    box: Box | None
    layer: int
    height: float
    source: bool = False
    before: list[Vertex] | None = None
    after: list[Vertex] | None = None
    y: float = 0.0

    def __post_init__(self) -> None:
        self.before, self.after = [], []


def ranks_of(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> dict[str, int]:
    """Layer of each box: longest path from the start, then boxes nothing leads to moved up to their first reader."""
    into: dict[str, list[str]] = {box.id: [] for box in boxes}
    out: dict[str, list[str]] = {box.id: [] for box in boxes}
    for arrow in arrows:
        into[arrow.target].append(arrow.source)
        out[arrow.source].append(arrow.target)
    ranks: dict[str, int] = {}
    waiting = {box: len(sources) for box, sources in into.items()}
    ready = [box for box, count in waiting.items() if count == 0]
    while ready:
        box = ready.pop()
        ranks[box] = 1 + max((ranks[source] for source in into[box]), default=-1)
        for target in out[box]:
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    if len(ranks) != len(into):
        raise ValueError("the arrows form a cycle")
    for box, sources in into.items():
        if not sources and out[box]:
            ranks[box] = min(ranks[target] for target in out[box]) - 1
    return ranks


def with_lanes(
    boxes: Sequence[Box], arrows: Sequence[Arrow], ranks: Mapping[str, int]
) -> tuple[list[list[Vertex]], dict[Arrow, list[Vertex]]]:
    """Layers of vertices, and each arrow as the chain of vertices it runs through. Boxes that only bring data in come
    last in their layer, so that the main line stays on top."""
    targets = {arrow.target for arrow in arrows}
    vertices = {box.id: Vertex(box, ranks[box.id], box.height, box.id not in targets) for box in boxes}
    layers: list[list[Vertex]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for vertex in sorted(vertices.values(), key=lambda v: v.source):
        layers[vertex.layer].append(vertex)
    chains = {}
    for arrow in dict.fromkeys(arrows):
        start, end = vertices[arrow.source], vertices[arrow.target]
        lanes = [Vertex(None, layer, LANE) for layer in range(start.layer + 1, end.layer)]
        for lane in lanes:
            layers[lane.layer].append(lane)
        chains[arrow] = [start, *lanes, end]
        for a, b in pairwise(chains[arrow]):
            a.after.append(b)  # type: ignore[union-attr]
            b.before.append(a)  # type: ignore[union-attr]
    return layers, chains


def order_layers(layers: list[list[Vertex]]) -> None:
    """Sort every layer in place by the mean place of its neighbours, to and fro; the order that crosses least stays."""

    def crossings() -> int:
        total = 0
        for layer in layers[1:]:
            ends = [place[id(b)] for vertex in layer for b in sorted(vertex.before or [], key=lambda b: place[id(b)])]
            total += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, len(ends)))
        return total

    def remember() -> dict[int, int]:
        return {id(vertex): i for layer in layers for i, vertex in enumerate(layer)}

    place = remember()
    best, kept = crossings(), [list(layer) for layer in layers]
    for sweep in range(8):
        if best == 0:
            break
        for layer in layers if sweep % 2 == 0 else reversed(layers):

            def mean(vertex: Vertex, forward: bool = sweep % 2 == 0) -> float:
                near = (vertex.before if forward else vertex.after) or [vertex]
                return sum(place[id(n)] for n in near) / len(near)

            layer.sort(key=mean)
            place.update({id(vertex): i for i, vertex in enumerate(layer)})
        if (found := crossings()) < best:
            best, kept = found, [list(layer) for layer in layers]
    for layer, order in zip(layers, kept, strict=True):
        layer[:] = order


def cut_arrows(ranks: Mapping[str, int], arrows: Iterable[Arrow], layer: int) -> int:
    """How many arrows pass from this layer or before it to one after it."""
    return sum(ranks[a.source] <= layer < ranks[a.target] for a in arrows)


def cut_into_bands(widths: Sequence[float], cut: Sequence[int], gap: float, limit: float) -> list[range]:
    """Cut the layers into as few bands as fit into ``limit``; of those ways, where the fewest arrows are cut
    (``cut[i]`` of them behind layer i), then where the widest band is narrowest."""

    def width(start: int, stop: int) -> float:
        return sum(widths[start:stop]) + gap * (stop - start - 1)

    best: list[tuple[tuple[int, int, float], list[range]]] = [((0, 0, 0.0), [])]
    for stop in range(1, len(widths) + 1):
        options = []
        for start in range(stop):
            if start < stop - 1 and width(start, stop) > limit:
                continue
            (count, through, widest), bands = best[start]
            through += cut[start - 1] if start else 0
            options.append(((count + 1, through, max(widest, width(start, stop))), [*bands, range(start, stop)]))
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]


def spaced(wanted: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones (weighted least squares) that keep the order and these distances between
    neighbours: isotonic regression by pooling adjacent violators."""
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        pool = (want - offset, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            mean, heavy, count = pools.pop()
            total = heavy + pool[1]
            pool = ((mean * heavy + pool[0] * pool[1]) / total, total, count + pool[2])
        pools.append(pool)
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [value + offset for value, offset in zip(flat, offsets, strict=True)]
