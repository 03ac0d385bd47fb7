"""The value a graph should have: its operations' reference faces, walked in a wide type on the same data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role
from engine.measure.buffers import empty

SCRATCH_BYTES = 3 << 30
"""What one operation's reference needs beside its operands: tiles of 1 GiB, and a copy or two of a tile."""

WIDE = (torch.float64, torch.float32)
"""Types to try, widest first."""


def reference(spec: GraphSpec, values: Mapping[int, Any], dtype: Any) -> dict[int, Any]:
    """Outputs by uid, in ``dtype`` and the strides of the graph. ``values``: inputs and scalars, as Buffers.values.

    No TF32: it would make the reference as inexact as what it judges.
    """
    previous = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        wide = {uid: v.to(dtype) if isinstance(v, torch.Tensor) else v for uid, v in values.items()}
        known = spec.walk(wide, lambda operation, tensors: operation.reference(torch, tensors))
    finally:
        torch.set_float32_matmul_precision(previous)
    return {t.uid: empty(t, dtype, known[t.uid].device).copy_(known[t.uid]) for t in spec.outputs}


def reference_bytes(spec: GraphSpec, dtype: Any) -> int:
    """Device memory the walk needs at its peak, beside the graph's own tensors: every tensor in the wide type, the
    outputs once more in their strides, and scratch."""
    elements = sum(t.elements for t in spec.tensors if t.role is not Role.SCALAR) + sum(
        t.elements for t in spec.outputs
    )
    return elements * int(dtype.itemsize) + SCRATCH_BYTES
