"""The Explore page in a real browser against a real server: what a person does, start to end."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import free_port, serving, settled

pytestmark = pytest.mark.browser
CHART = ".st-key-chart-time"


def query(page):
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def opened(page, server, path="/"):
    page.goto(server.url + path)
    page.locator(".marks path").first.wait_for(state="attached")
    settled(page)


def rows(page):
    return page.locator(f"{CHART} .row")


def test_pick_change_draw_open_choose_download_reload_and_come_back(page, chromium, server):
    opened(page, server)
    page.get_by_role("combobox", name="Pipeline").click()
    page.get_by_role("option", name="Matmul (matmul)").click()
    page.locator(".st-key-form-matmul").wait_for()
    settled(page)
    assert "matmul" in page.locator("svg[role=group]").text_content()

    # Change: the graph is drawn anew, and what was recorded of the new shape is opened by itself.
    page.get_by_label("b · batch").fill("1")
    page.get_by_label("b · batch").press("Enter")
    page.get_by_label("k · inner size").fill("256")
    page.get_by_label("k · inner size").press("Enter")
    page.locator("svg[role=group]", has_text="1×256×256").wait_for()
    page.wait_for_url("**b=1&k=256**run=**")
    page.get_by_text("recorded on NVIDIA H200, cuDNN 9.19.0").first.wait_for()
    settled(page)

    # Choose a plan in the chart: its details stand beside, and the address names it.
    third = rows(page).nth(2)
    name = third.locator(".name").text_content()
    third.click()
    page.locator("section h4", has_text=name).wait_for()
    page.wait_for_url("**plan=**")
    settled(page)
    chosen = query(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download plan").click()
    data = Path(download.value.path()).read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        assert json.loads(bundle.read("plan-1.json"))["recipe"]["plan_key"] == chosen["plan"]
    assert "cudnn9.19.0" in download.value.suggested_filename
    assert page.get_by_text("loads in cuDNN 9.19.0 only").is_visible()

    page.reload()
    page.locator("section h4", has_text=name).wait_for()
    assert query(page) == chosen

    # A colleague with the link sees the same graph and plan.
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    colleague = context.new_page()
    colleague.goto(page.url)
    colleague.locator("section h4", has_text=name).wait_for(timeout=60_000)
    expect(colleague.get_by_label("k · inner size")).to_have_value("256", timeout=30_000)
    assert "1×256×256" in colleague.locator("svg[role=group]").text_content()
    context.close()


def test_two_browsers_at_once_do_not_disturb_each_other(chromium, server):
    contexts = [chromium.new_context() for _ in range(2)]
    first, second = (context.new_page() for context in contexts)
    for page, path in ((first, "/?pipeline=conv_relu"), (second, "/?pipeline=sdpa")):
        page.set_default_timeout(60_000)
        opened(page, server, path)
    first.get_by_role("radio", name="Error").click()
    second.get_by_role("radio", name="cold").click()
    first.wait_for_url("**view=error**")
    second.wait_for_url("**regime=cold**")
    settled(first)
    settled(second)
    expect(first.get_by_label("c · input channels")).to_have_value("64")
    expect(second.get_by_label("d · head dim")).to_have_value("64")
    assert "regime" not in query(first)
    for context in contexts:
        context.close()


def test_the_page_answers_to_its_name_too(page, server):
    opened(page, server, "/explore?pipeline=matmul&view=error")
    page.locator(".st-key-chart-error").wait_for()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("m · rows of A").fill("512")
    page.wait_for_url("**/explore?pipeline=matmul&m=512**view=error**")
    page.get_by_role("link", name="Runs").click()
    page.locator(".st-key-runs-table tbody tr").first.wait_for()
    page.go_back()
    expect(page.get_by_label("m · rows of A")).to_have_value("512")


def test_back_and_forward_lead_through_what_was_shown(page, server):
    opened(page, server, "/?pipeline=conv_relu")
    page.get_by_role("radio", name="Build and load").click()
    page.wait_for_url("**view=build**")
    settled(page)
    page.wait_for_timeout(1_000)  # within half a second of a change, an older address counts as one that came late
    page.go_back()
    page.locator(CHART).wait_for()
    settled(page)
    assert "view" not in query(page)
    page.go_forward()
    page.wait_for_url("**view=build**")
    page.locator(".st-key-chart-build").wait_for()


def test_who_types_fast_loses_nothing(page, server):
    for _ in range(3):
        page.goto(server.url + "/?pipeline=matmul")
        page.locator(".marks path").first.wait_for(state="attached")
        for label, value in (("b · batch", "1"), ("k · inner size", "256"), ("n · columns of B", "128")):
            page.get_by_label(label).fill(value)
            page.get_by_label(label).press("Enter")
        page.wait_for_url("**b=1&n=128&k=256**")
        settled(page)
        page.get_by_label("n · columns of B").fill("256")
        page.get_by_label("n · columns of B").press("Enter")
        page.wait_for_url("**b=1&k=256**run=**")
        page.locator(".marks path").first.wait_for(state="attached")
        settled(page)
        for label, value in (("b · batch", "1"), ("k · inner size", "256"), ("n · columns of B", "256")):
            expect(page.get_by_label(label)).to_have_value(value)
        chosen = page.locator("[role=radiogroup] input:checked + span")
        expect(chosen, "no control has lost what it shows").to_have_text(["bf16", "Time", "GPU, hot"])


@pytest.mark.parametrize("name", ["System", "Runs"])
def test_a_click_that_ends_the_typing_leads_to_its_page_and_what_was_typed_stays(page, server, name):
    opened(page, server, "/?pipeline=matmul")
    page.get_by_label("n · columns of B").fill("96")
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(f"**/{name.lower()}**")
    settled(page)
    assert urlsplit(page.url).path == f"/{name.lower()}"
    page.get_by_role("link", name="Explore", exact=True).click()
    expect(page.get_by_label("n · columns of B")).to_have_value("96")
    page.wait_for_url("**n=96**")


def test_fields_typed_one_after_the_other_are_all_kept_and_the_caret_stays(page, server):
    opened(page, server, "/?pipeline=matmul")
    for label, value in (("m · rows of A", "128"), ("n · columns of B", "96"), ("k · inner size", "64")):
        page.get_by_label(label).focus()
        page.keyboard.press("Control+a")
        page.keyboard.type(value, delay=150)  # answers come while the next field is typed in
    page.wait_for_url("**m=128&n=96&k=64**")
    field = page.get_by_label("k · inner size")
    field.press("Home")
    field.press("1")
    page.wait_for_url("**k=164**")
    settled(page)
    assert field.evaluate("field => [field.getRootNode().activeElement === field, field.selectionStart]") == [True, 1]


def test_choices_and_switches_are_made_from_the_keyboard(page, server):
    opened(page, server, "/?pipeline=sdpa")
    page.get_by_role("radio", name="bf16").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**dtype=fp16**")
    page.get_by_role("switch", name="causal · causal mask").focus()
    page.keyboard.press("Space")
    page.wait_for_url("**causal=off**")
    settled(page)
    opened(page, server, "/?pipeline=matmul_epilogue")
    page.get_by_label("activation").select_option("relu")
    page.wait_for_url("**activation=relu**")


def test_a_demand_stays_beside_what_was_asked_before(page, server):
    opened(page, server, "/?pipeline=matmul")
    page.get_by_role("checkbox", name="capturable").check()
    page.wait_for_url("**demands=*capturable**")
    limit = page.get_by_label("Constraint: workspace of at most")
    limit.fill("plenty")
    limit.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("must be a size in bytes")
    limit.fill("65536")
    limit.press("Enter")
    page.wait_for_url("**demands=workspace*65536*capturable**")
    expect(limit).to_have_value("64 KiB")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_demand_that_is_none_is_forgotten_with_the_field_it_was_typed_into(page, server):
    opened(page, server, "/?pipeline=conv_relu")
    limit = page.get_by_label("Constraint: workspace of at most")
    limit.fill("plenty")
    limit.press("Enter")
    expect(page.get_by_role("alert")).to_have_count(1)
    page.get_by_label("n · batch").fill("77")  # nothing was recorded of this
    expect(limit).to_have_count(0)
    page.get_by_label("n · batch").fill("8")
    expect(limit).to_have_value("")
    settled(page)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_link_with_what_a_field_cannot_show_is_answered_there(page, server):
    opened(page, server, "/?pipeline=conv_relu&dtype=fp8&n=<img src=x onerror=alert(1)>")
    said = page.get_by_role("alert")
    expect(said).to_have_count(2)
    expect(said.first).to_contain_text("n = <img src=x onerror=alert(1)>: must be a whole number")
    expect(said.last).to_contain_text("dtype = fp8: must be one of bf16, fp16, fp32.")
    assert page.locator(".message *").count() == 0, "texts, never markup"
    types = page.get_by_role("radiogroup", name="dtype · I/O type")
    assert types.locator("input:checked").count() == 0
    types.get_by_role("radio", name="fp16").check()
    page.get_by_label("n · batch").fill("8")
    page.wait_for_url("**dtype=fp16**")
    expect(said).to_have_count(0)


def test_wrong_input_is_answered_beside_the_field_and_the_cursor_stays(page, server):
    opened(page, server, "/?pipeline=conv_relu")
    before = page.locator("svg[role=group]").text_content()
    field = page.get_by_label("c · input channels")
    field.click()
    field.press("Control+a")
    field.press_sequentially("abc")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert alert.inner_text() == "c = abc: must be a whole number from 1 to 1,048,576. The default is 64."
    gap = alert.bounding_box()["x"] - field.bounding_box()["x"] - field.bounding_box()["width"]
    assert 0 < gap < 60, "the message stands right beside its field"
    assert field.evaluate("field => field.getRootNode().activeElement === field")
    assert field.input_value() == "abc" and field.evaluate("field => field.selectionStart") == 3
    assert field.get_attribute("aria-invalid") == "true"
    assert page.locator(f"#{field.get_attribute('aria-describedby')}").inner_text() == alert.inner_text()
    assert page.locator("svg[role=group]").text_content() == before


def test_everything_can_be_done_from_the_keyboard(page, server):
    opened(page, server, "/?pipeline=matmul")
    # A node of the graph.
    page.locator("svg[role=group] [data-node]").first.focus()
    page.keyboard.press("Enter")
    page.locator("svg[role=group] [aria-pressed=true]").wait_for()
    settled(page)
    # The chart: one tab stop, arrows move, Enter picks.
    page.locator(f"{CHART} .row[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    third = rows(page).nth(2).locator(".name").text_content()
    assert rows(page).nth(2).evaluate("row => row.getRootNode().activeElement === row")
    page.keyboard.press("Enter")
    page.wait_for_url("**plan=**")
    page.locator("section h4", has_text=third).last.wait_for()
    settled(page)
    assert rows(page).nth(2).evaluate("row => row.getRootNode().activeElement === row"), "focus survives the rerun"
    # The table: radio buttons, arrows choose the next row.
    table = page.locator(".st-key-plans")
    table.locator("input:checked").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("before => !location.search.includes(before)", arg=query(page)["plan"])
    settled(page)
    assert table.locator("tr.chosen").count() == 1
    # Sorting, said to a screen reader.
    table.get_by_role("button", name="build (ms)").focus()
    page.keyboard.press("Enter")
    assert table.locator("th[aria-sort=ascending]").inner_text().startswith("build (ms)")


def test_a_chart_says_itself_to_a_screen_reader(page, server):
    opened(page, server, "/?pipeline=matmul")
    box = page.get_by_role("listbox")
    assert "plans timed; " in box.get_attribute("aria-label")
    first = box.get_by_role("option").first
    assert "TFLOP/s" in first.get_attribute("aria-label")
    assert "of the roofline" in first.get_attribute("aria-label")


def test_the_pointer_shows_what_a_dot_stands_for(page, server):
    opened(page, server, "/?pipeline=matmul")
    rows(page).first.hover()
    tip = page.locator(f"{CHART} .tip")
    tip.wait_for(state="visible")
    assert "TFLOP/s" in tip.inner_text()
    assert "of the roofline (public specification)" in tip.inner_text()


def test_a_chart_can_be_zoomed_and_a_plan_picked_there(page, server):
    opened(page, server, "/?pipeline=matmul")
    page.get_by_role("button", name="Zoom").click()
    dots = page.get_by_role("dialog").locator(".js-plotly-plot .scatterlayer .point")
    dots.first.wait_for()
    dots.nth(3).click(force=True)
    page.wait_for_url("**plan=**")
    page.get_by_role("dialog").wait_for(state="detached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_or_unreadable(chromium, server, scheme):
    context = chromium.new_context(viewport={"width": 1400, "height": 1000}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(60_000)
    opened(page, server, "/?pipeline=matmul_epilogue")
    for width in (1400, 900, 600):
        page.set_viewport_size({"width": width, "height": 1000})
        settled(page)
        wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
        assert wide <= width + 1, "the page itself never scrolls sideways"
        assert contrast(*colours(page)) >= 4.5
    context.close()


def colours(page):
    """Of the page's background and of a text in the chart, as the browser draws them."""
    return page.locator(CHART).evaluate(
        """holder => {
            const root = [...holder.querySelectorAll('*')].find(e => e.shadowRoot?.querySelector('.root'));
            const label = root.shadowRoot.querySelector('text');
            const app = document.querySelector('[data-testid=stApp]');
            return [getComputedStyle(app).backgroundColor, getComputedStyle(label).fill];
        }"""
    )


def test_a_narrow_page_keeps_names_that_fit_and_lets_the_numbers_be_reached(page, server):
    page.set_viewport_size({"width": 700, "height": 900})
    opened(page, server, "/?pipeline=matmul_epilogue")
    assert page.locator(f"{CHART} .row .name").count() == rows(page).count(), "short names have room"
    page.set_viewport_size({"width": 400, "height": 900})
    opened(page, server, "/?pipeline=conv_bias_relu")
    assert page.locator(f"{CHART} .row .name").count() == 0, "long ones would leave none to the dots"
    table = page.locator(".st-key-plans .scroll")
    name, number = table.locator("tbody th").first, table.locator("tbody td.number").nth(1)
    table.evaluate("table => table.scrollLeft = 300")
    ends = name.bounding_box()["x"] + name.bounding_box()["width"]
    assert ends <= number.bounding_box()["x"] + 1, "the name does not stand over the numbers"
    title = page.locator("section h4").last
    assert title.evaluate("title => title.scrollWidth <= title.clientWidth")


def contrast(one, other):
    """WCAG 2.2's contrast ratio of two CSS colours."""

    def luminance(colour):
        parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_page_left_open_goes_on_with_a_server_that_was_started_anew(page, tmp_path):
    where = {"home": tmp_path / "home", "log": tmp_path / "log", "port": free_port()}
    with serving("run", "app/main.py", **where) as server:
        opened(page, server, "/?pipeline=sdpa&regime=cold")
    with serving("run", "app/main.py", **where):
        page.wait_for_selector('[data-testid="stApp"][data-test-connection-state="CONNECTED"]')
        settled(page)
        page.wait_for_timeout(1000)
        settled(page)
        expect(page.get_by_role("radio", name="cold")).to_be_checked()
        page.get_by_role("radio", name="host, as called").click()
        page.wait_for_url("**regime=host**")
        expect(page.locator(CHART)).to_contain_text("host time per call")


@pytest.mark.cudnn
def test_plans_appear_as_they_are_built_and_leave_nothing_behind_when_the_page_changes(page, server):
    page.goto(server.url + "/?pipeline=matmul&b=1&m=96&n=96&k=96")
    page.get_by_text("Planning", exact=False).first.wait_for()
    page.get_by_text("of 10 plans built for NVIDIA H200; planned, not measured").wait_for(timeout=120_000)
    assert page.get_by_text("Nearest measured").is_visible()
    page.locator(".st-key-chart-build .marks path").first.wait_for(state="attached")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download plan").click()
    with zipfile.ZipFile(download.value.path()) as bundle:
        assert "device_properties.json" in bundle.namelist()
    page.get_by_role("button", name="Open it").click()
    page.wait_for_url("**run=**")
    page.locator(".st-key-chart-time .marks path").first.wait_for(state="attached")
