"""The ways torch runs a graph: operation by operation, as one writes it, compiled, with one attention backend alone.

All walk one GraphSpec; none knows which pipeline it came from. Values are inputs as tensors and scalars as numbers, by
uid; each call gives the outputs by uid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.graph.cutting import Cut
from engine.graph.idioms import calls, run_calls
from engine.graph.spec import GraphSpec
from engine.measure.buffers import empty
from engine.records.fusion import VersionKind

Run = Callable[[], dict[int, Any]]

COMPILE_MODES = {VersionKind.COMPILED: None, VersionKind.AUTOTUNED: "max-autotune-no-cudagraphs"}
"""Without CUDA graphs of torch's own: every version's hot time is taken from a CUDA graph made here."""
BACKENDS = {
    VersionKind.FLASH: SDPBackend.FLASH_ATTENTION,
    VersionKind.EFFICIENT: SDPBackend.EFFICIENT_ATTENTION,
    VersionKind.CUDNN: SDPBackend.CUDNN_ATTENTION,
    VersionKind.MATH: SDPBackend.MATH,
}


_NUMBERS = count()


def constants(made: Cut, device: Any) -> dict[int, Any]:
    """The inputs that only the pieces have, made once, by uid."""
    found = {}
    for tensor, operation, port in made.constants:
        found[tensor.uid] = empty(tensor, getattr(torch, tensor.dtype.torch_name), device)
        operation.fill(torch, port, found[tensor.uid])
    return found


def operation_by_operation(made: Cut, values: Mapping[int, Any]) -> Run:
    """Every piece by its own eager face, with what it makes rounded to the I/O type. ``values`` with constants."""

    def run() -> dict[int, Any]:
        with torch.inference_mode():
            known = made.walk(values, lambda operation, tensors: operation.eager(torch, tensors))
        return {tensor.uid: known[tensor.uid] for tensor in made.graph.outputs}

    return run


def idiomatic(spec: GraphSpec, values: Mapping[int, Any]) -> Run:
    """With torch's own calls for several operations at once."""
    steps = calls(spec)

    def run() -> dict[int, Any]:
        with torch.inference_mode():
            known = run_calls(torch, steps, values)
        return {tensor.uid: known[tensor.uid] for tensor in spec.outputs}

    return run


def compiled(spec: GraphSpec, values: Mapping[int, Any], mode: str | None = None, backend: str = "inductor") -> Run:
    """That by torch.compile, whole or not at all (a graph break raises). The first call compiles."""
    steps = calls(spec)
    uids = tuple(uid for uid, value in values.items() if isinstance(value, torch.Tensor))
    numbers = {uid: value for uid, value in values.items() if uid not in uids}

    def walk(*tensors: Any) -> tuple[Any, ...]:
        known = run_calls(torch, steps, {**numbers, **dict(zip(uids, tensors, strict=True))})
        return tuple(known[tensor.uid] for tensor in spec.outputs)

    # torch keeps what it compiled by code object, for few shapes each: versions must not share one.
    walk.__code__ = walk.__code__.replace(co_name=f"walk_{next(_NUMBERS)}")
    made = torch.compile(walk, mode=mode, backend=backend, fullgraph=True, dynamic=False)
    given = tuple(values[uid] for uid in uids)

    def run() -> dict[int, Any]:
        with torch.no_grad():
            results = made(*given)
        return {tensor.uid: value for tensor, value in zip(spec.outputs, results, strict=True)}

    return run


def with_backend(spec: GraphSpec, values: Mapping[int, Any], kind: VersionKind) -> Run:
    """As one writes it, attention by one backend alone; raises a RuntimeError when called where that one cannot."""
    run = idiomatic(spec, values)

    def restricted() -> dict[int, Any]:
        with sdpa_kernel([BACKENDS[kind]]):
            return run()

    return restricted
