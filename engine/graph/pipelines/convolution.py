"""Convolutions with a fused epilogue."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from engine.graph.operations import Binary, Convolution, Unary
from engine.graph.pipelines.base import Parameters, Pipeline, size
from engine.graph.spec import GraphBuilder, GraphSpec
from engine.graph.tensors import Layout, image_strides


class ConvReluParameters(Parameters):
    """X (n, c, h, w), W (k, c, r, s), the same padding, stride and dilation in both directions."""

    n: int = size(8, "batch")
    c: int = size(64, "input channels")
    h: int = size(32, "image height")
    w: int = size(32, "image width")
    k: int = size(64, "output channels (filters)")
    r: int = size(3, "filter height")
    s: int = size(3, "filter width")
    pad: int = size(1, "padding on each side", ge=0)
    stride: int = size(1, "stride")
    dilation: int = size(1, "dilation")
    layout: Layout = Field(default=Layout.NHWC, title="memory layout")


class ConvBiasReluParameters(ConvReluParameters):
    """As conv_relu, with its own defaults and a bias (1, k, 1, 1)."""

    n: int = size(32, "batch")
    c: int = size(128, "input channels")
    h: int = size(56, "image height")
    w: int = size(56, "image width")
    k: int = size(256, "output channels (filters)")


def build(parameters: ConvReluParameters, *, bias: bool) -> GraphSpec:
    """relu(conv(X, W) [+ bias])."""
    p = parameters
    strides = partial(image_strides, layout=p.layout)
    g = GraphBuilder(p.dtype, strides)
    x = g.input("X", (p.n, p.c, p.h, p.w), strides((p.n, p.c, p.h, p.w)))
    w = g.input("W", (p.k, p.c, p.r, p.s), strides((p.k, p.c, p.r, p.s)))
    out = g.apply(
        Convolution,
        "conv",
        {"image": x, "weight": w},
        padding=(p.pad,) * 2,
        stride=(p.stride,) * 2,
        dilation=(p.dilation,) * 2,
    )
    if bias:
        b = g.input("bias", (1, p.k, 1, 1), strides((1, p.k, 1, 1)))
        out = g.apply(Binary, "bias", {"x": out, "operand": b}, mode="add")
    out = g.apply(Unary, "relu", {"x": out}, mode="relu")
    g.output(out, "Y")
    return g.build()


CONV_BIAS_RELU = Pipeline(
    "conv_bias_relu",
    "Convolution + bias + ReLU",
    "A convolution whose bias and ReLU never touch memory.",
    ConvBiasReluParameters,
    partial(build, bias=True),
)
CONV_RELU = Pipeline(
    "conv_relu",
    "Convolution + ReLU",
    "A convolution with its ReLU in the same kernel.",
    ConvReluParameters,
    partial(build, bias=False),
)
