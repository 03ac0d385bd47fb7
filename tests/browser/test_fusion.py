"""The Fusion page in a real browser: drawn in both themes, presented with arrow keys, and saved as a file that opens
offline. Numbers are invented but for those of the shipped comparisons."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from app.fusion_html import saved_html
from engine.runs.comparisons import FOLDER, keep
from engine.runs.recordings import SHIPPED
from tests.app.sample_fusions import K, comparison
from tests.browser.conftest import serving, settled

pytestmark = [pytest.mark.browser, pytest.mark.slow]
FITS = "() => document.querySelector('[data-testid=stMain]').scrollHeight <= innerHeight + 1"
"""Nothing of a slide is below the screen."""
FILE_FITS = """() => {
    const { scrollHeight, scrollWidth } = document.documentElement;
    return scrollHeight <= innerHeight && scrollWidth <= innerWidth;
}"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A server whose data folder has two comparisons: an epilogue that wins, an attention that loses."""
    folder = tmp_path_factory.mktemp("fusion")
    keep(comparison(), folder / "home")
    keep(comparison("sdpa", {K.FLASH: 20.0}, id="b" * 32), folder / "home")
    with serving("run", "app/main.py", home=folder / "home", log=folder / "log") as server:
        yield server


def open_page(page, server, query):
    page.goto(f"{server.url}/fusion?{query}")
    page.wait_for_selector(".drawing svg")
    settled(page)


def test_a_comparison_is_drawn_whole(kept, page):
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_page(page, kept, f"comparison={'a' * 32}")
    assert page.locator(".drawing svg").count() == 2
    assert page.locator(".drawing svg .chip rect.box").count() == 3
    expect(page.get_by_text("is 3.33x faster than torch eager")).to_be_visible()
    for title in ("What is fused", "From eager to fused", "One operation more", "Roofline", "Every version"):
        expect(page.get_by_role("heading", name=title)).to_be_visible()
    assert page.locator(".plot svg").count() == 3
    assert errors == []


def test_what_is_behind_a_step_stands_whole_in_its_cell(kept, page):
    open_page(page, kept, f"comparison={'a' * 32}")
    page.locator(".st-key-fusion-From-eager-to-fused-table").locator("xpath=ancestor::details").locator(
        "summary"
    ).click()
    cells = page.locator(".st-key-fusion-From-eager-to-fused-table td.long")
    cells.first.wait_for()
    assert cells.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth)") == []


def test_a_loss_is_said_first(kept, page):
    open_page(page, kept, f"comparison={'b' * 32}")
    headings = page.locator("h4").all_inner_texts()
    assert headings[0] == "torch SDPA, flash is 1.50x faster than cuDNN's fused graph."


def test_arrow_keys_turn_the_pages_of_a_presentation(kept, page):
    open_page(page, kept, f"comparison={'a' * 32}")
    page.get_by_role("button", name="Present").click()
    page.get_by_text("1 / 5").wait_for()
    assert not page.locator("[data-testid=stHeader]").is_visible()
    turns = {"ArrowRight": 2, "PageDown": 3, "ArrowLeft": 2, "End": 5, " ": 5, "Home": 1}
    for key, number in turns.items():
        page.keyboard.press(key)
        page.get_by_text(f"{number} / 5").wait_for()
        settled(page)
        assert page.locator("h3").count() == 1
    for key, times, number in (("ArrowRight", 3, 4), ("ArrowLeft", 2, 2)):  # Faster than slides are drawn.
        for _ in range(times):
            page.keyboard.press(key)
        page.get_by_text(f"{number} / 5").wait_for()
        settled(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Present").wait_for()
    assert "present" not in page.url


def test_the_saved_file_opens_offline_and_asks_nobody(kept, page, chromium, tmp_path):
    open_page(page, kept, f"comparison={'a' * 32}")
    with page.expect_download() as started:
        page.get_by_role("button", name="Save as HTML").click()
    file = tmp_path / "fusion.html"
    started.value.save_as(file)
    context = chromium.new_context(offline=True, color_scheme="dark")
    asked, errors = [], []
    opened = context.new_page()
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(file.as_uri())
    opened.wait_for_selector(".js-plotly-plot .main-svg")
    assert opened.locator(".js-plotly-plot").count() == 3
    assert opened.locator(".drawing svg").count() == 2
    assert not opened.locator("footer").is_visible()
    opened.keyboard.press("p")
    assert opened.locator("section:visible, header:visible").count() == 1
    assert "cuDNN" in opened.locator("footer:visible").inner_text()
    opened.keyboard.press("ArrowRight")
    assert opened.locator("section:visible h2").inner_text() == "What is fused"
    opened.keyboard.press("Escape")
    assert opened.locator("section:visible").count() == 6
    opened.set_viewport_size({"width": 1024, "height": 640})
    opened.keyboard.press("p")
    for _ in range(5):  # All but the tables.
        opened.wait_for_function(FILE_FITS)
        opened.keyboard.press("ArrowRight")
    assert errors == [] and [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_the_charts_of_the_saved_file_follow_the_window(chromium, tmp_path):
    file = tmp_path / "fusion.html"
    file.write_bytes(saved_html(comparison(), recorded=False))
    context = chromium.new_context(offline=True, viewport={"width": 1100, "height": 640})
    opened = context.new_page()
    opened.goto(file.as_uri())
    opened.wait_for_selector(".js-plotly-plot .main-svg")
    opened.keyboard.press("p")
    for _ in range(2):
        opened.keyboard.press("ArrowRight")
    opened.set_viewport_size({"width": 1800, "height": 1000})  # As when the screen is filled while presenting.
    chart = "document.querySelector('.shown .js-plotly-plot .main-svg').getBoundingClientRect()"
    opened.wait_for_function(f"() => {chart}.width > 1600 && {chart}.height > 700")
    opened.wait_for_function(FILE_FITS)
    opened.keyboard.press("Escape")
    opened.set_viewport_size({"width": 400, "height": 800})
    opened.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_a_graph_alone_is_drawn_and_changes(kept, page):
    page.goto(f"{kept.url}/fusion?pipeline=sdpa&sq=256&causal=off")
    page.wait_for_selector(".drawing svg")
    settled(page)
    assert page.locator(".drawing svg .chip rect.box").count() == 3
    assert page.get_by_text("python -m engine fusion sdpa -p sq=256 -p causal=off").is_visible()


def recorded(name: str) -> str:
    """The id of a shipped comparison."""
    return str(json.loads((SHIPPED / FOLDER / f"{name}.json").read_bytes())["id"])


@pytest.mark.parametrize("name", ["sdpa-causal-on", "matmul_epilogue-gelu-large"])
def test_a_recording_is_drawn_with_an_arrow_and_fits_the_screen_when_presented(kept, page, name):
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_viewport_size({"width": 1400, "height": 800})
    open_page(page, kept, f"comparison={recorded(name)}")
    if name.startswith("sdpa"):
        assert page.locator("h4").first.inner_text().startswith("Torch, as one writes it, already calls one fused")
    assert page.get_by_text("recorded on NVIDIA H200, cuDNN ").is_visible()
    assert page.locator(".plot .head").count() == page.locator(".legend .head").count() == 1
    page.get_by_role("button", name="Present").click()
    number = page.get_by_text("1 / ")
    number.wait_for()
    last = int(number.inner_text().split("/")[1].split("·")[0])
    for at in range(1, last + 1):
        page.get_by_text(f"{at} / {last}").wait_for()
        settled(page)
        page.wait_for_function(FITS)
        page.keyboard.press("ArrowRight")
    assert errors == []
