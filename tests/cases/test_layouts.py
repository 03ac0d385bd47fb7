"""PT 128936: a strided convolution of more than 2^31 elements, in NCHW and in NHWC."""

from __future__ import annotations

import json

import pytest

SHAPE = [
    text for letter in ("n=64", "c=128", "h=513", "w=513", "k=128", "stride=2", "pad=0") for text in ("-p", letter)
]
ELEMENTS = 64 * 128 * 513 * 513
MIB, GIB = 2**20, 2**30


def plan(invoke, pipeline, *more):
    done = invoke("plan", pipeline, "--target", "h200", "--builders", 1, *SHAPE, *more, "--json")
    return done, json.loads(done.stdout)


@pytest.mark.cudnn
def test_pt_128936_more_than_two_to_the_31_elements_fit_and_are_planned(invoke):
    assert ELEMENTS > 2**31
    done, told = plan(invoke, "conv_relu", "--no-build")
    assert done.exit_code == 0 and told["refusal"] is None
    assert told["target"]["memory_bytes"] > 2 * ELEMENTS
    assert len(told["plans"]) >= 3 and {p["status"] for p in told["plans"]} == {"listed"}


@pytest.mark.cudnn
def test_pt_128936_nchw_without_a_bias_is_refused_and_the_layout_named(invoke):
    done, told = plan(invoke, "conv_relu", "--layout", "nchw")
    assert done.exit_code == 1 and told["plans"] == []
    assert any("NHWC" in reason for reason in told["refusal"]["reasons"])


@pytest.mark.cudnn
def test_pt_128936_with_a_bias_nchw_needs_gigabytes_of_workspace_and_nhwc_almost_none(invoke):
    workspaces = {}
    for layout in ("nchw", "nhwc"):
        done, told = plan(invoke, "conv_bias_relu", "--layout", layout, "--modes", "A")
        assert done.exit_code == 0 and {p["status"] for p in told["plans"]} == {"ok"}
        workspaces[layout] = {p["plan_name"]: p["workspace_bytes"] for p in told["plans"]}
    both = workspaces["nchw"].keys() & workspaces["nhwc"].keys()
    assert both, "the same engines and knobs in both layouts, to be compared"
    for name in both:
        # A copy of the image in the other layout, at least.
        assert workspaces["nchw"][name] > 2 * ELEMENTS > 4 * GIB
        assert workspaces["nhwc"][name] < MIB


def test_pt_128936_engines_that_take_nchw_as_it_is_are_named_and_slow(show):
    """A convolution of the pipeline that was measured. cuDNN gives no name of an engine but its number."""
    told, text = show("conv_bias_relu", layout="nchw")
    best_us = min(plan["hot_us"]["median"] for plan in told["plans"])
    direct = [plan for plan in told["plans"] if plan["workspace_bytes"] < 1024]
    assert "eng0" in {plan["plan_name"] for plan in direct}
    assert all(plan["hot_us"]["median"] > 5 * best_us for plan in direct)
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("eng")]
    assert rows[-1] == "eng0", "the slowest stands last"
    nhwc, _ = show("conv_bias_relu", layout="nhwc", r="3")
    assert max(plan["workspace_bytes"] for plan in nhwc["plans"]) < min(
        plan["workspace_bytes"] for plan in told["plans"] if plan not in direct
    )
