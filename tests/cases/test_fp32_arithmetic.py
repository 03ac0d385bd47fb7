"""FE 39, PT 153698: fp32 graphs run in TF32, which people take for a bug while nothing names it."""

from __future__ import annotations

import json

import pytest
import torch

from engine.measure.accuracy import compare, scale_of
from engine.measure.buffers import Buffers
from engine.measure.reference import reference
from engine.records.arithmetic import Arithmetic

FLOAT32_ERROR = 2.0**-16
"""Above any error of float32 over the few hundred products of these graphs, and far below TF32's."""


def worst(entry):
    return max(output["max_rel"] for output in entry["accuracy"])


def test_fe_39_a_matmul_in_fp32_is_labelled_tf32_and_its_error_shown(show):
    told, text = show("matmul", dtype="fp32")
    assert told["plans"] and {plan["status"] for plan in told["plans"]} == {"ok"}
    for plan in told["plans"]:
        assert plan["arithmetic"] == Arithmetic.TF32_SEEN
        assert 2.0**-11 < worst(plan) < 2.0**-8
    # torch multiplies matrices in float32 unless told otherwise, so its error stands beside.
    assert told["baseline"]["arithmetic"] == Arithmetic.FLOAT32_SEEN
    assert worst(told["baseline"]) < FLOAT32_ERROR
    best = next(line for line in text.splitlines() if line.startswith("eng"))
    assert f"{worst(told['plans'][0]):.2e}" in best and "TF32, by its error" in best
    assert "10 bits of mantissa" in text


def test_fe_39_cublaslts_plan_carries_no_note_and_is_told_by_its_error(show):
    told, _ = show("matmul", dtype="fp32")
    plans = [plan for plan in told["plans"] if "CUBLASLT_DEPENDENCY" in plan["behavior_notes"]]
    assert plans and all("TENSOR_CORE" not in plan["numerical_notes"] for plan in plans)
    assert {plan["arithmetic"] for plan in plans} == {Arithmetic.TF32_SEEN}


def test_fe_39_the_recorded_error_is_the_one_that_tf32_makes(recorded):
    """The GPU's data follows from the seed. Its operands rounded to 10 bits of mantissa, everything else in float64,
    give the error that was recorded."""
    run = recorded("matmul", dtype="fp32")
    (output,) = run.graph.outputs
    values = Buffers(run.graph, run.options.seed, "cpu").values
    want = reference(run.graph, values, torch.float64)[output.uid]
    got = reference(run.graph, {uid: _tf32(value) for uid, value in values.items()}, torch.float64)[output.uid]
    emulated = compare(output, got.float(), want, scale_of(output, want), 1.0).max_rel
    for plan in run.plans:
        assert plan.accuracy[0].max_rel == pytest.approx(emulated, rel=0.02)


def _tf32(value):
    """Round to nearest, ties away from zero: the lower 13 of float32's 23 bits go."""
    return ((value.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def test_pt_153698_a_convolutions_error_is_named_tf32_and_plain_fp32_stands_beside(show):
    told, text = show("conv_relu", dtype="fp32")
    by = {kind: [p for p in told["plans"] if p["arithmetic"] == kind] for kind in Arithmetic}
    tf32, plain = by[Arithmetic.TF32_SEEN], by[Arithmetic.FLOAT32_SEEN]
    assert len(tf32) + len(plain) == len(told["plans"]) and tf32 and plain
    assert all("TENSOR_CORE" in plan["numerical_notes"] for plan in tf32)
    assert all("TENSOR_CORE" not in plan["numerical_notes"] for plan in plain)
    assert min(map(worst, tf32)) > 100 * max(map(worst, plain)) and max(map(worst, plain)) < FLOAT32_ERROR
    # torch, where the error was reported, convolves in TF32 too.
    assert told["baseline"]["arithmetic"] == Arithmetic.TF32_SEEN
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("eng")}
    assert "TF32, by its error" in rows[tf32[0]["plan_name"]]
    assert "float32, by its error" in rows[plain[0]["plan_name"]]


@pytest.mark.cudnn
def test_pt_153698_without_a_gpu_the_notes_tell_as_far_as_they_go(invoke):
    asked = ["plan", "conv_bias_relu", "--dtype", "fp32", "--target", "h200", "--modes", "FALLBACK"]
    built = {plan["plan_name"]: plan for plan in json.loads(invoke(*asked, "--json").stdout)["plans"]}
    assert {plan["arithmetic"] for plan in built.values()} == {Arithmetic.TF32_NOTED, Arithmetic.FLOAT32_NOTED}
    for plan in built.values():
        assert (plan["arithmetic"] == Arithmetic.TF32_NOTED) == ("TENSOR_CORE" in plan["numerical_notes"])
    text = invoke(*asked, "--no-build").stdout
    rows = [line for line in text.splitlines() if line.startswith("eng")]
    assert rows and all("TF32 not excluded" in row for row in rows)
    assert "10 bits of mantissa" in text


def test_other_types_are_multiplied_as_they_are(show):
    told, text = show("matmul", dtype="bf16", m="256", n="256", k="256")
    assert {plan["arithmetic"] for plan in told["plans"]} == {None}
    assert "TF32" not in text
