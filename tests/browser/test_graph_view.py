"""The drawing in a real browser: keyboard, click, width, theme, and a stranger's names."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.browser

PAGE = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import streamlit as st
from app.graph_view import render_graph, render_node_details
from engine.graph.operations import Matmul, Unary
from engine.graph.pipelines import CATALOGUE
from engine.graph.spec import GraphBuilder
from engine.graph.tensors import DataType

name = st.query_params.get("pipeline", "conv_bias_relu")
if name == "foreign":
    g = GraphBuilder(DataType.BF16)
    evil = '"><img src=x onerror=window.hit=1><script>window.hit=1</script>'
    a, b = g.input(evil, (1, 8, 8)), g.input("b", (1, 8, 8))
    made = g.apply(Matmul, "x' onfocus='window.hit=1", {{"a": a, "b": b}})
    g.output(g.apply(Unary, "relu", {{"x": made}}, mode="relu"), "<svg onload=window.hit=1>")
    spec = g.build()
else:
    spec = CATALOGUE[name].graph({{"n": st.number_input("n", 1, 64, 8)}} if name.startswith("conv") else {{}})
st.text("chosen: " + str(render_graph(spec)))
render_node_details(spec, st.session_state.get("graph", {{}}).get("node"))
"""


PAINTED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"
"""The drawing is arranged anew whenever its room changes, before the browser paints."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.py").write_text(PAGE)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "page.py", "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1", "--server.headless", "true", "--server.fileWatcherType", "none"]
    command += ["--browser.gatherUsageStats", "false"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
                    break
            except (URLError, OSError):
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
        server.terminate()


@pytest.fixture
def opened(chromium: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Opens the page with a query, in a context of its own that ends with the test."""
    contexts = []

    def open_page(query: str = "", **options: Any) -> Any:
        contexts.append(chromium.new_context(viewport={"width": 1400, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.goto(f"{address}/{query}")
        page.locator("[data-node]").first.wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()


def focused(page: Any) -> str | None:
    script = "(() => { let e = document.activeElement; while (e?.shadowRoot) e = e.shadowRoot.activeElement; "
    return page.evaluate(script + "return e?.dataset?.node ?? null; })()")


def test_tab_reaches_a_node_and_enter_chooses_it(opened: Callable[..., Any]) -> None:
    page = opened()
    page.locator("input").first.focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if focused(page) == "o0.conv":
            break
    assert focused(page) == "o0.conv"
    ring = page.locator('[data-node="o0.conv"] .ring')
    assert ring.evaluate("e => getComputedStyle(e).stroke") != "none"
    page.keyboard.press("Enter")
    page.get_by_text("chosen: o0.conv").wait_for()
    page.locator("h4", has_text="conv").wait_for()
    assert focused(page) == "o0.conv"
    assert page.locator('[data-node][aria-pressed="true"]').get_attribute("data-node") == "o0.conv"
    page.keyboard.press("Tab")
    page.keyboard.press(" ")
    page.get_by_text("chosen: t101.conv.out").wait_for()
    page.keyboard.press(" ")
    page.get_by_text("chosen: None").wait_for()


def test_a_changed_shape_is_redrawn_in_place_and_keeps_the_choice(opened: Callable[..., Any]) -> None:
    page = opened()
    page.locator('[data-node="t1.X"]').click()
    page.get_by_text("chosen: t1.X").wait_for()
    before = page.locator(".picture svg").bounding_box()
    page.locator("input").first.fill("32")
    page.keyboard.press("Enter")
    page.locator('[data-node="t1.X"][aria-label*="32×128"]').wait_for()
    assert page.locator('[data-node="t1.X"]').get_attribute("aria-pressed") == "true"
    assert page.locator(".picture svg").bounding_box() == before


@pytest.mark.parametrize("name", ["conv_bias_relu", "matmul_epilogue", "sdpa"])
def test_legible_and_whole_at_every_width(opened: Callable[..., Any], name: str) -> None:
    page = opened(f"?pipeline={name}")
    heights = []
    for width in (1600, 1200, 900, 700, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(PAINTED)
        picture = page.locator(".picture").bounding_box()
        svg = page.locator(".picture svg")
        box, view = svg.bounding_box(), [float(v) for v in svg.get_attribute("viewBox").split()]
        assert box["width"] <= picture["width"]
        assert 0.85 <= box["width"] / view[2] <= 1.2
        assert page.locator(".edges.shown").count() == 1
        for node in page.locator("[data-node] .box").all():
            spot = node.bounding_box()
            assert spot["x"] >= box["x"] - 1
            assert spot["x"] + spot["width"] <= box["x"] + box["width"] + 1
        for text in page.locator("[data-node]").first.locator("text").all():
            assert text.evaluate("e => e.getBBox().width") > 0
        heights.append(box["height"])
    assert heights[-1] > heights[0]


def test_text_fits_its_box_as_the_browser_sets_it(opened: Callable[..., Any]) -> None:
    page = opened("?pipeline=matmul_epilogue")
    page.wait_for_timeout(500)
    script = """nodes => nodes.flatMap(n => { const b = n.querySelector('.box').getBBox();
        return [...n.querySelectorAll('text')].map(t => { const r = t.getBBox();
        return [r.x - b.x, b.x + b.width - r.x - r.width, r.y - b.y, b.y + b.height - r.y - r.height]; }); })"""
    for left, right, top, bottom in page.locator("[data-node]").evaluate_all(script):
        assert min(left, right) > 3
        assert min(top, bottom) > 1


def test_a_strangers_names_run_nothing(opened: Callable[..., Any]) -> None:
    page = opened("?pipeline=foreign")
    for node in page.locator("[data-node]").all():
        node.focus()
        node.press("Enter")
        page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert page.locator(".picture img, .picture script").count() == 0


def test_dark_and_light_follow_the_theme(opened: Callable[..., Any]) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page = opened(color_scheme=scheme, reduced_motion="reduce")
        node = page.locator('[data-node="t1.X"]')
        seen[scheme] = node.locator(".title").evaluate("e => getComputedStyle(e).fill")
        assert node.locator(".box").evaluate("e => getComputedStyle(e).transitionDuration") == "0s"
    assert seen["light"] != seen["dark"]
