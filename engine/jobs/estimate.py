"""How long a job will still take: first guesses, then what it has taken so far."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.measure.screening import Rule

# Guesses until the first of their kind is done, seconds; read off sweeps recorded on an H200 with 16 host cores.
BUILD_S = 0.6
START_S = 4.0
RECEIVE_S = 0.02
SURVIVORS = 10
REPLAY_S = 500e-6
AFTER_S = 6.0
"""Of which 4 are the start of the process that confirms the winner."""
USUAL_PLANS = 30
ROUNDS_STEPS = 10
AFTER_STEPS = 4
"""torch, the other regimes, repeated runs, confirmation."""


class Estimate:
    """Steps of one job: ``candidates`` plans to build by ``builders`` processes; then, with a ``rule`` to measure by,
    to receive one by one, to sample together (in tenths), and what follows.

    Before ``listed`` nothing is known: no steps and no time.
    """

    def __init__(self, builders: int, rule: Rule | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._builders, self._rule, self._clock = max(1, builders), rule, clock
        self._candidates = self._built = self._received = self._after = self._survivors = 0
        self._fraction = 0.0
        self._began = self._build_began = self._build_ended = self._rounds_began = self._clock()
        self._ready = False

    def listed(self, candidates: int) -> None:
        """The candidates are known; building begins. More may become known later."""
        if not self._candidates:
            self._build_began = self._build_ended = self._clock()
        self._candidates = candidates

    def built(self, done: int) -> None:
        """So many have been built, or have failed to."""
        self._built, self._build_ended = done, self._clock()

    def received(self) -> None:
        """One more has been received by the measuring process, or never will be."""
        self._received += 1

    def sampling(self, survivors: int) -> None:
        """Everything is built and received; so many are sampled now."""
        self._built = self._received = self._candidates
        self._survivors, self._ready, self._rounds_began = survivors, True, self._clock()

    def sampled(self, fraction: float) -> None:
        """So much of the sampling is done."""
        self._fraction = max(self._fraction, fraction)

    def followed(self) -> None:
        """One more of what follows is done."""
        self._fraction, self._after = 1.0, self._after + 1

    @property
    def done(self) -> int:
        """Steps behind."""
        return self._built + self._received + int(ROUNDS_STEPS * self._fraction) + self._after

    @property
    def total(self) -> int:
        """All steps."""
        if not self._candidates or self._rule is None:
            return self._candidates
        return 2 * self._candidates + ROUNDS_STEPS + AFTER_STEPS

    @property
    def left_s(self) -> float | None:
        """Seconds from now, None before the candidates are known."""
        if not self._candidates:
            return None
        if self._rule is None:
            return self._left_building()
        receiving = (self._candidates - self._received) * RECEIVE_S
        waiting = max(self._left_building(), self._left_starting(), receiving)
        return waiting + self._left_sampling(self._rule) + (AFTER_STEPS - self._after) * AFTER_S / AFTER_STEPS

    def _left_building(self) -> float:
        left = self._candidates - self._built
        if self._built:
            each = (self._build_ended - self._build_began) / self._built
        else:
            each = BUILD_S / min(self._builders, self._candidates)
        return max(0.0, left * each)

    def _left_starting(self) -> float:
        """The measuring process starts while plans are built."""
        return 0.0 if self._ready or self._received else max(0.0, START_S - (self._clock() - self._began))

    def _left_sampling(self, rule: Rule) -> float:
        if self._ready and self._fraction > 0:
            return (self._clock() - self._rounds_began) * (1 / self._fraction - 1)
        survivors = self._survivors if self._ready else min(SURVIVORS, self._candidates)
        return survivors * rule.least * REPLAY_S


def expected_s(builders: int, rule: Rule, plans: int | None = None) -> float:
    """About how long a sweep takes, before anything of it is done. ``plans``: None where nobody has counted yet."""
    guess = Estimate(builders, rule)
    guess.listed(plans or USUAL_PLANS)
    return guess.left_s or 0.0
