"""Whether a plan gives the same bits again and again."""

from __future__ import annotations

import torch

from engine.measure.bitwise import BitComparison
from engine.measure.session import Session
from engine.records.passport import Repeatability

RUNS = 10
MOST_US = 200_000.0
"""What all runs together may cost; slower plans are not repeated."""


def measure_repeats(session: Session, key: str) -> Repeatability | None:
    """Run a loaded plan ``RUNS`` times on the same data, each time over poisoned outputs, and count the elements that
    were not always the same. None where that would take too long."""
    plan, comparison = session.contestant(key), BitComparison(session.spec.outputs)
    if RUNS * plan.execution_us > MOST_US:
        return None
    for _ in range(RUNS):
        session.buffers.poison()
        plan.call()
        torch.cuda.synchronize()
        comparison.take(session.buffers.outputs)
    return comparison.result()
