"""Seeded data: deterministic, the same in every layout, normal, and scaled so that outputs are of order one."""

from __future__ import annotations

import pytest
import torch

from engine.graph.pipelines import pipeline
from engine.graph.tensors import Role
from engine.measure import data as data_module
from engine.measure.data import draw, draw_inputs, input_scales, standard_normal
from engine.measure.reference import reference
from engine.records.options import DataKind


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
    monkeypatch.setattr(data_module, "CHUNK", 10)
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


@pytest.mark.parametrize("data", DataKind)
def test_every_kind_is_the_same_in_chunks_and_in_every_layout(data, small, monkeypatch):
    nhwc, nchw = (draw_inputs(small("conv_bias_relu", layout=layout), 3, "cpu", data) for layout in ("nhwc", "nchw"))
    monkeypatch.setattr(data_module, "CHUNK", 13)
    chunked = draw_inputs(small("conv_bias_relu", layout="nchw"), 3, "cpu", data)
    for uid, values in nhwc.items():
        assert torch.equal(values, nchw[uid])
        assert torch.equal(values, chunked[uid])


def test_uniform_data_is_uniform_with_the_variance_of_normal_data(small):
    (tensor, *_) = small("matmul", b=1, m=500, k=400, dtype="fp32").with_role(Role.INPUT)
    values = draw(tensor, 1, 1.0, "cpu", DataKind.UNIFORM).double().flatten().sort().values
    limit = 3**0.5
    assert -limit <= float(values[0]) < -0.999 * limit
    assert 0.999 * limit < float(values[-1]) <= limit
    expected = torch.linspace(-limit, limit, values.numel(), dtype=torch.float64)
    assert float((values - expected).abs().max()) / (2 * limit) < 1.63 / values.numel() ** 0.5  # Kolmogorov, 1 %
    assert float(values.square().mean()) == pytest.approx(1.0, rel=0.01)


def test_positive_data_is_normal_data_without_signs(small):
    spec = small("matmul")
    normal, positive = draw_inputs(spec, 4, "cpu"), draw_inputs(spec, 4, "cpu", DataKind.POSITIVE)
    assert torch.equal(positive[1], normal[1].abs())
    assert (positive[2] >= 0).all()


@pytest.mark.parametrize("data", [DataKind.UNIFORM, DataKind.POSITIVE])
def test_outputs_of_every_kind_are_of_order_one(name, data, small, cpu_buffers):
    bigger = {"c": 64} if name.startswith("conv") else {"k": 512} if name.startswith("matmul") else {}
    for spec in (small(name), small(name, **bigger)):
        made = cpu_buffers(spec, data=data)
        for tensor in spec.outputs:
            rms = reference(spec, made.values, torch.float64)[tensor.uid].square().mean().sqrt()
            assert 0.2 < rms < 8, tensor.name


def test_positive_weights_stay_where_fp16_has_all_its_bits(small):
    scales = input_scales(small("matmul", k=1 << 20), DataKind.POSITIVE)
    assert scales[2] == 2.0**-10
    assert input_scales(small("matmul", k=64), DataKind.POSITIVE)[2] == pytest.approx(torch.pi / 128)


def scores_of(spec, inputs):
    q, k = (inputs[spec.operations[0].inputs[port]].double() for port in ("q", "k"))
    return q @ k.transpose(-1, -2) * spec.operations[0].scale


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize(("shift", "head_dim"), [(-123.0, 64), (-123.0, 8), (50.0, 128), (-10_000.0, 128)])
def test_a_shift_moves_every_score_alike(shift, head_dim, dtype, small):
    """What the type rounds of it is the same for all: softmax does not see it."""
    spec = small("sdpa", dtype=dtype, hkv=4, d=head_dim)
    plain, shifted = draw_inputs(spec, 2, "cpu"), draw_inputs(spec, 2, "cpu", score_shift=shift)
    assert all(torch.isfinite(values).all() for values in shifted.values())
    channels = head_dim // 8
    for uid in (1, 2):
        assert torch.equal(shifted[uid][..., channels:], plain[uid][..., channels:])
    assert torch.equal(shifted[3], plain[3])
    q, k = (plain[uid].clone() for uid in (1, 2))
    q[..., :channels] = k[..., :channels] = 0
    moved = scores_of(spec, shifted) - scores_of(spec, {1: q, 2: k})
    assert float(moved.mean()) == pytest.approx(shift, rel=2.0**-8)
    assert float(moved.max() - moved.min()) < abs(shift) * 1e-9
    assert float(scores_of(spec, shifted).std()) > 0.5  # the rest of the channels still tells keys apart


def test_no_attention_no_shift(small):
    spec = small("matmul")
    plain, shifted = draw_inputs(spec, 2, "cpu"), draw_inputs(spec, 2, "cpu", score_shift=-5.0)
    assert all(torch.equal(plain[uid], shifted[uid]) for uid in plain)
    zero = small("sdpa", scale=0.0)
    assert torch.equal(draw_inputs(zero, 2, "cpu", score_shift=-5.0)[1], draw_inputs(zero, 2, "cpu")[1])
