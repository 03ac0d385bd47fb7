"""The Runs page in a real browser: a recording goes out as a file, comes back as a run, is renamed, opened, deleted."""

from __future__ import annotations

import pytest

from tests.browser.conftest import settled

pytestmark = pytest.mark.browser


def test_export_import_rename_open_and_delete(page, server, tmp_path):
    page.goto(server.url + "/runs")
    table = page.locator(".st-key-runs-table")
    table.locator("tbody tr").first.wait_for()
    before = table.locator("tbody tr").count()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    file = tmp_path / "run.zip"
    download.value.save_as(file)

    page.get_by_text("Import a run file").click()
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_text("This run is here already; it is chosen in the list.").wait_for()
    settled(page)
    assert table.locator("tbody tr").count() == before

    (tmp_path / "broken.zip").write_bytes(file.read_bytes()[:-100])
    page.locator("input[type=file]").set_input_files(tmp_path / "broken.zip")
    page.get_by_role("alert").first.wait_for()
    settled(page)
    assert table.locator("tbody tr").count() == before


def test_a_run_is_opened_by_keyboard_and_by_link(page, server):
    page.goto(server.url + "/runs")
    table = page.locator(".st-key-runs-table")
    table.locator("tbody tr").nth(3).wait_for()
    settled(page)
    table.locator("input:checked").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    settled(page)
    pipeline = table.locator("tr.chosen th").inner_text()
    link = page.get_by_role("link", name="Open in Explore")
    link.click()
    page.wait_for_url(f"**pipeline={pipeline}**")
    page.get_by_text("recorded on NVIDIA H200").first.wait_for()
    page.go_back()
    table.locator("tbody tr").first.wait_for()
