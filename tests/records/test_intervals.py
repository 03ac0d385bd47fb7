"""Intervals that hold what they promise: against brute resampling, by exact probabilities and by simulation."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.intervals import bounds, interval, intervals


def resampled(values: np.ndarray, picks: int, times: int) -> np.ndarray:
    """The textbook bootstrap of the median."""
    chosen = np.random.default_rng(0).integers(0, values.size, (times, picks))
    return np.median(values[chosen], axis=1)


@pytest.mark.parametrize("count", [5, 11, 50, 99, 100, 333])
def test_the_interval_is_the_bootstrap_s_and_one_sample_more_on_either_side(count):
    values = np.sort(np.random.default_rng(count).lognormal(3, 0.1, count))
    picks = count - 1 + count % 2
    low, high = np.quantile(resampled(values, picks, 40_000), [0.025, 0.975], method="inverted_cdf")
    ends = [int(np.searchsorted(values, end)) for end in (low, high)]
    found = bounds(count, count)
    assert abs(found[0] - max(0, ends[0] - 1)) <= 1  # the last place of 40,000 draws is not settled
    assert abs(found[1] - min(count - 1, ends[1] + 1)) <= 1
    assert found[0] == count - 1 - found[1]


@pytest.mark.parametrize("count", [*range(6, 60), 100, 200, 400, 1000])
def test_the_median_of_any_continuous_distribution_is_covered_as_promised(count):
    low, high = bounds(count, count)
    covered = sum(comb(count, below) for below in range(low + 1, high + 1)) / 2**count
    assert 0.95 <= covered < 0.997


@pytest.mark.parametrize(("count", "spread"), [(30, 0.2), (100, 0.004), (100, 1.0), (400, 0.05)])
def test_coverage_by_simulation_of_skewed_samples(count, spread):
    random = np.random.default_rng(count)
    made = np.exp(spread * random.standard_normal((1500, count)))  # median 1
    hits = sum(found.low <= 1 <= found.high for found in map(interval, made))
    assert hits / 1500 > 0.945


def autocorrelated(random: np.random.Generator, share: float, count: int) -> np.ndarray:
    """A series in which each sample takes over this share of the one before."""
    noise = random.standard_normal(count + 100) * (1 - share**2) ** 0.5
    series = [0.0]
    for step in noise:
        series.append(share * series[-1] + step)
    return 10 + np.array(series[101:])


@pytest.mark.parametrize(("share", "at_least"), [(0.5, 0.92), (0.8, 0.87), (0.9, 0.82)])
def test_samples_that_resemble_their_neighbours_count_for_less(share, at_least):
    """Taken as independent, the same samples would cover the median 83 %, 62 % and 44 % of the time."""
    random = np.random.default_rng(3)
    made = [autocorrelated(random, share, 100) for _ in range(400)]
    found = [interval(values) for values in made]
    assert np.mean([one.low <= 10 <= one.high for one in found]) > at_least
    worth = 100 * (1 - share) / (1 + share)
    assert worth / 2 < np.median([one.effective for one in found]) < 2.5 * worth
    ends = [np.sort(values)[list(bounds(100, 100))] for values in made]
    assert np.mean([low <= 10 <= high for low, high in ends]) < at_least - 0.05


def test_independent_samples_count_almost_fully():
    random = np.random.default_rng(4)
    found = [interval(random.lognormal(3, 0.01, 100)).effective for _ in range(300)]
    assert 80 < np.mean(found) <= 100


def test_a_drift_that_all_share_does_not_make_them_uncertain():
    random = np.random.default_rng(5)
    drift = 1 + 0.12 * (1 - np.exp(-np.arange(100) / 15))
    alone = 25 * drift * np.exp(0.004 * random.standard_normal(100))
    together = {str(i): (25 + i) * drift * np.exp(0.004 * random.standard_normal(100)) for i in range(8)}
    assert interval(alone).effective < 12
    assert np.mean([one.effective for one in intervals(together).values()]) > 80


def test_few_samples_span_their_interval():
    for count in range(1, 7):
        values = np.arange(1.0, count + 1)
        found = interval(values)
        assert (found.low, found.high, found.samples, found.effective) == (1.0, count, count, count)
        assert found.median == np.median(values)


def test_no_plans_no_intervals():
    assert intervals({}) == {}


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0.5, 1e6, width=32), min_size=1, max_size=60), min_size=1, max_size=6))
def test_every_interval_holds_its_median_and_lies_among_its_samples(series):
    arrays = {str(i): np.array(values) for i, values in enumerate(series)}
    for key, found in intervals(arrays).items():
        values = arrays[key]
        assert found.median == pytest.approx(float(np.median(values)), rel=1e-12)
        assert values.min() <= found.low <= found.median <= found.high <= values.max()
        assert 1 <= found.effective <= found.samples == values.size


@settings(deadline=None)
@given(st.permutations(range(5)), st.integers(0, 2**32 - 1))
def test_the_order_of_the_plans_makes_no_difference(order, seed):
    random = np.random.default_rng(seed)
    series = [random.lognormal(1, 0.1, 20 + 7 * i) for i in range(5)]
    first = intervals({str(i): series[i] for i in range(5)})
    assert intervals({str(i): series[i] for i in order}) == first
