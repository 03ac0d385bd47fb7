"""A run file with everything that a record can hold, imported and looked at in a real browser, and the sweep's options
by keyboard."""

from __future__ import annotations

import hashlib

import pytest
from playwright.sync_api import expect

from engine.runs.archive import pack
from tests.app.full_run import TITLE, full_run
from tests.browser.conftest import settled

pytestmark = pytest.mark.browser
BLOB = b"an invented blob"


@pytest.fixture(scope="module")
def address(chromium, server, tmp_path_factory):
    """Where the imported run is shown, reached as a person reaches it."""
    digest = hashlib.sha256(BLOB).hexdigest()
    run = full_run(id="f" * 32)
    kept = {"blob_sha256": digest, "blob_bytes": len(BLOB)}
    plans = tuple(plan.model_copy(update=kept) if plan.blob_sha256 else plan for plan in run.plans)
    file = tmp_path_factory.mktemp("run") / "run.zip"
    file.write_bytes(pack(run.model_copy(update={"plans": plans}), {digest: BLOB}))
    context = chromium.new_context()
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(server.url + "/runs")
    page.get_by_text("Import a run file").click()
    page.locator("input[type=file]").set_input_files(file)
    page.locator(".st-key-runs-table tr.chosen", has_text=TITLE).wait_for()
    context.close()
    return f"{server.url}/?run={run.id}"


def shown(page, address):
    page.goto(address)
    page.locator(".marks path").first.wait_for(state="attached")
    settled(page)


def test_all_of_it_fits_at_every_width(page, address):
    page.set_viewport_size({"width": 1920, "height": 900})
    shown(page, address)
    for width in (1920, 1440, 700, 400):
        page.set_viewport_size({"width": width, "height": 900})
        settled(page)
        fits(page, width)


def fits(page, width):
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width + 1
    for sentence in ("3 plans tie hot at", "The difference is confirmed", "The winner changes: hot"):
        expect(page.get_by_text(sentence, exact=False).first).to_be_visible()
    cut = page.locator(".ps-findings td, .ps-findings dd, .ps-passport td, .ps-figures div").evaluate_all(
        "cells => cells.filter(c => c.scrollWidth > c.clientWidth + 1).map(c => c.textContent)"
    )
    assert cut == []
    boxes = page.locator(".ps-findings > *").evaluate_all(
        "parts => parts.map(p => { const b = p.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"
    )
    (_, _, right, bottom), (left, top, _, _) = boxes
    assert right <= left or bottom <= top, "sentences and tables stand beside or below each other"


def test_a_constraint_set_by_keyboard_changes_the_winner_and_can_be_taken_back(page, address):
    shown(page, address)
    field = page.get_by_label("workspace of at most")
    field.fill("0")
    field.press("Enter")
    page.get_by_text("eng10 wins hot with").wait_for()
    page.get_by_text("No workspace: costs 28 % and excludes 3 plans.").wait_for()
    field.fill("plenty")
    field.press("Enter")
    page.get_by_role("alert").wait_for()
    expect(field).to_have_value("plenty")
    field.fill("")
    field.press("Enter")
    page.get_by_text("3 plans tie hot at").wait_for()
    page.get_by_role("checkbox", name="deterministic").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Deterministic plans only: costs nothing that can be told").wait_for()


def test_options_answer_beside_their_fields_and_lose_nothing_when_closed(page, server):
    page.goto(server.url + "/?pipeline=sdpa")
    page.locator(".marks path").first.wait_for(state="attached")
    settled(page)
    options = page.get_by_text("Sweep options")
    options.locator("xpath=ancestor::summary").focus()
    page.keyboard.press("Enter")
    typed = {"Seed": "-1", "Score shift": "1e9", "Knob search": "many", "Explicit plans": "x"}
    page.get_by_text("About ").first.wait_for()
    for label, text in typed.items():
        field = page.get_by_label(label)
        field.focus()
        page.keyboard.type(text)
        page.keyboard.press("Tab")
        settled(page)
        alert = page.get_by_role("alert").filter(has_text=f"= {text}")
        alert.wait_for()
        box, said = field.bounding_box(), alert.bounding_box()
        assert 0 <= said["x"] - box["x"] - box["width"] < 60, "the message stands right beside its field"
        assert abs(said["y"] - box["y"]) < 60
    assert page.get_by_role("alert").count() == len(typed)
    page.get_by_role("radio", name="thorough").focus()
    page.keyboard.press("Space")
    settled(page)
    options.click()
    page.get_by_label("Seed").wait_for(state="hidden")
    settled(page)
    options.click()
    for label, text in typed.items():
        expect(page.get_by_label(label)).to_have_value(text)
    expect(page.get_by_role("radio", name="thorough")).to_be_checked()
