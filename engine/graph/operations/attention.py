"""Scaled dot-product attention, forward, for inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.graph.errors import invalid
from engine.graph.operations.base import Dims, Operation, tiles
from engine.graph.tensors import TensorSpec


class Attention(Operation):
    """q (B, HQ, SQ, D), k and v (B, HKV, SKV, D) give (B, HQ, SQ, D).

    With ``causal``, query i sees keys 0..i (aligned top-left, as torch's ``is_causal``). HQ must be a multiple of HKV.
    """

    input_ports = ("q", "k", "v")
    input_rank = 4

    kind: Literal["attention"] = "attention"
    scale: float
    causal: bool

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        q, k = inputs["q"].dims, inputs["k"].dims
        if q[1] % k[1]:
            raise invalid(
                "hkv",
                k[1],
                f"the {q[1]} query heads cannot be shared evenly among {k[1]} key/value heads.",
                "Use an hkv that divides hq.",
            )
        return {"out": q}

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        out, _ = graph.sdpa(
            name=self.name,
            q=tensors["q"],
            k=tensors["k"],
            v=tensors["v"],
            is_inference=True,
            attn_scale=self.scale,
            use_causal_mask=self.causal,
        )
        return {"out": out}

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """softmax(scale q k^T) v, written out, a few heads at a time."""
        q, k, v = tensors["q"], tensors["k"], tensors["v"]
        batch, heads, sq = q.shape[:3]
        group, skv = heads // k.shape[1], k.shape[2]
        hidden = torch.ones((sq, skv), dtype=torch.bool, device=q.device).triu(1) if self.causal else None
        out = q.new_empty((batch, heads, sq, v.shape[3]))
        for b in range(batch):
            for part in tiles(heads, 3 * sq * skv * q.element_size()):
                shared = torch.arange(part.start, part.stop, device=q.device) // group
                scores = torch.matmul(q[b, part], k[b, shared].transpose(-1, -2)) * self.scale
                if hidden is not None:
                    scores = scores.masked_fill(hidden, float("-inf"))
                out[b, part] = torch.matmul(torch.softmax(scores, dim=-1), v[b, shared])
        return {"out": out}

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        q, k, v = tensors["q"], tensors["k"], tensors["v"]
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, scale=self.scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        return {"out": out}

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        """Both matrix products; with a causal mask only the pairs that are seen."""
        batch, heads, sq, d = inputs["q"].dims
        skv = inputs["k"].dims[2]
        ramp = min(sq, skv)
        seen = ramp * (ramp + 1) // 2 + (sq - ramp) * skv if self.causal else sq * skv
        return 2 * batch * heads * seen * (d + inputs["v"].dims[3])

    def label(self) -> str:
        return "causal attention" if self.causal else "attention"
