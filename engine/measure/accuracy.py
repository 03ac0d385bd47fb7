"""How far a result is from the reference, and how far it may be."""

from __future__ import annotations

from typing import Any

import torch

from engine.graph.operations import Attention
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType, TensorSpec
from engine.measure.buffers import POISON, bits, empty
from engine.measure.data import summed_terms
from engine.records.plan import OutputAccuracy

CHUNK = 1 << 24
"""Elements compared at a time, so that the float64 copies stay small beside the tensors."""

RESULT_ROUNDINGS = 2.0
"""A fused plan computes in float32 and rounds its result to the I/O type once: off by at most one unit roundoff. The
second is for plans that round an intermediate."""

ATTENTION_ROUNDINGS = 16.0
"""Attention kernels round the probabilities to the I/O type before they multiply by V. Emulated in float64, that moves
results by up to 6 unit roundoffs where the probabilities are not yet normalized, and by 14 where they are (causal, 2048
keys, head dim 128), because values of either sign cancel in the sum."""

UNFUSED_ROUNDINGS = 6.0
"""What each further operation of an unfused walk may add: it rounds a value that can be six times the rms before a
sum cancels it."""

TF32_OPERANDS = 6.0 * 2.0**-10
"""For float32 graphs cuDNN may use TF32, which keeps 10 bits of an operand's mantissa: each product is off by up to
2^-10 when both are cut. Over a sum of independent products that is about 2^-10 of the result's rms; six times that
covers the largest of a billion elements."""

ACCUMULATION = 8.0 * 2.0**-22
"""Per square root of the number of products summed in float32. Tensor cores keep two bits less than float32 while they
add; 8 is what the largest of many elements needs over the rms."""


def tolerance(spec: GraphSpec, *, unfused: bool = False) -> float:
    """The ``max_rel`` that passes, for every output of a graph: an amax of float32 is taken over rounded values too.

    ``unfused``: for a walk that rounds to the I/O type after every operation, as torch eager does.
    """
    roundings = RESULT_ROUNDINGS + sum(ATTENTION_ROUNDINGS for o in spec.operations if isinstance(o, Attention))
    if unfused:
        roundings += UNFUSED_ROUNDINGS * (len(spec.operations) - 1)
    operands = TF32_OPERANDS if spec.io_dtype is DataType.FP32 else 0.0
    terms = max(summed_terms(spec, operation) for operation in spec.operations)
    return float(roundings * spec.io_dtype.epsilon / 2 + operands + ACCUMULATION * terms**0.5)


def compare(tensor: TensorSpec, got: Any, want: Any, allowed: float) -> OutputAccuracy:
    """One output against its reference (wide type, the tensor's strides). ``got`` may have strides of its own."""
    dtype = getattr(torch, tensor.dtype.torch_name)
    if got.stride() != want.stride() or got.dtype != dtype:
        got = empty(tensor, dtype, got.device).copy_(got)
    got, want = _in_memory_order(got), _in_memory_order(want)
    floor = _rms(want, dtype)
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
        relative = error / target.abs().double().clamp_(min=floor).masked_fill_(~both, 1.0)
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


def _rms(want: Any, dtype: Any) -> float:
    """Root mean square of the finite elements, and never 0: where the reference is all zeros, any error is too
    large."""
    total, count = 0.0, 0
    for start in range(0, want.numel(), CHUNK):
        part = want[start : start + CHUNK].double()
        finite = torch.isfinite(part)
        total += float(part.masked_fill(~finite, 0.0).square_().sum())
        count += int(finite.sum())
    return max((total / count) ** 0.5 if count else 0.0, float(torch.finfo(dtype).tiny))
