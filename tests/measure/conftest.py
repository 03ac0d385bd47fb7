"""Small graphs of every pipeline and data for them in host memory: what a GPU does to them is checked without one."""

from __future__ import annotations

import pytest

from engine.graph.pipelines import pipeline
from engine.measure.buffers import Buffers

SMALL = {
    "conv_bias_relu": {"n": 2, "c": 8, "h": 9, "w": 8, "k": 16, "stride": 2},
    "conv_relu": {"n": 2, "c": 4, "h": 7, "w": 6, "k": 8, "r": 1, "s": 2, "pad": 0, "layout": "nchw"},
    "matmul": {"b": 3, "m": 16, "n": 24, "k": 32},
    "matmul_epilogue": {"b": 2, "m": 16, "n": 24, "k": 32},
    "sdpa": {"b": 2, "hq": 4, "hkv": 2, "sq": 16, "skv": 12, "d": 8},
}


@pytest.fixture(params=SMALL)
def name(request):
    """A pipeline's name."""
    return request.param


@pytest.fixture
def small():
    """Makes the small graph of a pipeline, with parameters of one's own over it."""

    def make(name, **parameters):
        return pipeline(name).graph({**SMALL[name], **parameters})

    return make


@pytest.fixture
def cpu_buffers():
    """Makes a graph's buffers in host memory."""
    return lambda spec, seed=0, **how: Buffers(spec, seed, "cpu", **how)
