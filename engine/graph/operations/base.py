"""The contract every operation kind fulfils: its six faces, in one class.

1. ``infer``: which inputs are legal and what dims come out; 2. ``lower``: how it goes onto a ``cudnn.pygraph``;
3. ``reference``: its value in float64 or float32; 4. ``eager``: as torch runs it in its own type; 5. ``flops``: what it
costs; 6. ``label``: how it is called for people. ``torch`` and ``cudnn`` are always arguments, never imports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel

from engine.graph.tensors import FROZEN, TensorSpec, packed_strides

Dims = tuple[int, ...]
Fresh = Callable[[], int]
"""Gives a uid that no tensor has yet."""


class Operation(BaseModel, ABC):
    """One node of an operation graph.

    ``inputs`` and ``outputs`` map a port (the operation's own word, such as "image") to a tensor uid. The torch and
    cudnn
    faces get and give the same ports: ``Mapping[port, tensor]`` in, ``dict[port, tensor]`` out.
    """

    model_config = FROZEN

    input_ports: ClassVar[tuple[str, ...]]
    output_ports: ClassVar[tuple[str, ...]] = ("out",)
    input_rank: ClassVar[int | None] = None
    """How many dims every input has; None where any number will do."""
    contracts: ClassVar[bool] = False
    """Whether it sums products, as a convolution does: such an operation is a graph's main work."""
    constant_ports: ClassVar[tuple[str, ...]] = ()
    """Inputs whose values follow from the operation alone, whatever the data: ``fill`` writes them."""

    kind: str
    name: str
    inputs: dict[str, int]
    outputs: dict[str, int]

    @abstractmethod
    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        """Dims of every output port; raises ``InvalidInput`` naming what to change when the inputs do not fit."""

    @abstractmethod
    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Add the operation to ``graph`` (a ``cudnn.pygraph``) and return its output tensors."""

    @abstractmethod
    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Value in the (wide) type of the given tensors, by elementary torch operations that do not call cuDNN."""

    @abstractmethod
    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """What a person would call in torch, in the type of the given tensors."""

    @abstractmethod
    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        """Floating-point operations, a multiply-add counted as two."""

    @abstractmethod
    def label(self) -> str:
        """A few words for a node of the drawing."""

    def parts(self, tensors: Mapping[str, TensorSpec], fresh: Fresh) -> tuple[Part, ...]:
        """The smaller operations it stands for, in the order they run; itself alone where it declares none.

        ``tensors``: by port, inputs and outputs. What the parts make between them gets ``fresh`` uids; they may see
        given tensors under other dims and strides, over the same memory.
        """
        return (Part(self, tuple(tensors.values())),)

    def fill(self, torch: Any, port: str, tensor: Any) -> None:
        """Write the values of a constant input into ``tensor``, which has its dims."""
        raise ValueError(f"{self.kind} has no constant input {port}")

    def attributes(self) -> dict[str, Any]:
        """What distinguishes this operation besides its tensors, as plain values."""
        return self.model_dump(mode="json", exclude={"kind", "name", "inputs", "outputs"})


@dataclass(frozen=True)
class Part:
    """One operation of a decomposition, and the tensors it touches as it sees them."""

    operation: Operation
    tensors: tuple[TensorSpec, ...]


def seen_as(tensor: TensorSpec, dims: Dims, strides: Dims | None = None) -> TensorSpec:
    """The same memory under other dims; without gaps unless strides are given."""
    return tensor.model_copy(update={"dims": dims, "strides": strides or packed_strides(dims)})


def tiles(total: int, bytes_each: int, budget_bytes: int = 1 << 30) -> list[slice]:
    """Cut ``total`` items into slices whose intermediates stay under ``budget_bytes`` (at least one item each)."""
    step = max(1, budget_bytes // max(1, bytes_each))
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]
