"""Bits that differ between runs are counted once per element, whatever they read as."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine.graph.tensors import DataType
from engine.measure import bitwise
from engine.measure.bitwise import BitComparison


@pytest.fixture(params=[1 << 26, 7], autouse=True)
def chunk(request, monkeypatch):
    monkeypatch.setattr(bitwise, "CHUNK", request.param)


@pytest.mark.parametrize("dtype", DataType)
def test_runs_that_agree_are_bitwise(name, dtype, small, cpu_buffers):
    spec = small(name, dtype=dtype)
    made = cpu_buffers(spec)  # poisoned: NaNs that equal nothing, and the same bits all the same
    comparison = BitComparison(spec.outputs)
    for _ in range(10):
        comparison.take(made.outputs)
    found = comparison.result()
    assert found.bitwise
    assert (found.runs, found.elements) == (10, sum(tensor.elements for tensor in spec.outputs))


def test_an_element_counts_once_however_often_it_differs(small, cpu_buffers):
    spec = small("conv_bias_relu")  # an output whose memory order is not that of its dims
    (output,) = (made := cpu_buffers(spec)).outputs.values()
    comparison = BitComparison(spec.outputs)
    output.zero_()
    comparison.take(made.outputs)
    for value in (1.0, 2.0, 0.0):
        output[0, 3, 2, 1] = value
        comparison.take(made.outputs)
    output[1, 0, 0, 0] = -0.0  # equal, and other bits
    output[1, 15, 4, 3] = 1e-3
    comparison.take(made.outputs)
    assert (comparison.result().differing, comparison.result().bitwise) == (3, False)


def test_all_outputs_are_compared(small, cpu_buffers):
    spec = small("matmul_epilogue")
    made = cpu_buffers(spec)
    comparison = BitComparison(spec.outputs)
    comparison.take(made.outputs)
    for output in made.outputs.values():
        output.zero_()
    comparison.take(made.outputs)
    found = comparison.result()
    assert found.differing == found.elements


def test_one_run_says_nothing(small, cpu_buffers):
    spec = small("matmul")
    comparison = BitComparison(spec.outputs)
    comparison.take(cpu_buffers(spec).outputs)
    with pytest.raises(ValidationError):
        comparison.result()
