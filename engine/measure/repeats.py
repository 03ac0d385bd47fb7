"""Whether a plan gives the same bits again and again."""

from __future__ import annotations

import torch

from engine.measure.buffers import bits
from engine.measure.session import Session
from engine.records.passport import Repeatability

RUNS = 10
MOST_US = 200_000.0
"""What all runs together may cost; slower plans are not repeated."""


def measure_repeats(session: Session, key: str) -> Repeatability | None:
    """Run a loaded plan ``RUNS`` times on the same data, each time over poisoned outputs, and count the elements that
    were not always the same. None where that would take too long."""
    plan, outputs = session.contestant(key), session.spec.outputs
    if RUNS * plan.execution_us > MOST_US:
        return None
    first: list[torch.Tensor] = []
    differing: list[torch.Tensor] = []
    for run in range(RUNS):
        session.buffers.poison()
        plan.call()
        torch.cuda.synchronize()
        seen = [bits(tensor.dtype, session.buffers.outputs[tensor.uid]) for tensor in outputs]
        if run == 0:
            first = [values.clone() for values in seen]
            differing = [torch.zeros_like(values, dtype=torch.bool) for values in seen]
            continue
        for mask, values, before in zip(differing, seen, first, strict=True):
            mask |= values != before
    return Repeatability(
        runs=RUNS,
        differing=sum(int(mask.sum()) for mask in differing),
        elements=sum(tensor.elements for tensor in outputs),
    )
