"""Scaled dot-product attention."""

from __future__ import annotations

from pydantic import Field

from engine.graph.operations import Attention
from engine.graph.pipelines.base import Parameters, Pipeline, size
from engine.graph.spec import GraphBuilder, GraphSpec


class SdpaParameters(Parameters):
    """Q (b, hq, sq, d), K and V (b, hkv, skv, d)."""

    b: int = size(4, "batch")
    hq: int = size(16, "query heads")
    hkv: int = size(16, "key/value heads")
    sq: int = size(1024, "query length")
    skv: int = size(1024, "key/value length")
    d: int = size(64, "head dim")
    causal: bool = Field(default=True, title="causal mask")
    scale: float | None = Field(default=None, title="score scale (empty: 1/sqrt(d))", ge=-1e6, le=1e6)


def build(p: SdpaParameters) -> GraphSpec:
    """softmax(scale Q K^T [masked]) V."""
    g = GraphBuilder(p.dtype)
    q, kv = (p.b, p.hq, p.sq, p.d), (p.b, p.hkv, p.skv, p.d)
    ports = {"q": g.input("Q", q), "k": g.input("K", kv), "v": g.input("V", kv)}
    scale = p.d**-0.5 if p.scale is None else p.scale
    g.output(g.apply(Attention, "sdpa", ports, scale=scale, causal=p.causal), "O")
    return g.build()


SDPA = Pipeline(
    "sdpa", "Attention (SDPA)", "Softmax attention in one kernel, as inference runs it.", SdpaParameters, build
)
