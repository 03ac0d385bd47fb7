"""A median and how well it is known: bootstrap 95 % confidence intervals of many plans' samples at once.

What the bootstrap of a median gives for endlessly many resamples can be written down (Efron, The Jackknife, the
Bootstrap and Other Resampling Plans, 1982, chapter 10): resample m of n values, m odd, and the middle one is the j-th
smallest or smaller with the probability that at least (m + 1) / 2 of the m picks fall among the j smallest. So nothing
is drawn, two runs of it agree to the bit, and the interval lies between two of the samples. It covers a little less
than it promises where samples are few (89 % of 10 samples' intervals hold the median, 94 % of 100's), which one sample
more at either end makes up for.

Samples follow one another while clocks and heat drift, and those that resemble their neighbours say less than as many
independent ones: on an H200, 50 hot samples in a row were worth 3 to 50. m is therefore the count of independent
samples worth as much, from the autocorrelation of their sides of the median (pairs of lags summed while positive:
Geyer, Practical Markov Chain Monte Carlo, 1992). What all plans of an interleaved sweep went through together is taken
out before, for it does not tell them apart: without that, a clock that falls during a sweep would make every plan tie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.records.wording import several, span

CONFIDENCE = 0.95
FEWEST = 20
"""Autocorrelation of fewer samples is noise."""
SPANNING = 6
"""With fewer samples the interval is all that they span, and holds the median less often than CONFIDENCE says."""
TOGETHER = 3
"""Plans that make a drift a common one."""


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % confidence interval, in the unit of the samples. ``effective``: how many independent
    samples the ``samples`` are worth. Fewer than SPANNING of them span the interval and do not reach 95 %."""

    median: float
    low: float
    high: float
    samples: int
    effective: int

    def overlaps(self, other: Interval) -> bool:
        """Whether the two have a value in common."""
        return self.low <= other.high and other.low <= self.high

    @property
    def words(self) -> str:
        """What stands for how sure it is: ``95 % interval 9.97 to 10.03 µs``; of too few samples what they span."""
        count = several(self.samples, "sample")
        if not self.low < self.high:
            return count
        ends = span(self.low, self.high)
        return f"{ends} in {count}" if self.samples < SPANNING else f"95 % interval {ends}"


def interval(values: np.ndarray) -> Interval:
    """Of one series, in the order taken."""
    return intervals({"": values})[""]


def intervals(series: Mapping[str, np.ndarray]) -> dict[str, Interval]:
    """Of the samples of every plan by key, each in the order taken. Plans that were sampled in rounds have their i-th
    samples from about the same time."""
    if not series:
        return {}
    counts = np.array([values.size for values in series.values()])
    table = np.full((len(series), int(counts.max())), np.nan)
    for row, values in zip(table, series.values(), strict=True):
        row[: values.size] = values
    ordered = np.sort(table, axis=1)  # NaN, which stands for no sample, is sorted last
    medians = _middle(ordered, counts)
    worth = effective_counts(_own(table / medians[:, None], counts), counts)
    found = {}
    for key, row, median, count, effective in zip(
        series, ordered, medians, counts.tolist(), worth.tolist(), strict=True
    ):
        low, high = bounds(count, effective)
        found[key] = Interval(float(median), float(row[low]), float(row[high]), count, effective)
    return found


def effective_counts(table: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How many independent samples each row is worth, at least 1 and at most its count. Rows are padded with NaN."""
    taken = ~np.isnan(table)
    side = np.where(taken, np.sign(table - _middle(np.sort(table, axis=1), counts)[:, None]), 0.0)
    side -= taken * (side.sum(axis=1) / counts)[:, None]
    spectrum = np.fft.rfft(side, 2 * table.shape[1], axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, : table.shape[1]]
    variance = np.maximum(covariance[:, :1], 1e-300)
    lags = covariance[:, 1:] / variance
    pairs = lags[:, : lags.shape[1] // 2 * 2].reshape(len(table), -1, 2).sum(axis=2)
    positive = np.logical_and.accumulate(pairs > 1e-9, axis=1)
    time = 1.0 + 2.0 * np.where(positive, pairs, 0.0).sum(axis=1)
    worth = np.where(counts < FEWEST, counts, counts / time)
    return np.clip(worth, 1, counts).astype(int)


def _own(relative: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Samples over their plan's median, without the drift that they share: at each place the median over all plans."""
    if counts.size < TOGETHER:
        return relative
    shared = int(np.sort(counts)[-TOGETHER])
    own, places = relative.copy(), relative[:, :shared].T
    own[:, :shared] /= _middle(np.sort(places, axis=1), (~np.isnan(places)).sum(axis=1))
    return own


def _middle(ordered: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Median of each sorted row's first ``counts`` values."""
    rows = np.arange(len(ordered))
    return np.asarray((ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]) / 2)


@lru_cache(maxsize=4096)
def bounds(count: int, effective: int) -> tuple[int, int]:
    """Places of the interval's ends among ``count`` sorted samples worth ``effective`` independent ones."""
    picks = effective - 1 + effective % 2
    low = max(0, math.ceil(count * _quantile(picks)) - 2)
    return low, count - 1 - low


@lru_cache(maxsize=4096)
def _quantile(picks: int) -> float:
    """Which share of the values must be picked from, for the middle of an odd number of picks to be among them with
    probability (1 - CONFIDENCE) / 2: that quantile of the beta distribution, by Newton's method."""
    half, wanted = (picks + 1) // 2, (1 - CONFIDENCE) / 2
    successes = np.arange(half, picks + 1)
    choose = np.cumsum(np.log((picks - np.arange(picks)) / np.arange(1, picks + 1)))[half - 1 :]
    share = max(0.01, 0.5 - 0.98 / math.sqrt(picks + 2))
    for _ in range(8):
        terms = np.exp(choose + successes * math.log(share) + (picks - successes) * math.log1p(-share))
        slope = half / share * float(terms[0])
        before, share = share, min(0.5, max(1e-3, share - (float(terms.sum()) - wanted) / slope))
        if abs(share - before) < 1e-12:
            break
    return share
