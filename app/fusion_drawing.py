"""A graph before and after fusing, as SVG: a kernel per operation with tensors in memory between them, and one kernel
in which they never leave the chip. Pure.

Written by an XML serializer, for names may come from a stranger's file. Colours are classes: ``fusion_view.css``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from app.graph_layers import Arrow
from app.graph_layout import Layout, layout
from app.graph_nodes import NAME_PX, PADDING, SMALL_PX, Node, cleaned, dims_text
from app.graph_view import path
from app.theme import fmt_bytes
from engine.graph.cost import cost
from engine.graph.cutting import Cut, cut
from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role, TensorSpec

WIDTH = 640.0
"""Room for one of two drawings side by side, in the drawing's own pixels."""
REGION = 30.0
"""How wide the band is that joins what runs in one kernel."""
HALO = 9.0


@dataclass(frozen=True)
class _Drawing:
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    kinds: dict[str, str]
    """Class by node: kernel, torch, memory, chip (a tensor that stays on it), scalar."""
    members: frozenset[str]
    """What the fused kernel holds."""


def before_svg(spec: GraphSpec, in_torch: frozenset[int] = frozenset()) -> str:
    """Cut: every piece by itself. ``in_torch``: places of pieces that cuDNN refuses alone."""
    made = cut(spec)
    title = "One operation" if len(made.pieces) == 1 else "Unfused: operation by operation"
    return _svg(_before(made, in_torch), title)


def after_svg(spec: GraphSpec, kernels: int | None = None) -> str:
    """Fused: one graph, what stays on the chip dashed, with the bytes saved on it. ``kernels``: how many the profiler
    saw; None where nobody has looked."""
    caption = "one graph" if kernels is None else "one kernel" if kernels == 1 else f"{kernels} kernels"
    return _svg(_after(cut(spec)), "Fused", caption)


def _before(made: Cut, in_torch: Collection[int]) -> _Drawing:
    saved = {one.uid: one for one in cost(made).saved}
    nodes, kinds = [], {}
    between = {tensor.uid for tensor in made.between}
    for uid, tensor in made.owners.items():
        lines = _size_lines(tensor)
        if uid in between or (uid in saved and saved[uid].touches > 1):
            lines[-1] = f"{saved[uid].touches} × {fmt_bytes(tensor.nbytes)} moved"
        node = _tensor(tensor, lines, "in memory")
        nodes.append(node)
        kinds[node.id] = "scalar" if tensor.role is Role.SCALAR else "memory"
    for place, piece in enumerate(made.pieces):
        words = "torch: cuDNN refuses it alone" if place in in_torch else "by itself"
        node = _operation(place, piece.label, words)
        nodes.append(node)
        kinds[node.id] = "torch" if place in in_torch else "kernel"
    return _Drawing(tuple(nodes), _arrows(made, set(made.owners)), kinds, frozenset())


def _after(made: Cut) -> _Drawing:
    saved = {one.uid: one for one in cost(made).saved}
    between = {tensor.uid: tensor for tensor in made.between}
    real = {tensor.uid: tensor for tensor in made.graph.real}
    nodes, kinds, members = [], {}, set()
    for tensor in real.values():
        lines = _size_lines(tensor)
        if tensor.uid in saved:
            lines.append(f"read less: saves {fmt_bytes(saved[tensor.uid].saved_bytes)}")
        node = _tensor(tensor, lines, "in memory")
        nodes.append(node)
        kinds[node.id] = "scalar" if tensor.role is Role.SCALAR else "memory"
    for tensor in between.values():
        as_fused = made.graph.by_uid.get(tensor.uid, tensor)  # A piece may see it under other dims.
        lines = [dims_text(as_fused), f"saves {fmt_bytes(saved[tensor.uid].saved_bytes)}"]
        node = _tensor(tensor, lines, "never in memory")
        nodes.append(node)
        kinds[node.id] = "chip"
        members.add(node.id)
    for place, piece in enumerate(made.pieces):
        node = _operation(place, piece.label, "in the fused graph")
        nodes.append(node)
        kinds[node.id] = "kernel"
        members.add(node.id)
    return _Drawing(tuple(nodes), _arrows(made, {*real, *between}), kinds, frozenset(members))


def _size_lines(tensor: TensorSpec) -> list[str]:
    if tensor.role is Role.SCALAR:
        return [f"= {tensor.value:g}, from the host"]
    return [dims_text(tensor), fmt_bytes(tensor.nbytes)]


def _arrows(made: Cut, shown: Collection[int]) -> tuple[Arrow, ...]:
    arrows = []
    for place, piece in enumerate(made.pieces):
        own = f"p{place}"
        arrows += [Arrow(f"t{uid}", own) for uid in piece.operation.inputs.values() if uid in shown]
        arrows += [Arrow(own, f"t{uid}") for uid in piece.operation.outputs.values() if uid in shown]
    return tuple(dict.fromkeys(arrows))


def _tensor(tensor: TensorSpec, lines: Sequence[str], where: str) -> Node:
    name = cleaned(tensor.name)
    name = name if len(name) <= 18 else name[:17] + "…"
    spoken = ", ".join([f"{cleaned(tensor.name)}, {where}", *lines])
    return Node(f"t{tensor.uid}", "virtual", name, "", (), tuple(lines), spoken)


def _operation(place: int, label: str, words: str) -> Node:
    return Node(f"p{place}", "operation", cleaned(label), "", (), (), f"{cleaned(label)}, {words}")


def _svg(drawing: _Drawing, title: str, caption: str = "") -> str:
    made = layout([node.box for node in drawing.nodes], drawing.arrows, WIDTH)
    size = {"viewBox": f"0 -18 {made.width:.0f} {made.height + 18:.1f}"}
    style = {"style": f"max-width: {made.width * 1.25:.0f}px"}
    label = f"{title}. " + "; ".join(node.spoken for node in drawing.nodes) + "."
    svg = ET.Element(
        "svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": label, **size, **style}
    )
    if drawing.members:
        _draw_region(svg, made, drawing.members, caption)
    for line in made.lines:
        ends = {drawing.kinds[line.arrow.source], drawing.kinds[line.arrow.target]}
        ET.SubElement(svg, "path", {"class": "wire chip" if "chip" in ends else "wire", "d": path(line)})
        x, y = line.points[-1]
        ET.SubElement(svg, "path", {"class": "tip", "d": f"M{x - 7:.1f} {y - 4:.1f}L{x:.1f} {y:.1f}l-7 4z"})
    by_id = {node.id: node for node in drawing.nodes}
    for box in made.boxes:
        group = ET.SubElement(
            svg, "g", {"class": drawing.kinds[box.id], "transform": f"translate({box.x:.1f} {box.y:.1f})"}
        )
        _draw_node(group, by_id[box.id], box.width, box.height)
    return ET.tostring(svg, encoding="unicode")


def _draw_region(svg: ET.Element, made: Layout, members: Collection[str], caption: str) -> None:
    """What runs as one graph: a halo around each of its nodes, joined along the arrows between them."""
    group = ET.SubElement(svg, "g", {"class": "region"})
    made_inside = {line.arrow.target for line in made.lines if line.arrow.source in members}
    read_inside = {line.arrow.source for line in made.lines if line.arrow.target in members}
    joined = {*members, *(made_inside & read_inside)}  # Also over what the kernel writes and goes on with.
    for line in made.lines:
        if line.arrow.source in joined and line.arrow.target in joined:
            ET.SubElement(group, "path", {"d": path(line), "stroke-width": f"{REGION:g}"})
    inside = [box for box in made.boxes if box.id in members]
    for box in inside:
        around = {"x": f"{box.x - HALO:.1f}", "y": f"{box.y - HALO:.1f}", "rx": "14"}
        size = {"width": f"{box.width + 2 * HALO:.1f}", "height": f"{box.height + 2 * HALO:.1f}"}
        ET.SubElement(group, "rect", {**around, **size})
    first = min(inside, key=lambda box: (box.band, box.x))
    where = {"class": "caption", "x": f"{first.x:.1f}", "y": f"{first.y - HALO - 5:.1f}"}
    ET.SubElement(svg, "text", where).text = caption


def _draw_node(group: ET.Element, node: Node, width: float, height: float) -> None:
    ET.SubElement(group, "title").text = node.spoken
    rounded = "22" if node.shape == "operation" else "5"
    size = {"width": f"{width:.1f}", "height": f"{height:.1f}", "rx": rounded}
    ET.SubElement(group, "rect", {"class": "box", **size})
    middle = node.shape == "operation"
    x, anchor = (width / 2, "middle") if middle else (PADDING, "start")
    lines = [("title", node.title, NAME_PX, 4.0), *(("small", text, SMALL_PX, 3.5) for text in node.small)]
    y = (height - sum(px + gap for _, _, px, gap in lines) + 4) / 2
    for kind, text, px, gap in lines:
        where = {"class": kind, "x": f"{x:.1f}", "y": f"{y + px * 0.82:.1f}", "text-anchor": anchor}
        ET.SubElement(group, "text", where).text = text
        y += px + gap
