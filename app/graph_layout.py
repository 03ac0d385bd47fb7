"""Coordinates for the drawing of a graph: layers from left to right, wrapped into bands like lines of text. Pure.

Heights come from isotonic regression, so that the line which carries the data on stays straight. Arrows run only in the
gaps between layers, along lanes and in the gutters between bands: none crosses a box. The same graph always gives the
same picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.graph_layers import Arrow, Box, Vertex, cut_arrows, cut_into_bands, order_layers, ranks_of, spaced, with_lanes

Point = tuple[float, float]
GAP, ROW_GAP, MARGIN = 30.0, 14.0, 6.0
"""Between layers, between the boxes of a layer, around everything."""
GUTTER, RAIL = 20.0, 9.0
"""Room beside the arrows that go on in the next band, and between two of them."""


@dataclass(frozen=True)
class Placed:
    """A node with its top left corner; boxes of a layer are given the same width."""

    id: str
    x: float
    y: float
    width: float
    height: float
    layer: int
    band: int


@dataclass(frozen=True)
class Line:
    """An arrow's way: corners from the source's right edge to the target's left edge. Between two corners it runs
    straight along an axis, or across the gap between two layers."""

    arrow: Arrow
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Layout:
    """The whole picture, from (0, 0) to (width, height)."""

    width: float
    height: float
    boxes: tuple[Placed, ...]
    lines: tuple[Line, ...]
    bands: int


def layout(boxes: Sequence[Box], arrows: Sequence[Arrow], max_width: float) -> Layout:
    """Place the boxes in bands no wider than ``max_width`` where single layers allow it.

    The arrows must form no cycle and name given boxes only. A box without arrows stands in the first layer.
    """
    ranks = ranks_of(boxes, arrows)
    layers, chains = with_lanes(boxes, arrows, ranks)
    order_layers(layers)
    widths = [max((v.box.width for v in layer if v.box), default=0.0) for layer in layers]
    cut = [cut_arrows(ranks, arrows, i) for i in range(len(widths) - 1)]
    bands = cut_into_bands(widths, cut, GAP, max_width - 2 * (MARGIN + GUTTER + RAIL))
    return _Picture(layers, chains, widths, bands).draw()


class _Picture:
    """Coordinates from layers, widths and bands."""

    def __init__(
        self,
        layers: list[list[Vertex]],
        chains: dict[Arrow, list[Vertex]],
        widths: list[float],
        bands: list[range],
    ) -> None:
        self.layers, self.chains, self.widths, self.bands = layers, chains, widths, bands
        self.band_of = {layer: number for number, band in enumerate(bands) for layer in band}
        self.left: dict[int, float] = {}
        self.bottoms: list[float] = []
        self.wraps = [
            [
                (arrow, i)
                for arrow, chain in chains.items()
                for i in range(len(chain) - 1)
                if self._wraps(chain, i, number)
            ]
            for number in range(len(bands) - 1)
        ]

    def _wraps(self, chain: list[Vertex], i: int, band: int) -> bool:
        return self.band_of[chain[i].layer] == band < self.band_of[chain[i + 1].layer]

    def draw(self) -> Layout:
        """The finished layout."""
        rails = max((len(wrap) for wrap in self.wraps), default=0)
        indent = MARGIN + (GUTTER + RAIL * (rails - 1) if rails else 0.0)
        right, top = 0.0, MARGIN
        for number, band in enumerate(self.bands):
            x = indent
            for layer in band:
                self.left[layer] = x
                x += self.widths[layer] + GAP
            right = max(right, x - GAP)
            self._heights(band, top)
            vertices = [v for layer in band for v in self.layers[layer]]
            self.bottoms.append(max((v.y + v.height / 2 for v in vertices), default=top))
            if number < len(self.wraps):
                top = self.bottoms[-1] + 2 * GUTTER + RAIL * max(len(self.wraps[number]) - 1, 0)
        width = right + (GUTTER + RAIL * (rails - 1) if rails else 0.0) + MARGIN
        boxes = [self._placed(v) for layer in self.layers for v in layer if v.box]
        entries = self._entries()
        lines = [Line(arrow, self._way(arrow, chain, entries[arrow])) for arrow, chain in self.chains.items()]
        return Layout(width, max(self.bottoms, default=0.0) + MARGIN, tuple(boxes), tuple(lines), len(self.bands))

    def _placed(self, vertex: Vertex) -> Placed:
        assert vertex.box is not None
        layer, y = vertex.layer, vertex.y - vertex.height / 2
        width = self.widths[layer]
        return Placed(vertex.box.id, self.left[layer], y, width, vertex.height, layer, self.band_of[layer])

    def _heights(self, band: range, top: float) -> None:
        """Middles of a band's vertices: level with what leads to them, the main line (what is made here) above all."""
        inside = set(band)
        for layer in band:
            vertices = self.layers[layer]
            wanted: list[float | None] = []
            for vertex in vertices:
                near = [b for b in vertex.before or [] if b.layer in inside]
                near = [b for b in near if not b.source] or near
                wanted.append(sum(b.y for b in near) / len(near) if near else None)
            known = [w for w in wanted if w is not None]
            middle = sum(known) / len(known) if known else 0.0
            distances = [(a.height + b.height) / 2 + ROW_GAP for a, b in pairwise(vertices)]
            weights = [1e-3 if w is None else 1.0 for w in wanted]
            places = spaced([middle if w is None else w for w in wanted], weights, distances)
            for vertex, y in zip(vertices, places, strict=True):
                vertex.y = y
        everything = [v for layer in band for v in self.layers[layer]]
        shift = top - min((v.y - v.height / 2 for v in everything), default=0.0)
        for vertex in everything:
            vertex.y += shift

    def _entries(self) -> dict[Arrow, float]:
        """Where each arrow meets its target's left edge: as level with its last stretch as the box's height allows."""
        into: dict[int, list[Arrow]] = {}
        for arrow, chain in self.chains.items():
            into.setdefault(id(chain[-1]), []).append(arrow)
        entries: dict[Arrow, float] = {}
        for arrows in into.values():
            target = self.chains[arrows[0]][-1]
            arrows.sort(key=lambda a: self._level(a))
            room = target.height / 2 - 10
            wanted = [min(max(self._level(a), target.y - room), target.y + room) for a in arrows]
            distance = min(12.0, 2 * room / max(len(arrows) - 1, 1))
            places = spaced(wanted, [1.0] * len(arrows), [distance] * (len(arrows) - 1))
            low, high = target.y - room, target.y + room - distance * (len(arrows) - 1)
            for i, (arrow, y) in enumerate(zip(arrows, places, strict=True)):
                entries[arrow] = min(max(y, low + distance * i), high + distance * i)
        return entries

    def _level(self, arrow: Arrow) -> float:
        """Height of an arrow's last stretch; one that comes out of a gutter enters in the middle."""
        before, target = self.chains[arrow][-2:]
        return before.y if self.band_of[before.layer] == self.band_of[target.layer] else target.y

    def _way(self, arrow: Arrow, chain: list[Vertex], entry: float) -> tuple[Point, ...]:
        points: list[Point] = [(self.left[chain[0].layer] + self.widths[chain[0].layer], chain[0].y)]
        for i, vertex in enumerate(chain[1:]):
            x, y = self.left[vertex.layer], entry if vertex is chain[-1] else vertex.y
            number = self.band_of[chain[i].layer]
            if number != self.band_of[vertex.layer]:
                rail = self.wraps[number].index((arrow, i))
                gutter = self.bottoms[number] + GUTTER + RAIL * rail
                right = points[-1][0] + GUTTER / 2 + RAIL * rail
                left = self.left[self.bands[number + 1][0]] - GUTTER / 2 - RAIL * rail
                points += [(right, points[-1][1]), (right, gutter), (left, gutter), (left, y)]
            points.append((x, y))
            if vertex is not chain[-1]:
                points.append((x + self.widths[vertex.layer], y))
        return tuple(points)
