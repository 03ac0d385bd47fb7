"""The Explore page with a recorded run open against Streamlit's own hello page, as Streamlit serves it without
settings (but for reports that a machine without the internet waits for), in the same browser and minute."""

from __future__ import annotations

import statistics
import time

import pytest

from tests.browser.conftest import IDLE, serving

pytestmark = [pytest.mark.browser, pytest.mark.timing, pytest.mark.slow]
ROUNDS, WARM_UP, REPEATS, LIMIT = 3, 2, 5, 1.5
BARE = ("hello", "--server.headless", "true", "--browser.gatherUsageStats", "false")


def seconds(context, url, drawn=None):
    """From navigation until no script runs and, where asked for, something is drawn."""
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url)
    if drawn:
        page.locator(drawn).first.wait_for(state="attached")
    page.wait_for_selector(IDLE)
    took = time.perf_counter() - began
    page.close()
    return took


@pytest.mark.xfail(reason="not reached for certain: 1.14x to 1.58x, 2 cores that others use, 2026-12-01", strict=False)
def test_the_first_chart_is_drawn_within_one_and_a_half_times_of_hello(chromium, server, tmp_path, record_property):
    """Whatever else the machine does only adds time, so the best of a few rounds counts: a slow page is slow in all."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(60_000)
    ratios = []
    with serving(*BARE, home=tmp_path, log=tmp_path / "log", folder=tmp_path) as hello:
        for _ in range(ROUNDS):
            taken = {"hello": [], "explore": []}
            for i in range(WARM_UP + REPEATS):
                pair = (seconds(context, hello.url), seconds(context, server.url, ".st-key-chart-time .marks path"))
                if i >= WARM_UP:
                    taken["hello"].append(pair[0])
                    taken["explore"].append(pair[1])
            medians = {name: statistics.median(times) for name, times in taken.items()}
            ratios.append(medians["explore"] / medians["hello"])
            record_property("medians", medians)
            print(f"hello {medians['hello']:.2f} s, explore {medians['explore']:.2f} s, {ratios[-1]:.2f}x")
            if ratios[-1] <= LIMIT:
                break
    context.close()
    assert min(ratios) <= LIMIT
