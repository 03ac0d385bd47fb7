"""What cuDNN refuses, in its own words, with what it takes instead."""

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.planning import plan_graph
from engine.jobs.replies import End
from tests.cudnn.conftest import H200

pytestmark = pytest.mark.cudnn


def test_head_dim_100_is_cudnns_to_refuse_and_the_remedy_is_found_by_asking(bench):
    outcome = bench.plan("sdpa", d="100")
    assert outcome.plans == ()
    assert outcome.refusal.reasons == ("hidden_dim should be multiple of 8",)
    assert (
        outcome.refusal.message == "hidden_dim should be multiple of 8. cuDNN takes d = 96 or 104 or 64 instead of 100."
    )
    for accepted in ("96", "104"):
        assert bench.plan("sdpa", d=accepted, build=False).plans


def test_a_layout_that_no_engine_takes(bench):
    outcome = bench.plan("conv_relu", layout="nchw")
    assert outcome.plans == ()
    assert any("NHWC" in reason for reason in outcome.refusal.reasons)
    assert outcome.refusal.message.endswith("cuDNN takes layout = nhwc instead of nchw.")
    assert not any("finalize" in reason or "isSupported" in reason for reason in outcome.refusal.reasons)


def test_attention_below_its_floor_is_refused_before_any_build_and_the_floor_named(bench, turing):
    """FE 120."""
    outcome = bench.plan("sdpa", turing)
    assert outcome.plans == ()
    assert "SM80" in outcome.refusal.message
    assert "python" not in outcome.refusal.message and "sdpa_fwd" not in " ".join(outcome.refusal.reasons)


def test_bfloat16_below_its_floor_says_so(bench, turing):
    outcome = bench.plan("conv_bias_relu", turing)
    assert outcome.plans == ()
    assert "bfloat16" in " ".join(outcome.refusal.reasons)
    assert "dtype = fp16" in outcome.refusal.message


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("conv_relu", {"c": "3"}),
        ("conv_relu", {"c": "1", "k": "1"}),
        ("conv_bias_relu", {"c": "13", "k": "7"}),
        ("conv_bias_relu", {"layout": "nchw"}),
        ("conv_bias_relu", {"dtype": "fp32", "layout": "nchw"}),
        ("conv_bias_relu", {"n": "1", "h": "1", "w": "1", "r": "1", "s": "1", "pad": "0"}),
        ("conv_relu", {"r": "1", "s": "1", "pad": "0"}),
        ("conv_relu", {"stride": "2", "dilation": "2"}),
        ("conv_relu", {"pad": "5"}),
        ("matmul", {"m": "1"}),
        ("matmul", {"b": "1", "m": "1", "n": "1", "k": "1"}),
        ("matmul", {"k": "511", "n": "255"}),
        ("matmul", {"dtype": "fp16"}),
        ("matmul_epilogue", {"activation": "none", "amax": "off"}),
        ("matmul_epilogue", {"activation": "relu", "amax": "off"}),
        ("matmul_epilogue", {"activation": "gelu_tanh"}),
        ("matmul_epilogue", {"activation": "swish", "dtype": "fp32"}),
        ("matmul_epilogue", {"m": "1", "alpha": "-3"}),
        ("sdpa", {"hq": "32", "hkv": "8"}),
        ("sdpa", {"hq": "6", "hkv": "2", "d": "8"}),
        ("sdpa", {"sq": "1"}),
        ("sdpa", {"sq": "1000", "skv": "777", "causal": "off"}),
        ("sdpa", {"d": "256", "dtype": "fp16"}),
        ("sdpa", {"d": "512"}),
    ],
)
def test_shapes_out_of_the_ordinary_are_planned(bench, name, parameters):
    outcome = bench.plan(name, build=False, **parameters)
    assert outcome.plans and outcome.refusal is None
    assert outcome.plans[0].modes


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("conv_relu", {"c": "1048576", "k": "1048576"}),
        ("conv_bias_relu", {"n": "1048576", "h": "4096", "w": "4096"}),
        ("matmul", {"m": "1048576", "n": "1048576", "k": "1"}),
        ("sdpa", {"sq": "1048576", "skv": "1048576"}),
        ("sdpa", dict.fromkeys(("b", "hq", "hkv", "sq", "skv"), "1048576")),
    ],
)
def test_sizes_beyond_any_gpu_end_in_an_answer(bench, name, parameters):
    """Memory is checked before; should nobody have asked, it is a list or a refusal.

    Over the large convolution the heuristics of 9.28 divide by zero: a mode that takes its process down is told and
    costs no other mode.
    """
    outcome = bench.plan(name, build=False, **parameters)
    assert outcome.plans or outcome.refusal.message
    assert all("gave no answer" in remark and "SIGFPE" in remark for remark in outcome.remarks)
    assert bench.pool.submit("environment", {}).result().end is End.DONE


def test_a_graph_over_which_cudnn_ends_its_own_process_is_refused_with_that(bench):
    spec = pipeline("conv_bias_relu").graph({"n": "1048576", "h": "4096", "w": "4096"})
    outcome = plan_graph(spec, H200, ["A", "B"], pool=bench.pool, blob_dir=bench.folder, build=False)
    if outcome.refusal is not None and outcome.remarks:
        assert "SIGFPE" in outcome.refusal.message
        assert outcome.refusal.reasons[: len(outcome.remarks)] == outcome.remarks
    else:
        assert outcome.plans or outcome.refusal.reasons
        assert bench.version != (9, 28, 1)


def test_more_elements_than_an_index_holds_is_cudnns_to_refuse(bench):
    outcome = bench.plan("conv_relu", c="1048576", k="1048576", build=False)
    if bench.version >= (9, 28):
        assert "INT32_MAX" in outcome.refusal.message and "c = 64" in outcome.refusal.message
