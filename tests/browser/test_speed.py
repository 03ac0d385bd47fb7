"""The Explore page with a recorded run open against Streamlit's own hello page, as Streamlit serves it without
settings (but for reports that a machine without the internet waits for), in the same browser and minute."""

from __future__ import annotations

import statistics
import time

import pytest

from tests.browser.conftest import serving

pytestmark = [pytest.mark.browser, pytest.mark.timing, pytest.mark.slow]
WARM_UP, REPEATS, LIMIT = 2, 15, 1.5
BARE = ("hello", "--server.headless", "true", "--browser.gatherUsageStats", "false")
DONE = """
(chart) => {
  const app = document.querySelector('[data-testid="stApp"]');
  if (app?.dataset.testScriptState !== "notRunning") return false;
  const inside = [...document.querySelectorAll(".st-key-chart-time *")].find((element) => element.shadowRoot);
  return !chart || Boolean(inside?.shadowRoot.querySelector(".marks path"));
}
"""
"""No script runs and, where asked for, the first chart's dots are drawn. Asked in the page at every frame: Playwright's
own waiting for a selector asks again after up to half a second."""


def seconds(context, url, chart):
    """From navigation until the page is done."""
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_function(DONE, arg=chart, polling="raf")
    took = time.perf_counter() - began
    page.close()
    return took


def test_the_first_chart_is_drawn_within_one_and_a_half_times_of_hello(chromium, server, tmp_path, record_property):
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(60_000)
    taken = {"hello": [], "explore": []}
    with serving(*BARE, home=tmp_path, log=tmp_path / "log", folder=tmp_path) as hello:
        for _ in range(WARM_UP + REPEATS):
            taken["hello"].append(seconds(context, hello.url, chart=False))
            taken["explore"].append(seconds(context, server.url, chart=True))
    context.close()
    medians = {name: statistics.median(times[WARM_UP:]) for name, times in taken.items()}
    record_property("medians", medians)
    assert medians["explore"] <= LIMIT * medians["hello"], medians
