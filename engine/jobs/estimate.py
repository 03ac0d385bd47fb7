"""How long a job will still take: first guesses, then what it has taken so far."""

from __future__ import annotations

import time
from collections.abc import Callable

# Guesses until the first of their kind is done, seconds; read off the shipped recordings (H200, 16 host cores): a run
# lasts about 4 s and 0.15 s per plan, and half of the runtime-compiled plans build in 0.6 s.
BUILD_S = 0.6
START_S = 4.0
MEASURE_S = 0.15


class Estimate:
    """Steps of one job: ``candidates`` plans to build by ``builders`` processes, then, with ``measures``, to measure.

    The baseline counts as one measurement. Before ``listed`` nothing is known: no steps and no time.
    """

    def __init__(self, builders: int, measures: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._builders, self._measures, self._clock = max(1, builders), measures, clock
        self._candidates = self._built = self._to_measure = self._measured = 0
        self._began = self._build_began = self._build_ended = self._measure_began = self._clock()
        self._ready = False

    def listed(self, candidates: int) -> None:
        """The candidates are known; building begins."""
        self._candidates = candidates
        self._to_measure = candidates + 1 if self._measures else 0
        self._build_began = self._build_ended = self._clock()

    def built(self, done: int) -> None:
        """So many have been built, or have failed to."""
        self._built, self._build_ended = done, self._clock()

    def ready(self, to_measure: int) -> None:
        """Building is over; so many are left to measure, the baseline included."""
        self._to_measure, self._ready, self._measure_began = to_measure, True, self._clock()

    def measured(self) -> None:
        """One more has been measured."""
        self._measured += 1

    @property
    def done(self) -> int:
        """Steps behind; a plan that cannot be measured leaves both of its steps behind at once."""
        skipped = self._candidates + 1 - self._to_measure if self._ready else 0
        return self._built + self._measured + skipped

    @property
    def total(self) -> int:
        """All steps."""
        if not self._candidates:
            return 0
        return self._candidates + (self._candidates + 1 if self._measures else 0)

    @property
    def left_s(self) -> float | None:
        """Seconds from now, None before the candidates are known."""
        if not self._candidates:
            return None
        return self._left_building() + self._left_measuring()

    def _left_building(self) -> float:
        left = self._candidates - self._built
        if self._built:
            each = (self._build_ended - self._build_began) / self._built
        else:
            each = BUILD_S / min(self._builders, self._candidates)
        return max(0.0, left * each)

    def _left_measuring(self) -> float:
        if not self._measures:
            return 0.0
        each = (self._clock() - self._measure_began) / self._measured if self._measured else MEASURE_S
        left = (self._to_measure - self._measured) * each
        # The measuring process starts while plans are built.
        starting = START_S - (self._clock() - self._began) - self._left_building()
        return left if self._ready else left + max(1.0, starting)
