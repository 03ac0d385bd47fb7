"""The drawing's geometry: no box on another, no arrow through a box, every arrow from edge to edge, always the same."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from app.graph_layers import Arrow, Box, cut_into_bands, spaced
from app.graph_layout import Layout, layout
from app.graph_nodes import graph_arrows, graph_nodes
from engine.graph.pipelines import CATALOGUE

WIDTHS = (1600.0, 800.0, 420.0, 100.0)


def random_graph(seed: int) -> tuple[list[Box], list[Arrow]]:
    """Up to 30 operations, each reading one to four of the tensors there are and writing one to two."""
    rng = random.Random(seed)
    boxes, arrows, tensors = [], [], []

    def tensor() -> str:
        boxes.append(Box(f"t{len(boxes)}", rng.uniform(72, 220), rng.uniform(44, 90)))
        tensors.append(boxes[-1].id)
        return boxes[-1].id

    for _ in range(rng.randint(1, 3)):
        tensor()
    for i in range(rng.randint(1, 30)):
        own = Box(f"o{i}", rng.uniform(72, 160), rng.uniform(44, 80))
        read = rng.sample(tensors, min(len(tensors), rng.randint(1, 3)))
        if rng.random() < 0.4:
            read.append(tensor())
        boxes.append(own)
        arrows += [Arrow(t, own.id) for t in read]
        arrows += [Arrow(own.id, tensor()) for _ in range(rng.choice((1, 1, 1, 2)))]
    return boxes, arrows


def check(made: Layout, boxes: list[Box], arrows: list[Arrow]) -> None:
    placed = {box.id: box for box in made.boxes}
    assert len(made.boxes) == len(placed) == len(boxes)
    for box in boxes:
        assert placed[box.id].width >= box.width
        assert placed[box.id].height == box.height
    for a, b in combinations(made.boxes, 2):
        apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
        assert apart, (a, b)
    for box in made.boxes:
        assert box.x >= 0
        assert box.x + box.width <= made.width
        assert box.y >= 0
        assert box.y + box.height <= made.height
    assert {line.arrow for line in made.lines} == set(arrows)
    for line in made.lines:
        source, target = placed[line.arrow.source], placed[line.arrow.target]
        (x0, y0), (x1, y1) = line.points[0], line.points[-1]
        assert x0 == pytest.approx(source.x + source.width)
        assert source.y < y0 < source.y + source.height
        assert x1 == pytest.approx(target.x)
        assert target.y < y1 < target.y + target.height
        for (xa, ya), (xb, yb) in pairwise(line.points):
            left, right, top, bottom = min(xa, xb), max(xa, xb), min(ya, yb), max(ya, yb)
            assert left >= 0
            assert right <= made.width
            assert top >= 0
            assert bottom <= made.height
            for box in made.boxes:
                through = left < box.x + box.width - 1e-6 and right > box.x + 1e-6
                assert not (through and top < box.y + box.height - 1e-6 and bottom > box.y + 1e-6), (line, box)


@pytest.mark.parametrize("seed", range(40))
def test_any_graph_is_drawn_without_collisions(seed: int) -> None:
    boxes, arrows = random_graph(seed)
    for width in WIDTHS:
        made = layout(boxes, arrows, width)
        check(made, boxes, arrows)
        assert layout(boxes, arrows, width) == made


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_pipeline_fits_where_it_can(name: str) -> None:
    spec = CATALOGUE[name].graph({})
    nodes, arrows = graph_nodes(spec), list(graph_arrows(spec))
    boxes = [node.box for node in nodes]
    bands = []
    for width in (1600.0, 1000.0, 700.0, 400.0):
        made = layout(boxes, arrows, width)
        check(made, boxes, arrows)
        assert made.width <= width
        bands.append(made.bands)
    assert bands == sorted(bands)
    assert bands[0] == 1


def test_layers_run_left_to_right_and_the_main_line_is_straight() -> None:
    spec = CATALOGUE["conv_bias_relu"].graph({})
    made = layout([node.box for node in graph_nodes(spec)], graph_arrows(spec), 1600)
    placed = {box.id: box for box in made.boxes}
    for line in made.lines:
        assert placed[line.arrow.source].x < placed[line.arrow.target].x
    main = ["o0.conv", "t101.conv.out", "o1.bias", "t102.bias.out", "o2.relu", "t4.Y"]
    middles = [placed[node].y + placed[node].height / 2 for node in main]
    assert max(middles) - min(middles) < 1


def test_a_bypass_runs_around_what_it_passes() -> None:
    boxes = [Box(name, 80, 50) for name in ("x", "f", "y", "g", "z", "add", "out")]
    arrows = [Arrow(a, b) for a, b in pairwise(("x", "f", "y", "g", "z", "add", "out"))] + [Arrow("x", "add")]
    for width in (2000.0, 400.0):
        check(layout(boxes, arrows, width), boxes, arrows)


def test_boxes_without_arrows_and_no_boxes_at_all() -> None:
    lonely = [Box("a", 80, 50), Box("b", 80, 50)]
    check(layout(lonely, [], 500), lonely, [])
    assert layout([], [], 500).boxes == ()


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        layout([Box("a", 80, 50), Box("b", 80, 50)], [Arrow("a", "b"), Arrow("b", "a")], 500)


def test_bands_are_few_then_cut_few_arrows() -> None:
    assert cut_into_bands([100, 100, 100, 100], [1, 1, 1], 10, 1000) == [range(4)]
    assert cut_into_bands([100, 100, 100, 100], [3, 2, 1], 10, 350) == [range(3), range(3, 4)]
    assert cut_into_bands([500, 100], [1], 10, 200) == [range(1), range(1, 2)]


def test_spacing_is_the_nearest_that_keeps_distances() -> None:
    assert spaced([0, 100], [1, 1], [10]) == [0, 100]
    assert spaced([0, 0], [1, 1], [10]) == [-5, 5]
    assert spaced([5, 5, 5], [1, 1, 1], [10, 10]) == [-5, 5, 15]
    heavy = spaced([0, 0], [1, 1e-3], [10])
    assert heavy[0] == pytest.approx(0, abs=0.02)
    assert heavy[1] - heavy[0] == 10
