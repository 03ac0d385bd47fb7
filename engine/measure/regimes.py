"""The regimes that follow the hot verdict: cold, host as called and made ready, end to end.

In blocks over all plans, their order shuffled anew, for the same reason as in the rounds. Before each block its plan is
announced, so that whoever takes the process with it is known.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.measure.calling import Call
from engine.measure.contestant import Contestant, Replayable
from engine.measure.timing import Flush, cold_block, end_to_end_block, host_block
from engine.records.samples import Samples
from engine.records.timings import Regime

BLOCKS = 4
SAMPLES = {Regime.COLD: 8, Regime.HOST: 25, Regime.HOST_READY: 25, Regime.END_TO_END: 13}
"""Per block."""
BLOCK_US = 30_000.0
"""GPU time one block may cost: of a slow plan a sample or two have to do."""
FIRST_HOST_US = 50.0
"""Guess of what a call costs the host, until that was measured."""

Announce = Callable[[str], None]


@dataclass
class _Found:
    values: dict[Regime, list[float]] = field(default_factory=dict)

    def samples(self) -> dict[Regime, Samples]:
        return {regime: Samples.of(values) for regime, values in self.values.items() if values}


def measure_regimes(
    regimes: Sequence[Regime], plans: Mapping[str, Replayable], flush: Flush, seed: int, announce: Announce
) -> dict[str, dict[Regime, Samples]]:
    """Samples of these regimes by plan. A regime that a plan has no call for is left out of its own."""
    found = {key: _Found() for key in plans}
    order, shuffle = list(plans), random.Random(seed)
    for regime in regimes:
        for _ in range(BLOCKS):
            shuffle.shuffle(order)
            for key in order:
                announce(key)
                block = _block(regime, plans[key], flush, _host_us(found[key]))
                found[key].values.setdefault(regime, []).extend(block)
    return {key: value.samples() for key, value in found.items()}


def _block(regime: Regime, plan: Replayable, flush: Flush, host_us: float) -> list[float]:
    count = max(1, min(SAMPLES[regime], int(BLOCK_US / plan.execution_us)))
    if regime is Regime.COLD:
        return cold_block(plan.call, flush, count, host_us)
    if regime is Regime.HOST:
        return host_block(plan.call, count)
    if regime is Regime.END_TO_END:
        return end_to_end_block(plan.call, count)
    ready: Call | None = plan.ready if isinstance(plan, Contestant) else None
    return [] if ready is None else host_block(ready, count)


def _host_us(found: _Found) -> float:
    """Median of what calls have cost the host so far."""
    known = sorted(found.values.get(Regime.HOST, ()))
    return known[len(known) // 2] if known else FIRST_HOST_US
