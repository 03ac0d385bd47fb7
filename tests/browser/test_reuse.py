"""The Reuse page in a real browser, without a GPU: a recorded study, and one of a graph of one's own."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import settled

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_recorded_study_opens_by_its_address(server, page):
    page.goto(f"{server.url}/reuse")
    expect(page.get_by_role("heading", name="Build against load")).to_be_visible()
    settled(page)
    found = re.search(r"study=([0-9a-f]{32})$", page.url)
    assert found and page.locator(".plot svg").count() >= 1
    expect(page.get_by_text("recorded on NVIDIA H200, cuDNN 9.19.0").first).to_be_visible()
    shown = page.locator("h1, h2, h3, li").all_inner_texts()
    page.goto(f"{server.url}/system")
    page.goto(f"{server.url}/reuse?study={found[1]}")
    expect(page.get_by_role("heading", name="Build against load")).to_be_visible()
    settled(page)
    assert page.locator("h1, h2, h3, li").all_inner_texts() == shown


def test_a_study_of_ones_own_graph_is_asked_for_and_cancelled(server, page):
    page.goto(f"{server.url}/reuse?pipeline=matmul&m=128")
    button = page.get_by_role("button", name="Study", exact=True)
    expect(button).to_be_enabled()
    page.get_by_label("Sizes", exact=True).fill("8, x")
    page.keyboard.press("Tab")
    expect(page.get_by_text("sizes = x: sizes are whole numbers with commas between.")).to_be_visible()
    expect(button).to_be_disabled()
    page.get_by_label("Sizes", exact=True).fill("8, 16")
    page.keyboard.press("Tab")
    expect(page.get_by_text("python -m engine reuse matmul -p m=128 --target h200 --sizes b=8,16")).to_be_visible()
    button.click()
    expect(page.get_by_text(re.compile(r"Study: .* of \d+ steps"))).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Cancel").click()
    pressed = time.monotonic()
    expect(page.get_by_text("The study of matmul was cancelled")).to_be_visible()
    assert time.monotonic() - pressed < 4, "a second or two for the job, one for the page that looks every second"
    expect(button).to_be_enabled()
