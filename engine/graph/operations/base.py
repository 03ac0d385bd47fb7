"""The contract every operation kind fulfils: its six faces, in one class.

1. ``infer``: which inputs are legal and what dims come out; 2. ``lower``: how it goes onto a ``cudnn.pygraph``;
3. ``reference``: its value in float64 or float32; 4. ``eager``: as torch runs it in its own type; 5. ``flops``: what it
costs; 6. ``label``: how it is called for people. ``torch`` and ``cudnn`` are always arguments, never imports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from engine.graph.tensors import FROZEN, TensorSpec

Dims = tuple[int, ...]


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

    def attributes(self) -> dict[str, Any]:
        """What distinguishes this operation besides its tensors, as plain values."""
        return self.model_dump(mode="json", exclude={"kind", "name", "inputs", "outputs"})


def tiles(total: int, bytes_each: int, budget_bytes: int = 1 << 30) -> list[slice]:
    """Cut ``total`` items into slices whose intermediates stay under ``budget_bytes`` (at least one item each)."""
    step = max(1, budget_bytes // max(1, bytes_each))
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]
