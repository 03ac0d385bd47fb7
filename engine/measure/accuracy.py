"""How far a result is from the reference, and how far it may be."""

from __future__ import annotations

import math
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

_EXPONENT_BITS = 0x7FF << 52
"""Of a float64, IEEE 754."""

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

TRUNCATION = 2.0**-26
"""Per product summed. Tensor cores cut what does not fit while they add, always towards zero, so what is lost adds up:
half of the last of 22 bits of the sum so far, which is half the whole on average, at most every eighth product (TF32;
sixteenth, bf16 and fp16). Above 10,000 products it outweighs the random part. It holds for sums that only grow, as
those of positive data do, as for those that cancel. Emulated, up to 65,536 products: 0.6 of both parts together with
every sixteenth, 1.1 with every eighth, where the allowance for TF32 is larger by far."""

SCORES = 4.0 * 2.0**-22
"""What shifted scores are off by, in shares of the shift: they are sums that pass through the shift's magnitude, in
float32 or in a tensor core's two bits less, and are scaled once more before exp. It turns that into a relative error of
the probabilities, which move results by a share of the largest value, as ATTENTION_ROUNDINGS do. Emulated, shifts of
123 to 9,000: half of all allowances together at most, up to 7.7 times what stands without this one."""


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


def tolerance(spec: GraphSpec, scale: Scale, *, score_shift: float = 0.0, unfused: bool = False) -> float:
    """The ``max_rel`` that passes for an output whose reference has this scale. It follows the graph's I/O type, for an
    output of another type too: an amax in float32 is taken over rounded values.

    The same holds for data of every kind: uniform data has smaller extremes than normal data, and positive data sums
    that grow, to which errors are relative. ``unfused``: for a walk that rounds to the I/O type after every operation,
    as torch eager does.
    """
    attention = sum(isinstance(operation, Attention) for operation in spec.operations)
    roundings = RESULT_ROUNDINGS * (1 + attention) + ATTENTION_ROUNDINGS * attention * scale.peak / scale.rms
    if unfused:
        roundings += UNFUSED_ROUNDINGS * (len(spec.operations) - 1)
    operands = TF32_OPERANDS if spec.io_dtype is DataType.FP32 else 0.0
    terms = max(summed_terms(spec, operation) for operation in spec.operations)
    summing = ACCUMULATION * terms**0.5 + TRUNCATION * terms
    scores = SCORES * abs(score_shift) * attention * scale.peak / scale.rms
    return float(roundings * spec.io_dtype.epsilon / 2 + operands + summing + scores)


def compare(tensor: TensorSpec, got: Any, want: Any, scale: Scale, allowed: float) -> OutputAccuracy:
    """One output against its reference (wide type, the tensor's strides) of that scale. ``got`` may have strides and a
    type of its own."""
    dtype = getattr(torch, tensor.dtype.torch_name)
    if got.stride() != want.stride() or got.dtype != dtype:
        got = empty(tensor, dtype, got.device).copy_(got)
    got, want = _in_memory_order(got), _in_memory_order(want)
    seen = [
        _compared(tensor.dtype, got[start : start + CHUNK], want[start : start + CHUNK], scale)
        for start in range(0, tensor.elements, CHUNK)
    ]
    counts = torch.stack([counts for counts, _, _ in seen]).sum(dim=0).tolist()
    worst = torch.stack([worst for _, worst, _ in seen]).amax(dim=0).tolist()
    squares = torch.stack([squares for _, _, squares in seen]).sum(dim=0).tolist()
    unwritten, nonfinite, nan, inf, compared = counts
    smallest = float(torch.finfo(dtype).tiny) ** 2
    max_abs, max_rel, max_ulp = worst if compared else (None, None, None)
    return OutputAccuracy(
        name=tensor.name,
        max_abs=max_abs,
        max_rel=max_rel,
        rel_norm=math.sqrt(squares[0] / max(squares[1], smallest)) if compared else None,
        max_ulp=max_ulp,
        unwritten=unwritten,
        nonfinite=nonfinite,
        nan=nan,
        inf=inf,
        elements=tensor.elements,
        tolerance=allowed,
        reference_dtype="float64" if want.dtype == torch.float64 else "float32",
    )


def _compared(dtype: DataType, part: Any, target: Any, scale: Scale) -> tuple[Any, Any, Any]:
    """Of one chunk: counts (unwritten, nonfinite, NaN, Inf, compared), worst errors (absolute, relative, in spacings)
    and squares (of the error, of the reference). Still on the device: nothing waits for it here."""
    unwritten = bits(dtype, part) == POISON[dtype]
    # What overflows the output's type is not finite in a right result either.
    expected_finite, finite = torch.isfinite(target.to(part.dtype)), torch.isfinite(part)
    both = finite & expected_finite
    masks = (unwritten, expected_finite & ~finite & ~unwritten, torch.isnan(part) & ~unwritten, torch.isinf(part), both)
    counts = torch.stack([mask.sum() for mask in masks])
    error = (part.double() - target.double()).masked_fill_(~both, 0.0).abs_()
    size = target.double().masked_fill(~both, 0.0).abs_()
    size_or_rms = size.clamp(min=scale.rms)
    worst = [error.amax(), (error / size_or_rms).amax(), (error / _spacing(dtype, size_or_rms)).amax()]
    return counts, torch.stack(worst), torch.stack([error.dot(error), size.dot(size)])


def _spacing(dtype: DataType, size: Any) -> Any:
    """Distance of neighbouring values of the type at these magnitudes (float64, none below the type's smallest normal
    value): the power of two below, which is the magnitude without its mantissa's bits, times the type's epsilon."""
    power = size.view(torch.int64).bitwise_and_(_EXPONENT_BITS).view(torch.float64)
    return power.mul_(dtype.epsilon)


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
