"""Whether a plan gives the same bits again and again."""

from __future__ import annotations

import torch

from engine.measure.bitwise import BitComparison
from engine.measure.session import Session
from engine.records.passport import MOST_REPEATING_US, REPEATED_RUNS, Repeatability


def measure_repeats(session: Session, key: str) -> Repeatability | None:
    """Run a loaded plan ``REPEATED_RUNS`` times on the same data, each time over poisoned outputs, and count the
    elements that were not always the same. None where that would take too long."""
    plan, comparison = session.contestant(key), BitComparison(session.spec.outputs)
    if REPEATED_RUNS * plan.execution_us > MOST_REPEATING_US:
        return None
    for _ in range(REPEATED_RUNS):
        session.buffers.poison()
        plan.call()
        torch.cuda.synchronize()
        comparison.take(session.buffers.outputs)
    return comparison.result()
