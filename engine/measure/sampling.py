"""The loop that samples in rounds: keeps the GPU busy, reads its state beside the samples, and knows who hangs.

One round is enqueued while the one before it runs, so that the GPU never waits for the host between two plans. Every
plan's replay has an event behind it: the first that does not come is the plan that hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.measure.rounds import Rounds
from engine.records.gpu_state import LOW_CLOCK, GpuState

POLL_S = 100e-6
REPORT_S = 0.1
PATIENCE_S = 10.0
"""How long a round may take beside what it should: nothing else is to use the GPU, and a replay lasts milliseconds."""
REST_S = 0.02
"""How long the GPU rests after a round that was set aside: at its power limit it gets the clock back, where going on
would give the next round the same."""
SLOWDOWN = 20.0
"""And how many times what it should."""


class Hung(RuntimeError):
    """A plan does not come back from the GPU: ``key``."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Source(Protocol):
    """What is sampled: one replay of one plan, by key."""

    def enqueue(self, key: str) -> Any:
        """Put a replay on the stream, with events around it; does not wait. Gives a ticket."""

    def is_done(self, ticket: Any) -> bool:
        """Whether it has ended; does not wait."""

    def microseconds(self, ticket: Any) -> float:
        """Time per execution of a replay that has ended."""

    def expected_s(self, key: str) -> float:
        """About how long a replay takes."""


@dataclass(frozen=True)
class Round:
    """What one round gave: the GPU's state while it ran, and each sample as (key, microseconds, kept)."""

    state: GpuState | None
    samples: tuple[tuple[str, float, bool], ...]


Observe = Callable[[], GpuState | None]
Report = Callable[[Sequence[Round]], None]
Announce = Callable[[str], None]


class Sampler:
    """Samples until ``rounds`` has enough. ``rated_mhz``: the SM clock that LOW_CLOCK is a share of.

    ``report`` gets the rounds since the last time every REPORT_S and at the end. ``announce``: where it is given, each
    plan is told of before its replay, and waited for: slower, but whoever takes the process with it is known.
    """

    def __init__(
        self,
        rounds: Rounds,
        source: Source,
        observe: Observe,
        report: Report,
        rated_mhz: int | None = None,
        announce: Announce | None = None,
        patience_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rounds, self._source, self._observe, self._report = rounds, source, observe, report
        self._low_mhz = LOW_CLOCK * rated_mhz if rated_mhz else 0.0
        self._announce, self._clock, self._sleep = announce, clock, sleep
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._unreported: list[Round] = []

    def run(self) -> None:
        """Raises Hung, and what the source raises; what was sampled before is reported first."""
        running: list[tuple[str, Any]] = []
        try:
            self._warm_up()
            began = reported = self._clock()
            while True:
                order = self._rounds.order(self._clock() - began)
                if not order and not running:
                    return
                following = [(key, self._sample(key)) for key in order]
                if running:
                    self._collect(running)
                running = following
                if self._clock() - reported > REPORT_S:
                    reported = self._clock()
                    self._tell()
        finally:
            self._tell()

    def _warm_up(self) -> None:
        """A round for nobody: clocks come up, and graphs captured long ago are on the device again."""
        running = [(key, self._sample(key)) for key in self._rounds.tallies if key not in self._rounds.stopped]
        if running:
            self._wait(running)

    def _sample(self, key: str) -> Any:
        if self._announce is None:
            return self._source.enqueue(key)
        self._announce(key)
        ticket = self._source.enqueue(key)
        self._wait([(key, ticket)])
        return ticket

    def _collect(self, running: list[tuple[str, Any]]) -> None:
        state = self._observe()  # Now: this round runs, and the next one is enqueued.
        self._wait(running)
        slow = state is not None and state.sm_clock_mhz is not None and state.sm_clock_mhz < self._low_mhz
        samples = []
        for key, ticket in running:
            value = self._source.microseconds(ticket)
            samples.append((key, value, self._rounds.take(key, value, slow)))
        self._unreported.append(Round(state, tuple(samples)))
        if not any(is_kept for _, _, is_kept in samples):
            self._sleep(REST_S)

    def _wait(self, running: list[tuple[str, Any]]) -> None:
        expected = sum(self._source.expected_s(key) for key, _ in running)
        deadline = self._clock() + self._patience_s + SLOWDOWN * expected
        while not self._source.is_done(running[-1][1]):
            if self._clock() > deadline:
                key = next(key for key, ticket in running if not self._source.is_done(ticket))
                raise Hung(key, f"a replay that should take {self._source.expected_s(key):.3g} s never ended")
            self._sleep(POLL_S)

    def _tell(self) -> None:
        if self._unreported:
            told, self._unreported = self._unreported, []
            self._report(told)
