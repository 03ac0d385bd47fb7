"""The reference of every pipeline, on the buffers a plan gets, against formulas written independently."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from engine.measure.baselines.eager import eager
from engine.measure.reference import reference, reference_bytes


def expected(name, spec, values):
    """The pipeline's formula in float64, from torch's own functions or from indices."""
    by_name = {t.name: values[t.uid] for t in spec.real if t.uid in values}
    wide = {n: v.double() if isinstance(v, torch.Tensor) else v for n, v in by_name.items()}
    if name.startswith("conv"):
        conv = spec.operations[0]
        bias = wide["bias"].flatten() if "bias" in wide else None
        out = functional.conv2d(wide["X"], wide["W"], bias, conv.stride, conv.padding, conv.dilation)
        return {"Y": out.clamp(min=0)}
    if name == "matmul":
        return {"C": torch.einsum("bmk,bkn->bmn", wide["A"], wide["B"])}
    if name == "matmul_epilogue":
        x = wide["alpha"] * torch.einsum("bmk,bkn->bmn", wide["A"], wide["B"]) + wide["bias"]
        out = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        return {"C": out, "amax": out.abs().max().reshape(1, 1, 1)}
    q, k, v = wide["Q"], wide["K"], wide["V"]
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            shared = h // (q.shape[1] // k.shape[1])
            for i in range(q.shape[2]):
                seen = min(i + 1, k.shape[2])
                scores = torch.stack([torch.dot(q[b, h, i], k[b, shared, j]) for j in range(seen)]) / math.sqrt(
                    q.shape[3]
                )
                weights = torch.exp(scores) / torch.exp(scores).sum()
                out[b, h, i] = sum(weights[j] * v[b, shared, j] for j in range(seen))
    return {"O": out}


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_the_reference_is_the_formula(name, dtype, small, cpu_buffers):
    spec = small(name, dtype=dtype)
    values = cpu_buffers(spec, seed=11).values
    wanted = expected(name, spec, values)
    for wide, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        found = reference(spec, values, wide)
        assert {spec.by_uid[uid].name for uid in found} == set(wanted)
        for uid, value in found.items():
            tensor = spec.by_uid[uid]
            assert value.dtype is wide
            assert value.stride() == tensor.strides
            torch.testing.assert_close(value.double(), wanted[tensor.name], rtol=tolerance, atol=tolerance)


def test_the_reference_ignores_a_precision_the_process_was_set_to(small, cpu_buffers):
    spec = small("matmul", dtype="fp32")
    torch.set_float32_matmul_precision("medium")
    try:
        reference(spec, cpu_buffers(spec).values, torch.float32)
        assert torch.get_float32_matmul_precision() == "medium"  # put back
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_eager_runs_in_the_io_type(name, dtype, small, cpu_buffers):
    spec = small(name, dtype=dtype)
    found = eager(spec, cpu_buffers(spec).values)()
    assert set(found) == {t.uid for t in spec.outputs}
    for value in found.values():
        assert value.dtype is getattr(torch, spec.io_dtype.torch_name)


def test_memory_is_estimated_from_every_tensor_of_the_walk(small):
    spec = small("matmul")
    a, b, c = 3 * 16 * 32, 3 * 32 * 24, 3 * 16 * 24
    narrow, wide = reference_bytes(spec, torch.float32), reference_bytes(spec, torch.float64)
    assert wide - narrow == 4 * (a + b + c + c)
