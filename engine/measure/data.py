"""Seeded data that is the same on every GPU, in every layout and with every torch version.

torch's own generators promise none of that (the CUDA one depends on the number of multiprocessors), and drawing on the
CPU takes seconds for large graphs. So element i of a tensor is a function of (seed, uid, i) alone: SplitMix64 (Steele,
Lea and Flood, OOPSLA 2014) hashes the counter, Box and Muller's transform makes a standard normal of the hash. i counts
in the order of the dims, whatever the strides, so NHWC and NCHW runs of one seed see the same numbers.
"""

from __future__ import annotations

from typing import Any

import torch

from engine.graph.operations import Attention, Binary, Convolution, Matmul
from engine.graph.operations.base import Operation
from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role, TensorSpec
from engine.records.options import DataKind, shift_channels

CHUNK = 1 << 24
"""Elements drawn at a time: the intermediates are 64 bits wide and stay under a gigabyte."""

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_COMPENSATION_LIMIT = 64.0
_LEAST_POSITIVE_SCALE = 2.0**-10
"""Magnitudes of weights stay mostly above fp16's smallest normal value, 2^-14."""


def draw_inputs(
    spec: GraphSpec, seed: int, device: Any, data: DataKind = DataKind.NORMAL, score_shift: float = 0.0
) -> dict[int, Any]:
    """The data of every input, by uid. ``score_shift`` is added to the scores of every attention whose q and k are
    inputs (within what their type can hold of it: see check_options)."""
    scales = input_scales(spec, data)
    inputs = {t.uid: draw(t, seed, scales[t.uid], device, data) for t in spec.with_role(Role.INPUT)}
    for operation in spec.operations:
        if score_shift and isinstance(operation, Attention) and operation.scale:
            shift_scores(inputs[operation.inputs["q"]], inputs[operation.inputs["k"]], operation.scale, score_shift)
    return inputs


def draw(tensor: TensorSpec, seed: int, scale: float, device: Any, data: DataKind = DataKind.NORMAL) -> Any:
    """The data of an input, with standard deviation ``scale`` (of a positive one: before its sign was taken away), in
    the tensor's type and strides."""
    dtype = getattr(torch, tensor.dtype.torch_name)
    flat = torch.empty(tensor.elements, dtype=dtype, device=device)
    key = _mix(_mix(seed) ^ tensor.uid)
    for start in range(0, tensor.elements, CHUNK):
        stop = min(start + CHUNK, tensor.elements)
        flat[start:stop] = _standard(data, key, start, stop, device).mul_(scale)
    logical = flat.view(tensor.dims)
    if logical.stride() == tensor.strides:
        return logical
    return torch.empty_strided(tensor.dims, tensor.strides, dtype=dtype, device=device).copy_(logical)


def standard_normal(key: int, start: int, stop: int, device: Any) -> Any:
    """Elements ``start`` to ``stop`` of the sequence of this key, float64."""
    state = _hashed(key, start, stop, device)
    radius = _shifted(state, 32).double().add_(0.5).mul_(2.0**-32).log_().mul_(-2.0).sqrt_()
    angle = state.bitwise_and_(0xFFFFFFFF).double().mul_(2.0**-32 * 2.0 * torch.pi)
    return radius.mul_(angle.cos_())


def standard_uniform(key: int, start: int, stop: int, device: Any) -> Any:
    """The same, uniform around 0 and of variance 1: between plus and minus the square root of 3."""
    high = _shifted(_hashed(key, start, stop, device), 11).double().add_(0.5).mul_(2.0**-52).sub_(1.0)
    return high.mul_(3.0**0.5)


def shift_scores(q: Any, k: Any, scale: float, shift: float) -> None:
    """Add ``shift`` to every score, in place. One channel in eight of k becomes 1 for every key, and of q what sums to
    the shift over these: the way a model's outlier channels do it, and what made kernels return NaN (cudnn-frontend
    issue 1072)."""
    channels = shift_channels(q.shape[-1])
    q[..., :channels] = shift / (scale * channels)
    k[..., :channels] = 1.0


def input_scales(spec: GraphSpec, data: DataKind = DataKind.NORMAL) -> dict[int, float]:
    """Standard deviation of each input, by uid, such that outputs are of order one whatever the sizes.

    Weights (a filter, the B of a matmul) shrink by the square root of the number of products summed, or by that number
    where all are positive and their sum grows with it; and they make up for a host scalar that multiplies the sum: else
    an alpha of 1/8 would hide a wrong product behind the bias.
    """
    scales = {tensor.uid: 1.0 for tensor in spec.with_role(Role.INPUT)}
    for operation in spec.operations:
        port = {"convolution": "weight", "matmul": "b"}.get(operation.kind)
        if port is not None and (weight := operation.inputs[port]) in scales:
            terms = summed_terms(spec, operation)
            # The mean product of two magnitudes of standard normals is 2/pi.
            positive = max(torch.pi / 2 / terms, _LEAST_POSITIVE_SCALE)
            shrunk = positive if data is DataKind.POSITIVE else terms**-0.5
            scales[weight] = shrunk / _scalar_factor(spec, operation.outputs["out"])
    return scales


def summed_terms(spec: GraphSpec, operation: Operation) -> int:
    """How many products one element of the operation's result is a sum of; 1 where it sums none."""
    if isinstance(operation, Convolution):
        weight = spec.by_uid[operation.inputs["weight"]]
        return weight.elements // weight.dims[0]
    if isinstance(operation, Matmul):
        return spec.by_uid[operation.inputs["b"]].dims[-2]
    if isinstance(operation, Attention):
        return spec.by_uid[operation.inputs["k"]].dims[-2]
    return 1


def _scalar_factor(spec: GraphSpec, uid: int) -> float:
    """The magnitude by which host scalars multiply this tensor on its way out, within what fp16 inputs can make up
    for."""
    factor = 1.0
    for operation in spec.operations:
        if isinstance(operation, Binary) and operation.mode == "mul" and operation.inputs["x"] == uid:
            value = spec.by_uid[operation.inputs["operand"]].value
            if value is not None:
                factor *= abs(value)
                uid = operation.outputs["out"]
    return min(max(factor, 1 / _COMPENSATION_LIMIT), _COMPENSATION_LIMIT)


def _standard(data: DataKind, key: int, start: int, stop: int, device: Any) -> Any:
    if data is DataKind.UNIFORM:
        return standard_uniform(key, start, stop, device)
    values = standard_normal(key, start, stop, device)
    return values.abs_() if data is DataKind.POSITIVE else values


def _hashed(key: int, start: int, stop: int, device: Any) -> Any:
    """SplitMix64 of the places ``start`` to ``stop``, 64 bits each."""
    state = (
        torch.arange(start + 1, stop + 1, dtype=torch.int64, device=device).mul_(_signed(_GOLDEN)).add_(_signed(key))
    )
    for shift, factor in _MIX:
        state.bitwise_xor_(_shifted(state, shift)).mul_(_signed(factor))
    return state.bitwise_xor_(_shifted(state, 31))


def _mix(value: int) -> int:
    """SplitMix64's output function over a Python integer."""
    state = (value + _GOLDEN) & _MASK
    for shift, factor in _MIX:
        state = (state ^ (state >> shift)) * factor & _MASK
    return state ^ (state >> 31)


def _signed(value: int) -> int:
    """The same 64 bits as a signed integer, for torch multiplies modulo 2^64 in int64 only."""
    return value - (1 << 64) if value >> 63 else value


def _shifted(state: Any, bits: int) -> Any:
    """Logical right shift: torch's shift of int64 keeps the sign."""
    return (state >> bits).bitwise_and_((1 << (64 - bits)) - 1)
