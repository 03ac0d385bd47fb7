"""Reduction of a whole tensor to one number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.graph.operations.base import Dims, Operation
from engine.graph.tensors import TensorSpec


class Reduction(Operation):
    """The largest magnitude of a tensor (AMAX), as quantization needs it."""

    input_ports = ("x",)

    kind: Literal["reduction"] = "reduction"
    mode: Literal["amax"] = "amax"

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        return {"out": (1,) * len(inputs["x"].dims)}

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        out = graph.reduction(
            input=tensors["x"], mode=cudnn.reduction_mode.AMAX, compute_data_type=cudnn.data_type.FLOAT, name=self.name
        )
        return {"out": out}

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return self.eager(torch, tensors)

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        x = tensors["x"]
        return {"out": x.abs().amax().reshape((1,) * x.ndim)}

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        return inputs["x"].elements

    def label(self) -> str:
        return self.mode
