"""How many samples a plan gets: enough near the best, little GPU time far from it. (Timing itself needs a GPU.)"""

from __future__ import annotations

import pytest

from engine.measure.timing import HOT_SAMPLES, REGIME_US, REPLAY_US, Counts


@pytest.mark.parametrize(
    ("execution_us", "executions"), [(1, 20), (25, 20), (82, 12), (400, 2), (1500, 1), (120_000, 1)]
)
def test_a_replay_lasts_about_a_millisecond(execution_us, executions):
    assert Counts.choose(execution_us, None).executions == executions
    assert executions == 1 or executions * execution_us <= REPLAY_US


@pytest.mark.parametrize("execution_us", [2, 25, 82, 160, 5_000])
def test_plans_near_the_best_get_all_their_samples(execution_us):
    for best_us in (None, execution_us, execution_us * 0.6, execution_us * 2):
        counts = Counts.choose(execution_us, best_us)
        assert counts.hot >= 50
        assert counts.cold >= 20
        assert counts.host >= 50


def test_a_plan_far_from_the_best_costs_little():
    for execution_us in (170, 1_000, 5_000, 20_000):
        counts = Counts.choose(execution_us, 82)
        for executions in (counts.hot * counts.executions, counts.cold, counts.host):
            assert executions * execution_us <= REGIME_US or executions == 3
        assert min(counts.hot, counts.cold, counts.host) >= 3
    slow = Counts.choose(120_000, 82)
    assert (slow.hot, slow.cold, slow.host) == (3, 3, 3)
    assert Counts.choose(170, 82).hot < HOT_SAMPLES or Counts.choose(170, 82).hot * 170 * 5 <= REGIME_US


def test_even_a_first_plan_is_not_measured_for_minutes():
    counts = Counts.choose(2_000_000, None)
    assert counts.hot + counts.cold + counts.host <= 9
