"""Whether results of several runs agree bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from engine.graph.tensors import TensorSpec
from engine.measure.buffers import bits
from engine.records.passport import Repeatability

CHUNK = 1 << 26
"""Elements compared at a time."""


class BitComparison:
    """Counts the elements whose bits were not always those of the first run. Keeps a copy of that, and a byte for every
    element."""

    def __init__(self, outputs: Sequence[TensorSpec]) -> None:
        self._outputs, self._runs = tuple(outputs), 0
        self._first: dict[int, Any] = {}
        self._differing: dict[int, Any] = {}

    def take(self, results: Mapping[int, Any]) -> None:
        """The outputs of one more run, by uid, each without gaps in its memory. Does not wait for the GPU."""
        self._runs += 1
        for tensor in self._outputs:
            seen = _row(bits(tensor.dtype, results[tensor.uid]))
            if self._runs == 1:
                self._first[tensor.uid] = seen.clone()
                self._differing[tensor.uid] = torch.zeros(seen.shape, dtype=torch.bool, device=seen.device)
                continue
            first, mask = self._first[tensor.uid], self._differing[tensor.uid]
            for start in range(0, seen.numel(), CHUNK):
                part = slice(start, start + CHUNK)
                mask[part] |= seen[part] != first[part]

    def result(self) -> Repeatability:
        """What all runs so far, at least two, gave."""
        differing = sum(int(mask.sum()) for mask in self._differing.values())
        return Repeatability(runs=self._runs, differing=differing, elements=sum(t.elements for t in self._outputs))


def _row(values: Any) -> Any:
    """The elements as they lie in memory, without a copy."""
    return values.as_strided((values.numel(),), (1,))
