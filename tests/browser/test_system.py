"""The System page in a real browser."""

from __future__ import annotations

import pytest

from tests.browser.conftest import settled

pytestmark = pytest.mark.browser
CUT = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.textContent)"


def test_every_library_stands_whole_with_its_version_and_its_path(page, server):
    page.goto(server.url + "/system")
    cells = page.locator(".st-key-libraries-table").locator("th, td")
    cells.first.wait_for()
    settled(page)
    assert any("libcudnn_engines_runtime_compiled" in text for text in cells.all_inner_texts())
    assert cells.evaluate_all(CUT) == []
