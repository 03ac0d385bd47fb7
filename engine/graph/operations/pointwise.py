"""Element-by-element operations: scaling, bias and activations."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from engine.graph.errors import invalid
from engine.graph.operations.base import Dims, Fresh, Operation, Part, seen_as
from engine.graph.tensors import TensorSpec, packed_strides


class Activation(StrEnum):
    """An activation a pipeline offers. ``gelu`` is the exact one (erf), ``gelu_tanh`` its tanh approximation."""

    NONE = "none"
    RELU = "relu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    SWISH = "swish"


class Binary(Operation):
    """``x`` with an operand that broadcasts onto it: ``mul`` (scale) or ``add`` (bias)."""

    input_ports = ("x", "operand")

    kind: Literal["binary"] = "binary"
    mode: Literal["mul", "add"]

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        x, operand = inputs["x"].dims, inputs["operand"].dims
        if len(x) != len(operand) or any(o not in (1, d) for d, o in zip(x, operand, strict=False)):
            raise invalid(
                "", operand, f"an operand of dims {operand} does not broadcast onto {x}.", "Use 1 or the same size."
            )
        return {"out": x}

    def parts(self, tensors: Mapping[str, TensorSpec], fresh: Fresh) -> tuple[Part, ...]:
        """Itself, over one matrix of all rows where a row of ``operand`` is for every row of a batch: alone in a graph,
        cuDNN 9.19 reads such an operand past its end from the second matrix on (seen on an H200 with dims (1, 1, n)
        onto (b, m, n), all plans; fused behind a matmul it does not)."""
        x, operand, out = tensors["x"], tensors["operand"], tensors["out"]
        is_row = len(x.dims) == 3 and x.dims[0] > 1 and operand.elements == operand.dims[-1] > 1
        if not is_row or any(t.strides != packed_strides(t.dims) for t in (x, out)):
            return super().parts(tensors, fresh)
        dims = (1, x.dims[0] * x.dims[1], x.dims[2])
        return (Part(self, (seen_as(x, dims), operand, seen_as(out, dims))),)

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        if self.mode == "mul":
            return {"out": graph.mul(a=tensors["x"], b=tensors["operand"], name=self.name)}
        return {"out": graph.bias(input=tensors["x"], bias=tensors["operand"], name=self.name)}

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return self.eager(torch, tensors)

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        act = torch.mul if self.mode == "mul" else torch.add
        return {"out": act(tensors["x"], tensors["operand"])}

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        return outputs["out"].elements

    def label(self) -> str:
        return "scale" if self.mode == "mul" else "bias"


class Unary(Operation):
    """An activation."""

    input_ports = ("x",)

    kind: Literal["unary"] = "unary"
    mode: Literal["relu", "gelu", "gelu_tanh", "swish"]

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        return {"out": inputs["x"].dims}

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        method = {"gelu_tanh": "gelu_approx_tanh"}.get(self.mode, self.mode)
        return {"out": getattr(graph, method)(input=tensors["x"], name=self.name)}

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return self.eager(torch, tensors)

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        x, functional = tensors["x"], torch.nn.functional
        if self.mode == "relu":
            return {"out": functional.relu(x)}
        if self.mode == "swish":
            return {"out": functional.silu(x)}
        return {"out": functional.gelu(x, approximate="tanh" if self.mode == "gelu_tanh" else "none")}

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        """One per element: transcendental functions run on other units and are not counted against the matrix rate."""
        return outputs["out"].elements

    def label(self) -> str:
        return self.mode
