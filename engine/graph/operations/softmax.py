"""Softmax over the last axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.graph.operations.base import Dims, Operation
from engine.graph.tensors import TensorSpec, packed_strides


class Softmax(Operation):
    """exp(x - max x) over its sum, along the last axis."""

    input_ports = ("x",)

    kind: Literal["softmax"] = "softmax"

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        return {"out": inputs["x"].dims}

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Written out, for the frontend has no such node: the largest value, the difference, its exponential, the sum,
        the quotient."""
        x = tensors["x"]
        shifted = graph.sub(a=x, b=self._reduced(cudnn, graph, x, "MAX"), name=f"{self.name}.shift")
        powers = graph.exp(input=shifted, name=f"{self.name}.exp")
        total = self._reduced(cudnn, graph, powers, "ADD", tuple(x.get_dim()))
        return {"out": graph.div(a=powers, b=total, name=self.name)}

    def _reduced(self, cudnn: Any, graph: Any, x: Any, mode: str, dims: Dims | None = None) -> Any:
        row = (*(dims or tuple(x.get_dim()))[:-1], 1)
        how = getattr(cudnn.reduction_mode, mode)
        out = graph.reduction(input=x, mode=how, compute_data_type=cudnn.data_type.FLOAT, name=f"{self.name}.{mode}")
        out.set_dim(list(row))
        out.set_stride(list(packed_strides(row)))
        return out

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return self.eager(torch, tensors)

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {"out": torch.softmax(tensors["x"], dim=-1)}

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        """Five per element: compare, subtract, raise, add, divide."""
        return 5 * outputs["out"].elements

    def label(self) -> str:
        return "softmax"
