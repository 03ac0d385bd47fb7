"""Takes the README's pictures of the real pages: ``make pictures``; ``python -m tests.browser.pictures FILE...`` takes
some of them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import ARGUMENTS, IDLE, ROOT, serving

FOLDER = ROOT / "app" / "pictures"
WIDTH = 1400
PICTURES = {
    "explore.png": ("/", "light", 0, 1640),
    "plan.png": ("/?pipeline=matmul_epilogue", "dark", 1418, 2478),
    "fusion.png": ("/fusion?comparison=d8e8f94a9ec3483da216fdfb685d31fa", "light", 0, 1510),
}
"""File: page, colour scheme, and from where to where down the page."""


def take(browser: Browser, url: str, file: Path, scheme: str, top: int, bottom: int) -> None:
    """One picture, once the page is idle and its charts are drawn."""
    context = browser.new_context(viewport={"width": WIDTH, "height": bottom}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(IDLE, timeout=60_000)
    page.wait_for_timeout(6_000)
    page.screenshot(path=file, clip={"x": 0, "y": top, "width": WIDTH, "height": bottom - top})
    context.close()


def main(wanted: Sequence[str] = ()) -> None:
    """All of them, or those that are named, of a server with an empty data folder."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as home,
        serving("run", "app/main.py", home=Path(home) / "home", log=Path(home) / "log") as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for name, (path, scheme, top, bottom) in PICTURES.items():
            if not wanted or name in wanted:
                take(browser, server.url + path, FOLDER / name, scheme, top, bottom)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
