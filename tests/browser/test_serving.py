"""What the serving process loads, and what the browser complains about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.conftest import serving, settled

pytestmark = pytest.mark.browser
PAGES = ("/", "/runs", "/system")
HEAVY = re.compile(r"/(torch|cudnn|nvidia/cudnn)/|libtorch|libcudnn")
BARE = "import streamlit as st\n\nst.set_page_config(page_title='bare')\nst.write('bare')\n"


def test_no_page_loads_torch_or_cudnn_into_the_serving_process(page, server):
    for path in PAGES:
        page.goto(server.url + path)
        settled(page)
    page.goto(server.url + "/?pipeline=matmul&b=1&m=48&n=48&k=48")  # planned in processes of their own
    page.get_by_text("Planning", exact=False).first.wait_for()
    settled(page)
    mapped = Path(f"/proc/{server.pid}/maps").read_text()
    assert "pyarrow" in mapped or "numpy" in mapped, "this is the process that serves the pages"
    assert sorted({line.split()[-1] for line in mapped.splitlines() if HEAVY.search(line)}) == []


def complaints(context, url):
    """What a browser writes to its console as an error, and exceptions of scripts; addresses left out."""
    found = []
    page = context.new_page()
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(f"exception: {error}"))
    page.goto(url)
    settled(page)
    page.wait_for_timeout(500)
    page.close()
    return set(found)


def test_no_page_has_a_console_error_that_a_bare_one_has_not(chromium, server, tmp_path):
    (tmp_path / "bare.py").write_text(BARE)
    context = chromium.new_context()
    context.set_default_timeout(60_000)
    with serving("run", str(tmp_path / "bare.py"), home=tmp_path / "home", log=tmp_path / "log") as bare:
        allowed = complaints(context, bare.url + "/")
        # Streamlit asks for its own health below a page's address first, and is answered 404, whatever the page.
        below = allowed | {"Failed to load resource: the server responded with a status of 404 (Not Found)"}
    assert complaints(context, server.url + "/") <= allowed
    assert complaints(context, server.url + "/?pipeline=nonsense&run=zzz&n=%00") <= allowed
    for path in PAGES[1:]:
        assert complaints(context, server.url + path) <= below
    context.close()
