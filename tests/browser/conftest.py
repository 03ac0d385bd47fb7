"""A real server on a free port with a data folder of its own, and the distribution's Chromium."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync", "--no-first-run"]


@dataclass
class Server:
    """A running server."""

    url: str
    pid: int


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(*arguments: str, home: Path, log: Path, port: int = 0, folder: Path = ROOT) -> Iterator[Server]:
    """``streamlit <arguments>`` until the block ends, with every process it started; on a free port unless given.
    ``folder``: where it is started, and so whose settings it takes."""
    port = port or free_port()
    command = [sys.executable, "-m", "streamlit", *arguments, "--server.port", str(port)]
    environment = {**os.environ, "PLANSCOPE_HOME": str(home)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, process_group=0
        )
        try:
            server = Server(f"http://127.0.0.1:{port}", process.pid)
            _wait_until_healthy(server, process, log)
            yield server
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_healthy(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=2):
            return
        time.sleep(0.2)
    raise AssertionError(f"the server did not answer: {log.read_text(errors='replace')[-4000:]}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The dashboard."""
    folder = tmp_path_factory.mktemp("server")
    with serving("run", "app/main.py", home=folder / "home", log=folder / "log") as started:
        yield started


@pytest.fixture(scope="session")
def chromium():
    """One Chromium for all tests."""
    path = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium is installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, request):
    """A fresh browser session; a picture of it is left behind where the test fails."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
    context.set_default_timeout(60_000)
    opened = context.new_page()
    yield opened
    report = getattr(request.node, "report", None)
    if report is not None and report.failed:
        folder = ROOT / "test-results"
        folder.mkdir(exist_ok=True)
        opened.screenshot(path=folder / f"{request.node.name}.png")
    context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.report = report
    return report


def settled(page) -> None:
    """Wait until no script runs, the page's and its fragments'."""
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(150)
    page.wait_for_selector(IDLE)
