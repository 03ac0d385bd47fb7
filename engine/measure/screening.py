"""Who is worth more than a glance: the rules by which plans drop out before, and early in, the rounds. Pure; no torch.

A time that was seen is an upper bound of nothing: a clock may have been low, a cache cold. So a plan is only dropped
where its *smallest* sample is farther from the best plan's median than anything but the plan itself explains.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.records.gpu_state import LOW_CLOCK

FAR = 3.0
"""Times the best: a single execution that took longer ends the screening of a plan. Neither a clock at its lowest (a
quarter of samples' time, see LOW_CLOCK) nor cold caches make threefold."""

DOUBT = 1 / LOW_CLOCK
"""Times the best: what is farther off in samples that were not taken beside the best's gets no rounds."""

MOST_SURVIVORS = 128
"""A search over knobs can come upon more plans of about the same speed than anybody wants to wait for; and where the
process that samples them is lost, what is known of them has to fit one request of 64 KB."""

SETTLE_ROUNDS = 10
"""Rounds after which plans are dropped by samples that were taken beside the best's: clocks excuse nothing then."""


@dataclass(frozen=True)
class Rule:
    """How much a plan's samples are to be worth. All times in seconds.

    ``least``: samples that each survivor has at the end. ``error``: relative standard error that each is to come below
    before all end together; who has ``most`` is not waited for. ``margin``: times the best's median, how far a plan may
    be and stay in the rounds. ``budget_s``: after it, nobody gets more than ``least``; and after ten of it nobody gets
    any.
    """

    least: int = 100
    error: float = 0.005
    margin: float = 1.15
    budget_s: float = 10.0

    def __post_init__(self) -> None:
        if self.least < 1 or self.error < 0 or self.margin < 1 or self.budget_s <= 0:
            raise ValueError(f"not a rule to sample by: {self}")

    @property
    def most(self) -> int:
        """Samples, for nobody more. Noise that so many have not averaged out (a deviation above a fifth, by the
        standard rule) comes from something else that uses the GPU."""
        return 20 * self.least

    @property
    def most_s(self) -> float:
        """The end of all patience."""
        return 10 * self.budget_s


RULES: Mapping[str, Rule] = {
    "quick": Rule(least=100, error=0.005, margin=1.05, budget_s=2.0),
    "standard": Rule(least=100, error=0.005, margin=1.15, budget_s=10.0),
    "thorough": Rule(least=400, error=0.002, margin=DOUBT, budget_s=60.0),
}
"""By preset."""


def is_far(at_least_us: float, best_us: float | None) -> bool:
    """Whether one execution that took at least so long is enough to know that the plan is far from the best."""
    return best_us is not None and at_least_us > FAR * best_us


def survivors(samples: Mapping[str, Sequence[float]], keep: Iterable[str] = (), margin: float = 1.0) -> list[str]:
    """The plans that go into the rounds, in the order given: those not beyond doubt far from the best by their
    screening samples, and of ``keep`` (the heuristics' first picks) those that are not FAR; MOST_SURVIVORS at most."""
    if not samples:
        return []
    best = min(statistics.median(values) for values in samples.values())
    limit, wanted = max(DOUBT, margin) * best, frozenset(keep)
    near = [key for key, values in samples.items() if min(values) <= (FAR * best if key in wanted else limit)]
    nearest = sorted(near, key=lambda key: (key not in wanted, min(samples[key])))[:MOST_SURVIVORS]
    return [key for key in near if key in set(nearest)]
