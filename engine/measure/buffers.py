"""The memory a plan runs on: inputs with seeded data, poisoned outputs, host scalars and workspace."""

from __future__ import annotations

from typing import Any

import torch

from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType, Role, TensorSpec
from engine.measure.data import draw_inputs
from engine.records.options import DataKind

POISON = {DataType.BF16: 0x7FDA, DataType.FP16: 0x7E5A, DataType.FP32: 0x7FC05A5A}
"""Bits of a quiet NaN with a payload of our own, by type: arithmetic gives NaNs with other payloads (0x7FFF, 0x7FFFFFFF
on NVIDIA GPUs, 0x7FC0... on CPUs), so an element that was never written can be told from one computed as NaN."""

WORKSPACE_BYTES = 1 << 20
"""What there is from the start: enough for most plans."""

_BITS = {DataType.BF16: torch.int16, DataType.FP16: torch.int16, DataType.FP32: torch.int32}


class Buffers:
    """Everything a variant pack holds for one graph. Scalars are float32 tensors of the host, as cuDNN reads them."""

    def __init__(
        self, spec: GraphSpec, seed: int, device: Any, data: DataKind = DataKind.NORMAL, score_shift: float = 0.0
    ) -> None:
        self.spec = spec
        self.device = torch.device(device)
        self.inputs = draw_inputs(spec, seed, self.device, data, score_shift)
        self.outputs = {t.uid: empty(t, getattr(torch, t.dtype.torch_name), self.device) for t in spec.outputs}
        self.scalars = {t.uid: torch.full(t.dims, t.value, dtype=torch.float32) for t in spec.with_role(Role.SCALAR)}
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=self.device)
        self.poison()

    @property
    def pack(self) -> dict[int, Any]:
        """What ``execute`` takes: every real tensor by uid."""
        return {**self.inputs, **self.scalars, **self.outputs}

    @property
    def values(self) -> dict[int, Any]:
        """Inputs, and scalars as Python numbers (rounded to float32, as a plan reads them): what a walk of the graph in
        torch starts from. A number does not promote the type of the tensor it meets, a float32 tensor would."""
        return {**self.inputs, **{uid: float(scalar.flatten()[0]) for uid, scalar in self.scalars.items()}}

    def poison(self) -> None:
        """Fill outputs with the poison, and the workspace with bits that read as NaN in every type: a plan may rely on
        neither."""
        for tensor in self.spec.outputs:
            bits(tensor.dtype, self.outputs[tensor.uid]).fill_(POISON[tensor.dtype])
        self._workspace.fill_(0xFF)

    @property
    def workspace(self) -> Any:
        """What all plans share to work in; it has at least one byte."""
        return self._workspace

    def resize_workspace(self, nbytes: int) -> Any:
        """A workspace of so many bytes in place of the one there is, which is given back first. Raises
        torch.OutOfMemoryError; then there is a smallest one."""
        self._workspace = torch.empty(1, dtype=torch.uint8, device=self.device)
        self._workspace = torch.empty(max(nbytes, 1), dtype=torch.uint8, device=self.device)
        return self._workspace.fill_(0xFF)


def empty(tensor: TensorSpec, dtype: Any, device: Any) -> Any:
    """Memory of a tensor's dims and strides in a torch type, with nothing in it."""
    return torch.empty_strided(tensor.dims, tensor.strides, dtype=dtype, device=device)


def bits(dtype: DataType, tensor: Any) -> Any:
    """The same memory as integers, to write or compare NaNs by their bits."""
    return tensor.view(_BITS[dtype])


def required_bytes(spec: GraphSpec) -> int:
    """Device memory of inputs and outputs; drawing an input in another order than its strides needs it twice for a
    moment."""
    return sum(t.nbytes for t in spec.real) + max((t.nbytes for t in spec.with_role(Role.INPUT)), default=0)
