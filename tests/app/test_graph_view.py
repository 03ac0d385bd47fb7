"""The drawing's words, its SVG and its panel: everything said, nothing foreign executed, choice kept."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from streamlit.testing.v1 import AppTest

from app.graph_layout import Line
from app.graph_nodes import cleaned, graph_facts, graph_nodes, graph_table, node_facts
from app.graph_view import facts_html, graph_drawing, path
from engine.graph.operations import Matmul, Unary
from engine.graph.pipelines import CATALOGUE
from engine.graph.spec import GraphBuilder, GraphSpec
from engine.graph.tensors import DataType

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202e&amp;'


def foreign_graph() -> GraphSpec:
    """A graph as a stranger's run file may name it."""
    g = GraphBuilder(DataType.BF16)
    a, b = g.input(EVIL, (1, 8, 8)), g.input("b" * 64, (1, 8, 8))
    product = g.apply(Matmul, "x' onfocus='alert(1)", {"a": a, "b": b})
    g.output(g.apply(Unary, "relu", {"x": product}, mode="relu"), "<svg onload=alert(1)>")
    return g.build()


def drawn(spec: GraphSpec) -> ET.Element:
    return ET.fromstring(graph_drawing(spec)["svg"])


def node_groups(svg: ET.Element) -> dict[str, ET.Element]:
    return {g.attrib["data-node"]: g for g in svg.iter(f"{SVG}g") if "data-node" in g.attrib}


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_operation_and_tensor_is_a_button_that_says_everything(name: str) -> None:
    spec = CATALOGUE[name].graph({})
    groups = node_groups(drawn(spec))
    assert len(groups) == len(spec.operations) + len(spec.tensors)
    for tensor in spec.tensors:
        group = groups[f"t{tensor.uid}.{tensor.name}"]
        assert group.attrib["role"] == "button"
        assert group.attrib["tabindex"] == "0"
        label = group.attrib["aria-label"]
        texts = " ".join(t.text or "" for t in group.iter(f"{SVG}text"))
        for number in (*tensor.dims, *tensor.strides):
            assert str(number) in label
            assert str(number) in texts
        for words in (tensor.name, str(tensor.dtype)):
            assert words in label
            assert words in texts
        assert ("virtual" in label) == ("virtual" in group.attrib["class"]) == (not tensor.is_real)
    for operation in spec.operations:
        assert any(operation.label() in g.attrib["aria-label"] for g in groups.values())


def test_keyboard_order_follows_the_data() -> None:
    order = list(node_groups(drawn(CATALOGUE["conv_bias_relu"].graph({}))))
    names = [node.split(".", 1)[1] for node in order]
    assert names == ["X", "W", "conv", "conv.out", "bias", "bias", "bias.out", "relu", "Y"]


def test_text_stays_inside_its_box() -> None:
    """At 0.602 em per character, the widest of the fonts the drawing asks for."""
    large = CATALOGUE["conv_relu"].graph({"n": 1048576, "c": 1048576, "h": 1048576, "w": 1048576, "k": 1048576})
    for spec in (*(p.graph({}) for p in CATALOGUE.values()), large, foreign_graph()):
        sizes = {"title": 13, "value": 12, "small": 10.5, "tag": 11}
        for group in node_groups(drawn(spec)).values():
            box = group.find(f"{SVG}rect")
            assert box is not None
            width, height = float(box.attrib["width"]), float(box.attrib["height"])
            spans: dict[str, list[tuple[float, float]]] = {}
            for text in group.iter(f"{SVG}text"):
                x, length = float(text.attrib["x"]), len(text.text or "") * 0.602 * sizes[text.attrib["class"]]
                shift = {"start": 0.0, "middle": -length / 2, "end": -length}[text.attrib["text-anchor"]]
                assert x + shift >= 4
                assert x + shift + length <= width - 4
                assert 8 < float(text.attrib["y"]) < height - 3
                spans.setdefault(text.attrib["y"], []).append((x + shift, x + shift + length))
            for first, second in (pair for pair in spans.values() if len(pair) == 2):
                assert first[1] < second[0]


def test_foreign_names_stay_text() -> None:
    drawing = graph_drawing(foreign_graph())
    svg = ET.fromstring(drawing["svg"])
    tags = {element.tag.removeprefix(SVG) for element in svg.iter()}
    assert tags == {"svg", "g", "path", "title", "rect", "text"}
    allowed = {"class", "data-node", "role", "tabindex", "aria-label", "aria-pressed", "aria-hidden"}
    allowed |= {"d", "x", "y", "rx", "width", "height", "text-anchor"}
    assert {name for element in svg.iter() for name in element.attrib} <= allowed
    assert "\u202e" not in "".join(t.text or "" for t in svg.iter(f"{SVG}text"))
    for mark in ("<script", "<img", "<svg onload"):
        assert mark not in drawing["svg"]
    assert len([t for t in svg.iter(f"{SVG}text") if "script" in (t.text or "")]) <= 1


def test_every_arrangement_places_every_node() -> None:
    for pipeline in CATALOGUE.values():
        drawing = graph_drawing(pipeline.graph({}))
        groups = node_groups(ET.fromstring(drawing["svg"]))
        widths = [made["width"] for made in drawing["layouts"]]
        assert widths == sorted(widths, reverse=True)
        assert widths[-1] < 400
        edges = [g for g in ET.fromstring(drawing["svg"]).iter(f"{SVG}g") if g.attrib.get("class") == "edges"]
        assert len(edges) == len(widths)
        for made in drawing["layouts"]:
            assert set(made["at"]) == set(groups)


def test_an_arrow_is_drawn_with_round_corners_or_as_an_s() -> None:
    made = Line(arrow=None, points=((0, 0), (20, 0), (20, 40), (60, 40), (80, 50)))  # type: ignore[arg-type]
    assert (
        path(made)
        == "M0.0 0.0L13.0 0.0Q20.0 0.0 20.0 7.0L20.0 33.0Q20.0 40.0 27.0 40.0L60.0 40.0C70.0 40.0 70.0 50.0 80.0 50.0"
    )


def test_facts_of_a_tensor_an_operation_and_the_graph() -> None:
    spec = CATALOGUE["matmul_epilogue"].graph({})
    title, facts = node_facts(spec, "t3.bias") or ("", ())
    assert title == "bias"
    assert dict(facts)["read by"] == "bias"
    assert dict(facts)["made by"] == "the caller"
    assert dict(facts)["size"] == "1.00 KiB"
    assert dict(node_facts(spec, "t4.alpha")[1])["value"].startswith("0.125")  # type: ignore[index]
    title, facts = node_facts(spec, "o0.matmul") or ("", ())
    assert title == "matmul"
    assert dict(facts)["reads a"] == "A (16×512×1024 bf16)"
    assert dict(facts)["work"] == "8.59 GFLOP"
    assert "never reaches memory" in dict(node_facts(spec, "t101.matmul.out")[1])["role"]  # type: ignore[index]
    assert node_facts(spec, "t1.X") is None
    assert dict(graph_facts(spec))["graph id"] == spec.graph_id


def test_the_table_says_what_the_drawing_says() -> None:
    spec = CATALOGUE["conv_bias_relu"].graph({})
    table = graph_table(spec)
    assert len(table) == len(graph_nodes(spec))
    assert list(table["node"]) == ["X", "W", "conv", "conv.out", "bias", "bias", "bias.out", "relu", "Y"]
    first = table.iloc[0]
    assert (first["dims"], first["strides"]) == ("32×128×56×56", "401408, 1, 7168, 128")
    assert table["reads → writes"].iloc[2] == "X, W → conv.out"


def test_the_panel_is_escaped() -> None:
    made = facts_html(EVIL, [(EVIL, EVIL)])
    assert "<script" not in made
    assert "<img" not in made
    assert [element.tag for element in ET.fromstring(made).iter()] == ["section", "h4", "dl", "dt", "dd"]
    assert cleaned("a\u202eb\x00c\n") == "a\ufffdb\ufffdc\ufffd"


def drawing_app() -> None:
    import streamlit as st

    from app.graph_view import render_graph, render_graph_table, render_node_details
    from engine.graph.pipelines import CATALOGUE

    spec = CATALOGUE[st.selectbox("pipeline", list(CATALOGUE))].graph({})
    chosen = render_graph(spec)
    render_node_details(spec, chosen)
    render_graph_table(spec)
    st.text(f"chosen {chosen}")


def test_it_runs_on_a_page() -> None:
    page = AppTest.from_function(drawing_app, default_timeout=30).run()
    assert not page.exception
    assert page.text[0].value == "chosen None"
    page.session_state["graph-table"] = True  # folded up, it costs nothing
    page.selectbox[0].select("sdpa").run()
    assert not page.exception
    frame: Any = page.dataframe[0].value
    assert "causal attention" in list(frame["node"])
