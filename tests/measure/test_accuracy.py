"""Comparison with the reference: right results pass, and each way of being wrong is caught and named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.graph.tensors import DataType
from engine.measure import accuracy
from engine.measure.accuracy import Scale, compare, explain, scale_of, tolerance
from engine.measure.baselines.eager import eager
from engine.measure.buffers import POISON, bits
from engine.measure.reference import reference
from engine.records.options import DataKind


@pytest.fixture
def results(cpu_buffers):
    """Makes (spec, outputs rounded once from the reference, reference) of a graph."""

    def make(spec):
        made = cpu_buffers(spec, seed=2)
        wanted = reference(spec, made.values, torch.float64)
        for uid, output in made.outputs.items():
            output.copy_(wanted[uid])
        return made.outputs, wanted

    return make


def verdict(spec, tensor, got, wanted, **how):
    scale = scale_of(tensor, wanted)
    return compare(tensor, got, wanted, scale, tolerance(spec, scale, **how))


def judge(spec, got, wanted):
    before = {uid: value.clone() for uid, value in wanted.items()}
    outcomes = tuple(verdict(spec, t, got[t.uid], wanted[t.uid]) for t in spec.outputs)
    assert all(torch.equal(value, before[uid]) for uid, value in wanted.items()), "comparing changed the reference"
    return outcomes


@pytest.mark.parametrize("dtype", DataType)
def test_a_result_rounded_once_passes_with_half_an_epsilon(name, dtype, small, results):
    spec = small(name, dtype=dtype)
    for outcome in judge(spec, *results(spec)):
        assert outcome.passed, explain((outcome,))
        assert 0 <= outcome.max_rel <= dtype.epsilon / 2
        assert outcome.elements == next(t.elements for t in spec.outputs if t.name == outcome.name)
    assert explain(judge(spec, *results(spec))) == ""


@pytest.mark.parametrize("dtype", DataType)
def test_one_wrong_element_fails_in_every_output(name, dtype, small, results):
    spec = small(name, dtype=dtype)
    for tensor in spec.outputs:
        got, wanted = results(spec)
        largest = int(got[tensor.uid].reshape(-1).float().abs().argmax())
        index = torch.unravel_index(torch.tensor(largest), tensor.dims)
        got[tensor.uid][index] *= 1.25
        outcomes = {o.name: o for o in judge(spec, got, wanted)}
        assert not outcomes[tensor.name].passed
        assert outcomes[tensor.name].max_rel == pytest.approx(0.25, rel=0.05)
        assert tensor.name in explain(tuple(outcomes.values()))
        assert "relative error" in explain(tuple(outcomes.values()))


def test_the_errors_are_those_of_the_record_s_definition(small, results):
    spec = small("matmul")
    got, wanted = results(spec)
    (tensor,) = spec.outputs
    got[tensor.uid] += torch.randn(tensor.dims).to(torch.bfloat16) * 0.1
    (outcome,) = judge(spec, got, wanted)
    error = (got[tensor.uid].double() - wanted[tensor.uid]).abs()
    rms = wanted[tensor.uid].square().mean().sqrt()
    assert outcome.max_abs == pytest.approx(float(error.max()), rel=1e-12)
    assert outcome.max_rel == pytest.approx(float((error / wanted[tensor.uid].abs().clamp(min=rms)).max()), rel=1e-12)


@pytest.mark.parametrize("dtype", DataType)
def test_unwritten_elements_are_told_from_computed_nans(dtype, small, results):
    spec = small("conv_bias_relu", dtype=dtype)  # an output whose memory order is not that of its dims
    got, wanted = results(spec)
    (uid,) = got
    bits(dtype, got[uid])[1, 2:5, 0, 0] = POISON[dtype]
    got[uid][0, 0, 0, :2] = float("nan")
    got[uid][0, 1, 1, 1] = float("-inf")
    (outcome,) = judge(spec, got, wanted)
    assert (outcome.unwritten, outcome.nonfinite) == (3, 3)
    assert outcome.max_rel <= dtype.epsilon / 2  # the finite ones are right
    assert not outcome.passed
    assert "3 of" in explain((outcome,))
    assert "never written" in explain((outcome,))
    assert "NaN or Inf" in explain((outcome,))


def test_nothing_written_leaves_nothing_to_compare(small, results, cpu_buffers):
    spec = small("matmul_epilogue")
    _, wanted = results(spec)
    for outcome in judge(spec, cpu_buffers(spec).outputs, wanted):
        assert outcome.unwritten == outcome.elements
        assert (outcome.max_abs, outcome.max_rel, outcome.nonfinite) == (None, None, 0)
        assert not outcome.passed


def test_overflow_of_the_output_type_is_no_error(small, results):
    spec = small("matmul", dtype="fp16")
    got, wanted = results(spec)
    (uid,) = got
    wanted[uid][0, 0, 0] = 1e6
    got[uid][0, 0, 0] = float("inf")
    (outcome,) = judge(spec, got, wanted)
    assert outcome.passed
    got[uid][0, 0, 1] = float("inf")
    assert judge(spec, got, wanted)[0].nonfinite == 1


def test_a_reference_of_zeros_lets_only_zeros_pass(small, results):
    spec = small("matmul")
    got, wanted = results(spec)
    (uid,) = got
    wanted[uid].zero_()
    got[uid].zero_()
    assert judge(spec, got, wanted)[0].passed
    got[uid][0, 0, 0] = 1e-3
    assert not judge(spec, got, wanted)[0].passed


def test_chunks_make_no_difference(name, small, results, monkeypatch):
    spec = small(name)
    got, wanted = results(spec)
    whole = judge(spec, got, wanted)
    monkeypatch.setattr(accuracy, "CHUNK", 7)
    for one, other in zip(whole, judge(spec, got, wanted), strict=True):
        for rounded in ("max_rel", "rel_norm"):
            assert getattr(other, rounded) == pytest.approx(getattr(one, rounded), rel=1e-9)
        same = {"max_rel": 0.0, "rel_norm": 0.0}
        assert one.model_copy(update=same) == other.model_copy(update=same)


@pytest.mark.parametrize("dtype", DataType)
def test_torch_s_unfused_walk_is_within_the_tolerance_for_unfused_walks(name, dtype, small, cpu_buffers):
    spec = small(name, dtype=dtype)
    made = cpu_buffers(spec, seed=5)
    wanted = reference(spec, made.values, torch.float64)
    got = eager(spec, made.values)()
    assert explain(tuple(verdict(spec, t, got[t.uid], wanted[t.uid], unfused=True) for t in spec.outputs)) == ""


def test_tolerances_follow_type_length_and_operation(small):
    normal, steep = Scale(rms=1.0, peak=5.0), Scale(rms=0.05, peak=5.0)
    assert tolerance(small("matmul"), normal) == pytest.approx(2.0**-7, rel=0.01)
    assert tolerance(small("matmul", dtype="fp16"), normal) == pytest.approx(2.0**-10, rel=0.02)
    # TF32: far above what float32 arithmetic would need, and below what bf16 operands would give.
    assert 2.0**-11 < tolerance(small("matmul", dtype="fp32"), normal) < 2.0**-7
    assert tolerance(small("matmul", k=1 << 20), normal) > tolerance(small("matmul"), normal)
    assert tolerance(small("matmul"), steep) == tolerance(small("matmul"), normal)
    assert tolerance(small("sdpa"), normal) == pytest.approx((4 + 1.5) * 2.0**-8, rel=0.01)
    assert tolerance(small("sdpa"), steep) == pytest.approx((4 + 30) * 2.0**-8, rel=0.01)
    shifted = tolerance(small("sdpa"), steep, score_shift=-123.0) - tolerance(small("sdpa"), steep)
    assert shifted == pytest.approx(123 * 2.0**-20 * 100)
    assert tolerance(small("matmul"), steep, score_shift=-123.0) == tolerance(small("matmul"), steep)
    epilogue = small("matmul_epilogue")
    assert tolerance(epilogue, normal, unfused=True) == pytest.approx(tolerance(epilogue, normal) + 24 * 2.0**-8)


@pytest.mark.parametrize("dtype", DataType)
def test_the_passport_is_that_of_the_record_s_definition(dtype, small, results):
    """Against numpy's own spacing, in its types; bf16 is float32 without its last 16 bits."""
    spec = small("conv_relu", dtype=dtype, layout="nhwc")
    got, wanted = results(spec)
    (tensor,), (uid,) = spec.outputs, got
    got[uid] += (torch.randn(tensor.dims) * 0.01).to(got[uid].dtype)
    (outcome,) = judge(spec, got, wanted)
    want, error = wanted[uid].numpy(), (got[uid].double() - wanted[uid]).abs().numpy()
    numpy_type = np.float16 if dtype is DataType.FP16 else np.float32
    size = np.maximum(np.abs(want), np.sqrt(np.square(want).mean()))
    spacing = np.spacing(size.astype(numpy_type)).astype(float) * (2**16 if dtype is DataType.BF16 else 1)
    # Where a value rounds up to a power of two, the spacing is that above.
    spacing = np.minimum(spacing, 2.0 ** np.floor(np.log2(size)) * dtype.epsilon)
    assert outcome.max_ulp == pytest.approx(float((error / spacing).max()), rel=1e-12)
    assert outcome.rel_norm == pytest.approx(float(np.linalg.norm(error) / np.linalg.norm(want)), rel=1e-12)
    assert (outcome.nan, outcome.inf, outcome.reference_dtype) == (0, 0, "float64")


def test_a_result_rounded_once_is_off_by_half_a_spacing(name, small, results):
    for dtype in DataType:
        spec = small(name, dtype=dtype)
        for outcome, tensor in zip(judge(spec, *results(spec)), spec.outputs, strict=True):
            assert outcome.max_ulp <= 0.5
            assert 0 <= outcome.rel_norm <= tensor.dtype.epsilon / 2


def test_a_small_value_where_a_relu_gives_0_is_a_small_error_in_spacings(small, results):
    """Right but for the rounding of a sum that cancels: 1e33 spacings of the values next to 0, a thousandth of one of
    those that the sum is made of."""
    spec = small("conv_relu", dtype="bf16")
    got, wanted = results(spec)
    (uid,) = got
    rms = float(wanted[uid].square().mean().sqrt())
    cut = wanted[uid] == 0
    assert cut.any()
    before = judge(spec, got, wanted)[0].max_ulp
    got[uid][cut] = rms * 2.0**-18
    after = judge(spec, got, wanted)[0]
    assert before == after.max_ulp <= 0.5 and after.passed
    got[uid][cut] = rms
    assert 2.0**7 <= judge(spec, got, wanted)[0].max_ulp <= 2.0**8


def test_what_is_not_finite_is_counted_by_kind(small, results):
    spec = small("matmul", dtype="fp16")
    got, wanted = results(spec)
    (uid,) = got
    got[uid][0, 0, :4] = torch.tensor([float("nan"), float("inf"), float("-inf"), float("nan")])
    wanted[uid][0, 0, 1] = 1e6  # overflows in a right result too
    bits(DataType.FP16, got[uid])[1, 1, 1] = POISON[DataType.FP16]
    (outcome,) = judge(spec, got, wanted)
    assert (outcome.nan, outcome.inf, outcome.nonfinite, outcome.unwritten) == (2, 2, 3, 1)


def test_a_reference_in_float32_says_so(small, results):
    spec = small("matmul")
    got, wanted = results(spec)
    (outcome,) = judge(spec, got, {uid: value.float() for uid, value in wanted.items()})
    assert outcome.reference_dtype == "float32"
    assert outcome.passed


def test_the_scale_leaves_out_what_is_not_finite(small):
    (tensor,) = small("matmul").outputs
    want = torch.zeros(tensor.dims, dtype=torch.float64)
    assert scale_of(tensor, want).rms == scale_of(tensor, want).peak == torch.finfo(torch.bfloat16).tiny
    want[0, 0, :4] = torch.tensor([3.0, -4.0, float("inf"), float("nan")])
    assert scale_of(tensor, want).peak == 4
    assert scale_of(tensor, want).rms == pytest.approx((25 / (want.numel() - 2)) ** 0.5)


def test_tf32_operands_pass_and_bf16_operands_do_not(cpu_buffers, small):
    """The tolerance of float32 lets TF32 through (10 bits, cut) and catches a plan that would use bf16 (7 bits)."""
    spec = small("matmul", dtype="fp32", m=256, n=256, k=256)
    made = cpu_buffers(spec)
    wanted = reference(spec, made.values, torch.float64)
    (uid,) = wanted
    for kept_bits, passes in ((10, True), (7, False)):
        cut = {u: (v.view(torch.int32) & -(1 << (23 - kept_bits))).view(torch.float32) for u, v in made.inputs.items()}
        got = reference(spec, cut, torch.float64)[uid].float()
        assert verdict(spec, spec.outputs[0], got, wanted[uid]).passed is passes


def cut(values, kept_bits):
    """Float64 without the bits of its mantissa beyond so many: cut, not rounded."""
    return (values.contiguous().view(torch.int64) & -(1 << (53 - kept_bits))).view(torch.float64)


def tensor_core(a, b, step):
    """The matrix product as a tensor core might sum it at worst: so many products at a time, added to a sum of 22 bits
    that is cut after each."""
    total = torch.zeros((*a.shape[:-1], b.shape[-1]), dtype=torch.float64)
    for start in range(0, a.shape[-1], step):
        part = slice(start, start + step)
        total = cut(total + a[..., part].double() @ b[..., part, :].double(), 22)
    return total


@pytest.mark.parametrize("data", DataKind)
@pytest.mark.parametrize("dtype", DataType)
@pytest.mark.parametrize("terms", [256, 16_384])
def test_sums_that_lose_at_every_step_pass_whatever_the_data(terms, dtype, data, cpu_buffers, small):
    spec = small("matmul", dtype=dtype, b=1, m=16, n=16, k=terms)
    made = cpu_buffers(spec, seed=3, data=data)
    wanted = reference(spec, made.values, torch.float64)[3]
    a, b, step = made.inputs[1], made.inputs[2], 16
    if dtype is DataType.FP32:
        a, b, step = cut(a.double(), 11), cut(b.double(), 11), 8  # TF32
    right = tensor_core(a, b, step)
    outcome = verdict(spec, spec.outputs[0], right.to(getattr(torch, dtype.torch_name)), wanted)
    assert outcome.passed, explain((outcome,))
    missing = right - (a[..., :1].double() @ b[..., :1, :].double())  # one product of all left out
    large = missing if terms < 1000 else right * (1 + 3 * outcome.tolerance)
    assert not verdict(spec, spec.outputs[0], large.to(getattr(torch, dtype.torch_name)), wanted).passed


def flash_attention(spec, values, dtype, normalize_first):
    """Scores summed by tensor cores, probabilities in float32 rounded to the type, before or after they are
    normalized."""
    attention, kind = spec.operations[0], getattr(torch, dtype.torch_name)
    q, k, v = (values[uid] for uid in (1, 2, 3))
    scores = tensor_core(q, k.transpose(-1, -2), 16).float() * attention.scale
    if attention.causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    total = weights.sum(-1, keepdim=True)
    if normalize_first:
        return tensor_core((weights / total).to(kind), v, 16).to(kind)
    return (tensor_core(weights.to(kind), v, 16) / total).to(kind)


@pytest.mark.parametrize("dtype", [DataType.BF16, DataType.FP16])
@pytest.mark.parametrize(
    ("data", "shift"),
    [
        (DataKind.NORMAL, -123.0),
        (DataKind.UNIFORM, 0.0),
        (DataKind.UNIFORM, -123.0),
        (DataKind.POSITIVE, 0.0),
        (DataKind.POSITIVE, 123.0),
        (DataKind.NORMAL, -9000.0),
    ],
)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_passes_whatever_the_data_and_the_shift(causal, data, shift, dtype, cpu_buffers, small):
    sizes = {"b": 1, "hq": 1, "hkv": 1, "sq": 256, "skv": 256, "d": 64}
    spec = small("sdpa", dtype=dtype, causal=causal, **sizes)
    made = cpu_buffers(spec, seed=5, data=data, score_shift=shift)
    wanted = reference(spec, made.values, torch.float64)[4]
    for normalize_first in (True, False):
        result = flash_attention(spec, made.values, dtype, normalize_first)
        outcome = verdict(spec, spec.outputs[0], result, wanted, score_shift=shift)
        assert outcome.passed, explain((outcome,))
    result[0, 0, 5, 5] = float("nan")
    result[0, 0, 7, 7] *= 1.5
    outcome = verdict(spec, spec.outputs[0], result, wanted, score_shift=shift)
    assert (outcome.nan, outcome.nonfinite) == (1, 1)
    assert not outcome.passed


@pytest.mark.parametrize("keys", [128, 1024])
def test_rounded_probabilities_pass_in_attention(keys, cpu_buffers, small):
    """Emulated kernels: probabilities rounded to bf16 before the second product, as flash attention does, before and
    after they are normalized. Without the mask, or with the wrong scale, the result does not pass."""
    spec = small("sdpa", b=1, hq=2, hkv=2, sq=keys, skv=keys, d=64)
    made = cpu_buffers(spec)
    q, k, v = (made.inputs[uid].double() for uid in (1, 2, 3))
    hidden = torch.ones(keys, keys, dtype=torch.bool).triu(1)
    scores = q @ k.transpose(-1, -2) * 64**-0.5
    masked = scores.masked_fill(hidden, float("-inf"))
    weights = torch.exp(masked - masked.amax(-1, keepdim=True))
    total = weights.sum(-1, keepdim=True)
    wanted = reference(spec, made.values, torch.float64)[4]
    right = ((weights.bfloat16().double() @ v) / total, (weights / total).bfloat16().double() @ v)
    wrong = (torch.softmax(scores, -1) @ v, torch.softmax(masked * 1.1, -1) @ v)
    for results, passes in ((right, True), (wrong, False)):
        for result in results:
            assert verdict(spec, spec.outputs[0], result.bfloat16(), wanted).passed is passes
