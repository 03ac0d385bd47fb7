"""The operation graph, drawn: an inline SVG whose nodes are buttons, the chosen node's facts, and the same as a table.

No iframe and nothing from another host. The SVG is written by an XML serializer, never by pasting texts together, for
tensor names may come from a stranger's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import streamlit as st

from app.graph_layout import Layout, Line, Point, layout
from app.graph_nodes import (
    NAME_PX,
    PADDING,
    SMALL_PX,
    VALUE_PX,
    Node,
    cleaned,
    graph_arrows,
    graph_facts,
    graph_nodes,
    graph_table,
    node_facts,
)
from engine.graph.spec import GraphSpec

WIDTHS = (1600.0, 1150.0, 850.0, 600.0, 400.0, 300.0)
"""Room that the arrangements are made for, in pixels; the browser takes the widest one that fits."""
_HERE = Path(__file__).parent
_LEGEND = (
    ("", "real tensor, in memory"),
    ("virtual", "virtual tensor, never in memory"),
    ("operation", "operation"),
)
_HTML = (
    '<div class="root"><div class="picture"></div><div class="legend">'
    + "".join(f'<span><i class="{name}"></i>{words}</span>' for name, words in _LEGEND)
    + "<span>in each tensor: name, type · dims · strides in elements</span></div></div>"
)
_component = st.components.v2.component(
    "planscope.graph",
    html=_HTML,
    css=(_HERE / "graph_view.css").read_text(encoding="utf-8"),
    js=(_HERE / "graph_view.js").read_text(encoding="utf-8"),
)


def render_graph(spec: GraphSpec, *, key: str = "graph") -> str | None:
    """Draw the graph and return the id of the chosen node, None where none is (or the graph no longer has it).

    A click, Enter or Space on a node chooses it and runs the script (or the fragment) again; on the chosen node
    it takes the choice back.
    """
    drawing = graph_drawing(spec)
    state = st.session_state.get(key)
    chosen = state.get("node") if isinstance(state, dict) else None
    known = chosen if isinstance(chosen, str) and chosen in drawing["layouts"][0]["at"] else None
    result = _component(
        data={**drawing, "selected": known}, key=key, on_node_change=lambda: None, on_connected_change=lambda: None
    )
    chosen = result.get("node")
    return chosen if isinstance(chosen, str) and chosen in drawing["layouts"][0]["at"] else None


def render_node_details(spec: GraphSpec, node: str | None) -> None:
    """The facts of a node, or of the whole graph where none is chosen, as a two-column table."""
    found = node_facts(spec, node) if node else None
    title, facts = found or ("Whole graph", graph_facts(spec))
    st.html(facts_html(title, facts))


def render_graph_table(spec: GraphSpec) -> None:
    """The drawing as a table, folded away: what a screen reader, or a person who wants to copy, reads instead."""
    panel = st.expander("The graph as a table", key="graph-table", on_change="rerun")
    if panel.open:  # Streamlit's table takes a second to start: not before anybody asks for it
        panel.dataframe(graph_table(spec), hide_index=True, width="stretch")


def facts_html(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """A heading and a description list, every text escaped."""
    root = ET.Element("section", {"aria-live": "polite", "class": "ps-facts"})
    ET.SubElement(root, "h4").text = title
    listing = ET.SubElement(root, "dl")
    for name, value in facts:
        ET.SubElement(listing, "dt").text = cleaned(name)
        ET.SubElement(listing, "dd").text = cleaned(value)
    return ET.tostring(root, encoding="unicode")


def graph_drawing(spec: GraphSpec) -> dict[str, Any]:
    """What the browser needs: the SVG, and where each node stands in every arrangement, widest first."""
    return _drawing(graph_nodes(spec), graph_arrows(spec))


@lru_cache(maxsize=64)
def _drawing(nodes: tuple[Node, ...], arrows: tuple[Any, ...]) -> dict[str, Any]:
    layouts: list[Layout] = []
    for width in WIDTHS:
        made = layout([node.box for node in nodes], arrows, width)
        if not layouts or made.width < 0.9 * layouts[-1].width:
            layouts.append(made)
    at = [{box.id: [round(box.x, 1), round(box.y, 1)] for box in made.boxes} for made in layouts]
    sizes = [{"width": round(made.width), "height": round(made.height, 1)} for made in layouts]
    return {
        "svg": _svg(nodes, layouts),
        "layouts": [{**size, "at": places} for size, places in zip(sizes, at, strict=True)],
    }


def _svg(nodes: Sequence[Node], layouts: Sequence[Layout]) -> str:
    by_id = {node.id: node for node in nodes}
    label = f"Operation graph of {sum(n.shape == 'operation' for n in nodes)} operations. Each node is a button."
    svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "group", "aria-label": label})
    for made in layouts:
        group = ET.SubElement(svg, "g", {"class": "edges", "aria-hidden": "true"})
        for line in made.lines:
            ends = (by_id[line.arrow.source], by_id[line.arrow.target])
            kind = "wire virtual" if any(node.shape == "virtual" for node in ends) else "wire"
            ET.SubElement(group, "path", {"class": kind, "d": path(line)})
            (x, y) = line.points[-1]
            ET.SubElement(group, "path", {"class": "tip", "d": f"M{x - 7:.1f} {y - 4:.1f}L{x:.1f} {y:.1f}l-7 4z"})
    for box in layouts[0].boxes:
        _draw_node(svg, by_id[box.id], box.width, box.height)
    return ET.tostring(svg, encoding="unicode")


def _draw_node(svg: ET.Element, node: Node, width: float, height: float) -> None:
    group = ET.SubElement(
        svg,
        "g",
        {
            "class": f"node {node.shape}",
            "data-node": node.id,
            "role": "button",
            "tabindex": "0",
            "aria-label": node.spoken,
            "aria-pressed": "false",
        },
    )
    ET.SubElement(group, "title").text = node.spoken
    round_off = height / 2 if node.shape == "operation" else 5
    size = {"width": f"{width:.1f}", "height": f"{height:.1f}", "rx": f"{min(round_off, 22):.1f}"}
    ET.SubElement(group, "rect", {"class": "box", **size})
    ring = {"x": "-3.5", "y": "-3.5", "width": f"{width + 7:.1f}", "height": f"{height + 7:.1f}"}
    ET.SubElement(group, "rect", {"class": "ring", **ring, "rx": f"{min(round_off, 22) + 3.5:.1f}"})
    middle = node.shape == "operation"
    x, anchor = (width / 2, "middle") if middle else (PADDING, "start")
    lines = [("title", node.title, NAME_PX), *(("value", v, VALUE_PX) for v in node.values)]
    lines += [("small", text, SMALL_PX) for text in node.small]
    advance = {"title": NAME_PX + 4, "value": VALUE_PX + 4, "small": SMALL_PX + 3.5}
    y = (height - sum(advance[kind] for kind, _, _ in lines) + 4) / 2
    for kind, text, px in lines:
        where = {"class": kind, "x": f"{x:.1f}", "y": f"{y + px * 0.82:.1f}", "text-anchor": anchor}
        ET.SubElement(group, "text", where).text = text
        if kind == "title" and node.tag:
            tag = {"class": "tag", "x": f"{width - PADDING:.1f}", "y": where["y"], "text-anchor": "end"}
            ET.SubElement(group, "text", tag).text = node.tag
        y += advance[kind]


def path(line: Line) -> str:
    """The arrow's way as SVG path data: straight along an axis with rounded corners, an S across a gap."""
    points = line.points
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for i, (x, y) in enumerate(points[1:], 1):
        x0, y0 = points[i - 1]
        if x0 != x and y0 != y:
            half = (x0 + x) / 2
            parts.append(f"C{half:.1f} {y0:.1f} {half:.1f} {y:.1f} {x:.1f} {y:.1f}")
        elif i + 1 < len(points) and _turns((x0, y0), (x, y), points[i + 1]):
            before, after = _toward((x, y), (x0, y0)), _toward((x, y), points[i + 1])
            parts.append(f"L{before[0]:.1f} {before[1]:.1f}Q{x:.1f} {y:.1f} {after[0]:.1f} {after[1]:.1f}")
        else:
            parts.append(f"L{x:.1f} {y:.1f}")
    return "".join(parts)


def _turns(a: Point, b: Point, c: Point) -> bool:
    """Whether a way along the axes turns a corner at ``b``."""
    return (a[0] == b[0]) != (b[0] == c[0]) and (b[0] == c[0] or b[1] == c[1])


def _toward(start: Point, end: Point, radius: float = 7.0) -> Point:
    """The point so far from ``start`` on the way to ``end``, at most half of it."""
    length = abs(end[0] - start[0]) + abs(end[1] - start[1])
    share = min(radius / length, 0.5) if length else 0.0
    return (start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share)
