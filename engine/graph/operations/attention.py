"""Scaled dot-product attention, forward, for inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.graph.errors import invalid
from engine.graph.operations.base import Dims, Fresh, Operation, Part, seen_as, tiles
from engine.graph.operations.mask import Mask
from engine.graph.operations.matmul import Matmul
from engine.graph.operations.pointwise import Binary
from engine.graph.operations.softmax import Softmax
from engine.graph.tensors import DataType, Role, TensorSpec, packed_strides


class Attention(Operation):
    """q (B, HQ, SQ, D), k and v (B, HKV, SKV, D) give (B, HQ, SQ, D).

    With ``causal``, query i sees keys 0..i (aligned top-left, as torch's ``is_causal``). HQ must be a multiple of HKV.
    """

    input_ports = ("q", "k", "v")
    input_rank = 4
    contracts = True

    kind: Literal["attention"] = "attention"
    scale: float
    causal: bool

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        q, k = inputs["q"].dims, inputs["k"].dims
        if q[1] % k[1]:
            raise invalid(
                "hkv",
                k[1],
                f"hq = {q[1]} query heads cannot be shared evenly among {k[1]} key/value heads.",
                "Use an hkv that divides hq, or an hq that is a multiple of hkv.",
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

    def parts(self, tensors: Mapping[str, TensorSpec], fresh: Fresh) -> tuple[Part, ...]:
        """Matmul, scale, mask where causal, softmax, matmul.

        Query heads that share a key/value head lie one after the other, so they are more rows of one product: matrices
        are batched over the key/value heads. Only for tensors without gaps that fit together; others stay whole.
        """
        q, k, v, out = (tensors[port] for port in ("q", "k", "v", "out"))
        fits = k.dims == v.dims and (q.dims[0], q.dims[3]) == (k.dims[0], k.dims[3])
        if not fits or any(t.strides != packed_strides(t.dims) for t in (q, k, v, out)):
            return super().parts(tensors, fresh)
        (b, hq, sq, d), (_, hkv, skv, _) = q.dims, k.dims
        batch, rows = b * hkv, hq // hkv * sq
        keys = seen_as(k, (batch, d, skv), (d * skv, 1, d))
        scores, per_head = (batch, rows, skv), (b * hq, sq, skv)

        def between(name: str, dims: Dims) -> TensorSpec:
            strides, dtype = packed_strides(dims), DataType.FP32
            return TensorSpec(
                uid=fresh(), name=f"{self.name}.{name}", dims=dims, strides=strides, dtype=dtype, role=Role.VIRTUAL
            )

        def part(kind: type[Operation], name: str, given: dict[str, TensorSpec], made: TensorSpec, **how: Any) -> Part:
            uids = {port: tensor.uid for port, tensor in given.items()}
            operation = kind(name=f"{self.name}.{name}", inputs=uids, outputs={"out": made.uid}, **how)
            return Part(operation, (*given.values(), made))

        products, scaled = between("scores", scores), between("scaled", scores)
        factor = TensorSpec(
            uid=fresh(),
            name=f"{self.name}.factor",
            dims=(1, 1, 1),
            strides=(1, 1, 1),
            dtype=DataType.FP32,
            role=Role.SCALAR,
            value=self.scale,
        )
        parts = [
            part(Matmul, "qk", {"a": seen_as(q, (batch, rows, d)), "b": keys}, products),
            part(Binary, "scale", {"x": products, "operand": factor}, scaled, mode="mul"),
        ]
        last = scaled
        if self.causal:
            last = between("masked", per_head)
            hidden = between("hidden", (1, sq, skv)).model_copy(update={"role": Role.INPUT, "dtype": q.dtype})
            parts.append(part(Mask, "mask", {"x": seen_as(scaled, per_head), "hidden": hidden}, last))
        weights = between("weights", per_head)
        parts.append(part(Softmax, "softmax", {"x": seen_as(last, per_head)}, weights))
        given = {"a": seen_as(weights, scores), "b": seen_as(v, (batch, skv, d))}
        parts.append(part(Matmul, "pv", given, seen_as(out, (batch, rows, d))))
        return tuple(parts)

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        """Both matrix products; with a causal mask only the pairs that are seen."""
        batch, heads, sq, d = inputs["q"].dims
        skv = inputs["k"].dims[2]
        ramp = min(sq, skv)
        seen = ramp * (ramp + 1) // 2 + (sq - ramp) * skv if self.causal else sq * skv
        return 2 * batch * heads * seen * (d + inputs["v"].dims[3])

    def label(self) -> str:
        return "causal attention" if self.causal else "attention"
