"""Batched matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.graph.errors import invalid
from engine.graph.operations.base import Dims, Operation, tiles
from engine.graph.tensors import TensorSpec


class Matmul(Operation):
    """A (B, M, K) times B (B, K, N) gives (B, M, N)."""

    input_ports = ("a", "b")
    input_rank = 3
    contracts = True

    kind: Literal["matmul"] = "matmul"

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        a, b = inputs["a"].dims, inputs["b"].dims
        if a[0] != b[0] or a[2] != b[1]:
            raise invalid(
                "k", a[2], f"A is {a} and B is {b}: they share no batch or inner size.", "Make batch and k equal."
            )
        return {"out": (a[0], a[1], b[2])}

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        out = graph.matmul(A=tensors["a"], B=tensors["b"], compute_data_type=cudnn.data_type.FLOAT, name=self.name)
        return {"out": out}

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        a, b = tensors["a"], tensors["b"]
        out = a.new_empty((a.shape[0], a.shape[1], b.shape[2]))
        for part in tiles(a.shape[0], (a[0].numel() + b[0].numel() + out[0].numel()) * a.element_size()):
            out[part] = torch.matmul(a[part], b[part])
        return {"out": out}

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {"out": torch.matmul(tensors["a"], tensors["b"])}

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        return 2 * outputs["out"].elements * inputs["a"].dims[2]

    def label(self) -> str:
        return "matmul"
