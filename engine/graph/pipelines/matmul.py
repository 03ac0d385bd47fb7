"""Batched matrix products, plain and with an epilogue."""

from __future__ import annotations

from pydantic import Field

from engine.graph.operations import Binary, Matmul, Reduction, Unary
from engine.graph.operations.pointwise import Activation
from engine.graph.pipelines.base import Parameters, Pipeline, size
from engine.graph.spec import GraphBuilder, GraphSpec
from engine.graph.tensors import DataType


class MatmulParameters(Parameters):
    """A (b, m, k) times B (b, k, n)."""

    b: int = size(8, "batch")
    m: int = size(256, "rows of A")
    n: int = size(256, "columns of B")
    k: int = size(512, "inner size")


class MatmulEpilogueParameters(MatmulParameters):
    """C = activation(alpha A B + bias), bias (1, 1, n), and the largest |C| where asked for."""

    b: int = size(16, "batch")
    m: int = size(512, "rows of A")
    n: int = size(512, "columns of B")
    k: int = size(1024, "inner size")
    alpha: float = Field(default=0.125, title="scale, passed by value", ge=-1e6, le=1e6)
    activation: Activation = Field(default=Activation.GELU, title="activation")
    amax: bool = Field(default=True, title="AMAX of the result")


def build_matmul(p: MatmulParameters) -> GraphSpec:
    """A B."""
    g = GraphBuilder(p.dtype)
    a, b = g.input("A", (p.b, p.m, p.k)), g.input("B", (p.b, p.k, p.n))
    g.output(g.apply(Matmul, "matmul", {"a": a, "b": b}), "C")
    return g.build()


def build_epilogue(p: MatmulEpilogueParameters) -> GraphSpec:
    """activation(alpha A B + bias) and its AMAX."""
    g = GraphBuilder(p.dtype)
    a, b, bias = g.input("A", (p.b, p.m, p.k)), g.input("B", (p.b, p.k, p.n)), g.input("bias", (1, 1, p.n))
    alpha = g.scalar("alpha", p.alpha, rank=3)
    out = g.apply(Matmul, "matmul", {"a": a, "b": b})
    out = g.apply(Binary, "scale", {"x": out, "operand": alpha}, mode="mul")
    out = g.apply(Binary, "bias", {"x": out, "operand": bias}, mode="add")
    if p.activation is not Activation.NONE:
        out = g.apply(Unary, p.activation.value, {"x": out}, mode=p.activation.value)
    g.output(out, "C")
    if p.amax:
        g.output(g.apply(Reduction, "amax", {"x": out}), "amax", dtype=DataType.FP32)
    return g.build()


MATMUL = Pipeline("matmul", "Matmul", "A batched matrix product.", MatmulParameters, build_matmul)
MATMUL_EPILOGUE = Pipeline(
    "matmul_epilogue",
    "Matmul + scale + bias + activation + AMAX",
    "A matrix product whose whole epilogue, down to the AMAX that quantization needs, runs in one kernel.",
    MatmulEpilogueParameters,
    build_epilogue,
)
