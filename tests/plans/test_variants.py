"""The graphs near a refused one."""

import pytest

from engine.graph.pipelines import CATALOGUE, pipeline
from engine.plans.variants import nearby, with_remedies
from engine.records.run import Refusal


def changes(name, **given):
    return [(v.letter, v.given, v.instead) for v in nearby(pipeline(name), given)]


def test_a_size_out_of_step_comes_first_nearest_first():
    assert changes("sdpa", d=100)[:3] == [("d", "100", "96"), ("d", "100", "104"), ("d", "100", "64")]
    assert changes("sdpa", d=3)[:2] == [("d", "3", "8"), ("d", "3", "64")]


def test_layout_type_and_switches_are_tried():
    found = changes("conv_relu", layout="nchw", dtype="fp32")
    assert {("layout", "nchw", "nhwc"), ("dtype", "fp32", "bf16"), ("dtype", "fp32", "fp16")} <= set(found)
    assert ("causal", "on", "off") in changes("sdpa")


def test_what_is_no_legal_graph_is_left_out():
    assert not [v for v in changes("sdpa", hq=12, hkv=12) if v[:2] == ("hq", "12")]
    assert "hq" in [v[0] for v in changes("sdpa", hq=12, hkv=4)]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_variant_is_another_graph_with_one_change(name):
    own = pipeline(name).graph({})
    for variant in nearby(pipeline(name), {}):
        assert variant.spec.graph_id != own.graph_id
        assert pipeline(name).graph({variant.letter: variant.instead}) == variant.spec


def test_the_refusal_names_what_is_accepted():
    plain = Refusal(message="hidden_dim should be multiple of 8", reasons=("hidden_dim should be multiple of 8",))
    variants = nearby(pipeline("sdpa"), {"d": 100})
    told = with_remedies(plain, [variants[0], variants[1], variants[3]])
    assert told.message == (
        "hidden_dim should be multiple of 8. cuDNN takes d = 96 or 104 instead of 100; or dtype = fp16 instead of bf16."
    )
    assert told.reasons == plain.reasons
    assert with_remedies(plain, []) is plain
