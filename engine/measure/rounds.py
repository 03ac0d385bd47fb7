"""Who is sampled next, and when it is enough: rounds over plans in an order shuffled anew, by a rule. Pure; no torch.

Interleaved, plans share what a GPU goes through while it is timed (its clock falls by a sixth within a second under
load): who was first or last would decide otherwise. So they also end together, when each has enough: one that left
before the others would have been spared what they went through after.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.measure.screening import SETTLE_ROUNDS, Rule

Stopped = Literal["precise", "budget", "screened"]


@dataclass
class Tally:
    """A plan's kept samples so far, as running sums (Welford); ``set_aside`` are others. ``asked``: those under way."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    set_aside: int = 0
    asked: int = 0
    recent: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, values: Iterable[float], set_aside: int = 0) -> Tally:
        """What an earlier process has sampled."""
        tally = cls(set_aside=set_aside)
        for value in values:
            tally.add(value)
        return tally

    def add(self, value: float) -> None:
        """One more kept sample."""
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)
        if len(self.recent) < SETTLE_ROUNDS:
            self.recent.append(float(f"{value:.6g}"))  # It travels as text.

    @property
    def error(self) -> float:
        """Relative standard error of the mean; infinite below two samples."""
        if self.count < 2:
            return math.inf
        return math.sqrt(self.squares / (self.count - 1) / self.count) / self.mean


class Rounds:
    """Rounds over plans by key. Ask ``order`` whom to sample, ``take`` what came of each, until ``order`` is empty.

    A round may be asked for before the last one's samples are in. ``keep``: plans that are not dropped for being far
    (the heuristics' first picks). ``spent_s``: of the budget, by an earlier process.
    """

    def __init__(
        self,
        keys: Sequence[str],
        rule: Rule,
        seed: int,
        keep: Iterable[str] = (),
        before: Mapping[str, Tally] | None = None,
        spent_s: float = 0.0,
    ) -> None:
        self._rule, self._random, self._keep, self._spent_s = rule, random.Random(seed), frozenset(keep), spent_s
        self.tallies = {key: (before or {}).get(key) or Tally() for key in keys}
        self.stopped: dict[str, Stopped] = {}
        self.slow_clock = False
        """Whether the clock never came up, so that samples below LOW_CLOCK are kept after all."""
        self._settled = min((t.count for t in self.tallies.values()), default=0) >= SETTLE_ROUNDS

    def order(self, elapsed_s: float) -> list[str]:
        """Whom to sample in the next round, and in which order; empty when nobody needs more."""
        self._settle()
        going = {key: tally for key, tally in self.tallies.items() if key not in self.stopped}
        ends = {key: why for key, tally in going.items() if (why := self._ends(tally, elapsed_s + self._spent_s))}
        if len(ends) == len(going):
            self.stopped |= ends
            return []
        least = all(tally.count >= self._rule.least for tally in going.values())
        order = [key for key, tally in going.items() if self._needs(tally, least)]
        self._random.shuffle(order)
        for key in order:
            self.tallies[key].asked += 1
        return order

    def take(self, key: str, value_us: float, slow: bool) -> bool:
        """A sample has come; ``slow``: taken below LOW_CLOCK. Gives whether it is kept."""
        tally = self.tallies[key]
        tally.asked -= 1
        if slow and not self.slow_clock:
            tally.set_aside += 1
            # A clock that somebody has locked, or that heat holds down, does not come up by waiting.
            self.slow_clock = tally.set_aside >= self._rule.least and tally.count < tally.set_aside // 4
            return False
        tally.add(value_us)
        return True

    @property
    def fraction(self) -> float:
        """How much of what everybody needs at least is there."""
        going = [tally for key, tally in self.tallies.items() if self.stopped.get(key) != "screened"]
        wanted = self._rule.least * len(going)
        return min(1.0, sum(min(tally.count, self._rule.least) for tally in going) / wanted) if wanted else 1.0

    def _needs(self, tally: Tally, everybody: bool) -> bool:
        """Whether samples are wanted beside those under way: beyond the least, which ``everybody`` has to have by then,
        only one after the other."""
        return tally.count + tally.asked < self._rule.least or (everybody and not tally.asked)

    def _ends(self, tally: Tally, elapsed_s: float) -> Stopped | None:
        if elapsed_s > self._rule.most_s:
            return "budget"
        if tally.asked or tally.count < self._rule.least:
            return None
        if tally.error < self._rule.error:
            return "precise"
        return "budget" if elapsed_s > self._rule.budget_s or tally.count >= self._rule.most else None

    def _settle(self) -> None:
        """Once everybody has a few samples taken side by side, drop who is far from the best by all of them."""
        if self._settled or any(tally.count < SETTLE_ROUNDS for tally in self.tallies.values()):
            return
        self._settled = True
        best = min(statistics.median(tally.recent) for tally in self.tallies.values())
        for key, tally in self.tallies.items():
            if key not in self._keep and min(tally.recent) > self._rule.margin * best:
                self.stopped[key] = "screened"
