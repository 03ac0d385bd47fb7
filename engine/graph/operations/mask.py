"""A mask over attention scores, added to them: what an attention is cut into needs it as an operation of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.graph.errors import invalid
from engine.graph.operations.base import Dims, Operation
from engine.graph.tensors import TensorSpec


class Mask(Operation):
    """``x`` (..., SQ, SKV) plus ``hidden`` (1, SQ, SKV), which is 0 where query i sees key j (j <= i, aligned top-left)
    and minus infinity elsewhere. A program makes ``hidden`` once and keeps it: it is a constant input, read each time.
    """

    input_ports = ("x", "hidden")
    input_rank = 3
    constant_ports = ("hidden",)

    kind: Literal["mask"] = "mask"

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        x, hidden = inputs["x"].dims, inputs["hidden"].dims
        if hidden != (1, *x[1:]):
            raise invalid("", hidden, f"a mask of dims {hidden} does not fit scores {x}.", f"Use {(1, *x[1:])}.")
        return {"out": x}

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {"out": graph.add(a=tensors["x"], b=tensors["hidden"], name=self.name)}

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return self.eager(torch, tensors)

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {"out": torch.add(tensors["x"], tensors["hidden"])}

    def fill(self, torch: Any, port: str, tensor: Any) -> None:
        later = torch.ones(tensor.shape[-2:], dtype=torch.bool, device=tensor.device).triu(1)
        tensor.zero_().masked_fill_(later, float("-inf"))

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        return outputs["out"].elements

    def label(self) -> str:
        return "mask"
