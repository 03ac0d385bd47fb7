"""How far a result is from the reference, and how far it may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from engine.graph.operations import Attention
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType, TensorSpec
from engine.measure.buffers import POISON, bits, empty
from engine.measure.data import summed_terms
from engine.records.arithmetic import TF32_OPERANDS
from engine.records.passport import OutputAccuracy

CHUNK = 1 << 24
"""Elements compared at a time, so that the float64 copies stay small beside the tensors."""

RESULT_ROUNDINGS = 2.0
"""A fused plan computes in float32 and rounds its result to the I/O type once: off by at most one unit roundoff. The
second is for plans that round an intermediate."""

ATTENTION_ROUNDINGS = 0.3
"""Attention kernels round the probabilities to the I/O type before they multiply by V, where values of either sign then
cancel: results move by a share of the unit roundoff of the *largest* value, not of their own. With a causal mask the
first rows are single values of V and the last ones averages of thousands, so the largest is up to a hundred times the
rms. Seen on an H200: 0.17 of it at most (bf16 and fp16, 128 to 8192 keys, head dims 64 and 128); emulated with
probabilities normalized before they are rounded: 0.27."""

UNFUSED_ROUNDINGS = 6.0
"""What each further operation of an unfused walk may add: it rounds a value that can be six times the rms before a
sum cancels it."""

ACCUMULATION = 8.0 * 2.0**-22
"""Per square root of the number of products summed in float32. Tensor cores keep two bits less than float32 while they
add; 8 is what the largest of many elements needs over the rms."""


@dataclass(frozen=True)
class Scale:
    """How large a reference is: rms and largest magnitude of its finite elements. Neither is ever 0: where the
    reference is all zeros, any error is too large."""

    rms: float
    peak: float


def scale_of(tensor: TensorSpec, want: Any) -> Scale:
    """The scale of an output's reference."""
    total, count, peak = 0.0, 0, 0.0
    flat = _in_memory_order(want)
    for start in range(0, flat.numel(), CHUNK):
        part = flat[start : start + CHUNK].double()
        finite = torch.isfinite(part)
        part = part.masked_fill(~finite, 0.0).abs_()
        peak = max(peak, float(part.amax()))
        total += float(part.square_().sum())
        count += int(finite.sum())
    smallest = float(torch.finfo(getattr(torch, tensor.dtype.torch_name)).tiny)
    return Scale(max((total / count) ** 0.5 if count else 0.0, smallest), max(peak, smallest))


def tolerance(spec: GraphSpec, scale: Scale, *, unfused: bool = False) -> float:
    """The ``max_rel`` that passes for an output whose reference has this scale. It follows the graph's I/O type, for an
    output of another type too: an amax in float32 is taken over rounded values.

    ``unfused``: for a walk that rounds to the I/O type after every operation, as torch eager does.
    """
    attention = sum(isinstance(operation, Attention) for operation in spec.operations)
    roundings = RESULT_ROUNDINGS * (1 + attention) + ATTENTION_ROUNDINGS * attention * scale.peak / scale.rms
    if unfused:
        roundings += UNFUSED_ROUNDINGS * (len(spec.operations) - 1)
    operands = TF32_OPERANDS if spec.io_dtype is DataType.FP32 else 0.0
    terms = max(summed_terms(spec, operation) for operation in spec.operations)
    return float(roundings * spec.io_dtype.epsilon / 2 + operands + ACCUMULATION * terms**0.5)


def compare(tensor: TensorSpec, got: Any, want: Any, scale: Scale, allowed: float) -> OutputAccuracy:
    """One output against its reference (wide type, the tensor's strides) of that scale. ``got`` may have strides and a
    type of its own."""
    dtype = getattr(torch, tensor.dtype.torch_name)
    if got.stride() != want.stride() or got.dtype != dtype:
        got = empty(tensor, dtype, got.device).copy_(got)
    got, want = _in_memory_order(got), _in_memory_order(want)
    totals = [torch.zeros((), dtype=torch.int64, device=got.device) for _ in range(3)]
    worst = [torch.zeros((), dtype=torch.float64, device=got.device) for _ in range(2)]
    for start in range(0, tensor.elements, CHUNK):
        part, target = got[start : start + CHUNK], want[start : start + CHUNK]
        unwritten = bits(tensor.dtype, part) == POISON[tensor.dtype]
        # What overflows the output's type is not finite in a right result either.
        expected_finite = torch.isfinite(target.to(dtype))
        finite = torch.isfinite(part)
        both = finite & expected_finite
        error = (part.double() - target.double()).abs_().masked_fill_(~both, 0.0)
        relative = error / target.abs().double().clamp_(min=scale.rms).masked_fill_(~both, 1.0)
        for total, mask in zip(totals, (unwritten, expected_finite & ~finite & ~unwritten, both), strict=True):
            total += mask.sum()
        for so_far, values in zip(worst, (error, relative), strict=True):
            torch.maximum(so_far, values.amax(), out=so_far)
    comparable = int(totals[2]) > 0
    return OutputAccuracy(
        name=tensor.name,
        max_abs=float(worst[0]) if comparable else None,
        max_rel=float(worst[1]) if comparable else None,
        unwritten=int(totals[0]),
        nonfinite=int(totals[1]),
        elements=tensor.elements,
        tolerance=allowed,
    )


def explain(outputs: tuple[OutputAccuracy, ...]) -> str:
    """What is wrong with the outputs that do not pass, in a sentence each; "" when all do."""
    return " ".join(_complaint(output) for output in outputs if not output.passed)


def _complaint(output: OutputAccuracy) -> str:
    parts = []
    if output.unwritten:
        parts.append(f"{output.unwritten:,} of {output.elements:,} elements were never written")
    if output.nonfinite:
        parts.append(f"{output.nonfinite:,} elements are NaN or Inf where the reference is finite")
    if output.max_rel is None:
        parts.append("no element can be compared")
    elif output.max_rel > output.tolerance:
        parts.append(f"the largest relative error is {output.max_rel:.3g}, allowed are {output.tolerance:.3g}")
    return f"{output.name}: {'; '.join(parts)}."


def _in_memory_order(tensor: Any) -> Any:
    """All elements as one row in the order they lie in memory, without a copy where the tensor has no gaps."""
    order = sorted(range(tensor.ndim), key=lambda axis: -tensor.stride(axis))
    return tensor.permute(order).reshape(-1)
