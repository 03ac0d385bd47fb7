"""Seeded data: deterministic, the same in every layout, normal, and scaled so that outputs are of order one."""

from __future__ import annotations

import torch

from engine.graph.pipelines import pipeline
from engine.graph.tensors import Role
from engine.measure import data
from engine.measure.data import draw, input_scales, standard_normal
from engine.measure.reference import reference


def test_the_first_numbers_of_a_key_are_these_on_every_machine():
    # By hand from the published SplitMix64: seed 0 gives 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F.
    words = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    expected = []
    for word in words:
        uniform = torch.tensor(((word >> 32) + 0.5) / 2**32, dtype=torch.float64)
        angle = torch.tensor((word & 0xFFFFFFFF) / 2**32 * 2 * torch.pi, dtype=torch.float64)
        expected.append(torch.sqrt(-2 * torch.log(uniform)) * torch.cos(angle))
    torch.testing.assert_close(standard_normal(0, 0, 3, "cpu"), torch.stack(expected), rtol=1e-14, atol=0)


def test_the_sequence_is_standard_normal():
    values = standard_normal(12345, 0, 1 << 20, "cpu")
    assert abs(values.mean()) < 4 / 1024
    assert abs(values.std() - 1) < 4 / 1024
    assert abs((values**3).mean()) < 0.02
    assert abs((values**4).mean() - 3) < 0.06
    assert 4 < values.abs().max() < 6.7
    neighbours = (values[:-1] * values[1:]).mean()
    assert abs(neighbours) < 4 / 1024


def test_chunks_make_no_difference(monkeypatch):
    tensor = pipeline("matmul").graph({"b": 1, "m": 7, "k": 11}).by_uid[1]
    whole = draw(tensor, 5, 1.0, "cpu")
    monkeypatch.setattr(data, "CHUNK", 10)
    assert torch.equal(draw(tensor, 5, 1.0, "cpu"), whole)


def test_seeds_and_tensors_differ_and_repeat(small, cpu_buffers):
    spec = small("matmul", m=32, n=32, k=24)  # A and B of the same dims
    one, again, other = cpu_buffers(spec, 3), cpu_buffers(spec, 3), cpu_buffers(spec, 4)
    for uid in one.inputs:
        assert torch.equal(one.inputs[uid], again.inputs[uid])
        assert not torch.equal(one.inputs[uid], other.inputs[uid])
    assert abs(torch.corrcoef(torch.stack([t.double().flatten()[:2000] for t in one.inputs.values()]))[0, 1]) < 0.1


def test_layouts_hold_the_same_numbers(small, cpu_buffers):
    nhwc, nchw = (cpu_buffers(small("conv_bias_relu", layout=layout)) for layout in ("nhwc", "nchw"))
    for uid, tensor in nhwc.inputs.items():
        assert torch.equal(tensor, nchw.inputs[uid])
    assert nhwc.inputs[1].stride() != nchw.inputs[1].stride()


def test_outputs_are_of_order_one_whatever_the_sizes(name, small, cpu_buffers):
    bigger = {"c": 64} if name.startswith("conv") else {"k": 512} if name.startswith("matmul") else {}
    for spec in (small(name), small(name, **bigger)):
        made = cpu_buffers(spec)
        for tensor in spec.outputs:
            rms = reference(spec, made.values, torch.float64)[tensor.uid].square().mean().sqrt()
            assert 0.2 < rms < 8, tensor.name


def test_weights_make_up_for_alpha_so_that_the_product_counts(small):
    scales = {alpha: input_scales(small("matmul_epilogue", alpha=alpha)) for alpha in (0.125, 1, 0, 1e6)}
    assert scales[0.125][2] == 8 * scales[1][2] == 8 * 32**-0.5
    assert scales[1e6][2] == scales[1][2] / 64  # bounded: fp16 has to hold it
    assert scales[0][2] == scales[1][2] * 64
    assert all(s[1] == s[3] == 1.0 for s in scales.values())
    assert set(scales[1]) == {t.uid for t in small("matmul_epilogue").with_role(Role.INPUT)}
