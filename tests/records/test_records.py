"""A record refuses what cannot be true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import pipeline
from engine.graph.tensors import DataType
from engine.records.arithmetic import TF32_OPERANDS, Arithmetic, arithmetic, seen_arithmetic
from engine.records.options import DataKind, SweepOptions, check_options
from engine.records.passport import OutputAccuracy, Repeatability
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Stage, Status
from engine.records.run import Confirmation, Phases
from engine.records.samples import Samples
from engine.records.timings import Regime, Timings

TIMINGS = Timings(hot=Samples.of([1.0, 2.0, 3.0], 10), cold=Samples.of([4.0]), host=Samples.of([5.0]))


def accuracy(**changes) -> OutputAccuracy:
    right = {"name": "Y", "max_abs": 0.1, "max_rel": 0.001, "unwritten": 0, "nonfinite": 0, "elements": 4}
    return OutputAccuracy(**{**right, "tolerance": 0.01, **changes})


def plan(status: Status, **changes) -> PlanRecord:
    identity = PlanIdentity(engine_id=4, knobs={"TILE": 3, "KERNEL_CFG": 43})
    given = {"identity": identity, "plan_name": "eng4_k24=43", "modes": {"A": 0}, "stage": Stage.TIME}
    return PlanRecord(**{**given, "status": status, **changes})


@settings(deadline=None)
@given(st.lists(st.floats(min_value=2.0**-10, max_value=2.0**20, width=32), min_size=1, max_size=200))
def test_samples_keep_every_float32(values):
    samples = Samples.of(values)
    assert samples.values.tolist() == values
    assert samples.median_us == pytest.approx(float(np.median(np.asarray(values, "f4"))))
    assert Samples.model_validate_json(samples.model_dump_json()) == samples


@pytest.mark.parametrize("data", ["", "AAAA", "not base64!", "AACAfw==", "AADAfw==", "AAAAAA=="])
def test_samples_refuse_empty_torn_infinite_and_zero(data):
    with pytest.raises(ValidationError):
        Samples(data=data, executions=1)


def test_the_key_does_not_depend_on_the_order_of_knobs():
    key = PlanIdentity(engine_id=4, knobs={"TILE": 3, "KERNEL_CFG": 43}).key
    assert key == PlanIdentity(engine_id=4, knobs={"KERNEL_CFG": 43, "TILE": 3}).key == "4;KERNEL_CFG=43;TILE=3"


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_only_a_plan_that_ended_well_has_timings(status):
    assert plan(Status.OK, timings=TIMINGS).timings == TIMINGS
    with pytest.raises(ValidationError, match="no timings"):
        plan(status, message="why", timings=TIMINGS)


@pytest.mark.parametrize(
    "wrong", [{"max_rel": 0.02}, {"unwritten": 1}, {"nonfinite": 2}, {"max_rel": None}, {"max_rel": float("nan")}]
)
def test_a_wrong_output_is_never_ok(wrong):
    assert plan(Status.OK, accuracy=(accuracy(),)).accuracy[0].passed
    with pytest.raises(ValidationError, match="cannot be ok"):
        plan(Status.OK, accuracy=(accuracy(**wrong),))


@pytest.mark.parametrize("status", [s for s in Status if s not in (Status.OK, Status.LISTED)])
def test_a_plan_that_ended_badly_says_why(status):
    with pytest.raises(ValidationError, match="says why"):
        plan(status)


@pytest.mark.parametrize(
    "counts",
    [
        {"nonfinite": 3, "nan": 1, "inf": 1},
        {"nan": 3, "inf": 2},
        {"nan": 1, "inf": 1, "unwritten": 3},
        {"nan": -1},
        {"reference_dtype": "bfloat16"},
    ],
)
def test_counts_of_an_output_that_cannot_be(counts):
    with pytest.raises(ValidationError):
        accuracy(**counts)


def test_a_passport_keeps_infinite_errors():
    seen = accuracy(max_ulp=float("inf"), rel_norm=float("nan"), nan=2, inf=1, nonfinite=3, reference_dtype="float64")
    again = OutputAccuracy.model_validate_json(seen.model_dump_json())
    assert (again.max_ulp, again.nan, again.inf, again.nonfinite) == (float("inf"), 2, 1, 3)
    assert np.isnan(again.rel_norm)


def test_repeats_are_bitwise_only_where_nothing_differs():
    assert Repeatability(runs=10, differing=0, elements=64).bitwise
    assert not Repeatability(runs=10, differing=1, elements=64).bitwise
    for wrong in ({"runs": 1}, {"differing": 65}, {"differing": -1}):
        with pytest.raises(ValidationError):
            Repeatability(**{"runs": 10, "differing": 0, "elements": 64, **wrong})


@pytest.mark.parametrize("status", list(Status))
def test_only_a_plan_that_ran_has_repeats(status):
    repeats, message = Repeatability(runs=10, differing=3, elements=64), "why"
    if status in (Status.OK, Status.WRONG_RESULT):
        assert plan(status, repeats=repeats, message=message).repeats == repeats
    else:
        with pytest.raises(ValidationError, match="again and again"):
            plan(status, repeats=repeats, message=message)


@pytest.mark.parametrize("origin", [o for o in PlanOrigin if o is not PlanOrigin.HEURISTICS])
def test_what_a_mode_lists_is_the_heuristics(origin):
    assert plan(Status.OK, modes={}, origin=origin).origin is origin
    with pytest.raises(ValidationError, match="is the heuristics'"):
        plan(Status.OK, origin=origin)


def test_a_screened_plan_has_hot_samples_only():
    screened = Timings(hot=Samples.of([9.0]), stopped="screened")
    assert [screened.of(regime) is not None for regime in Regime] == [True, False, False, False, False]
    assert screened.dominates is None
    assert TIMINGS.dominates == "host"
    assert all(TIMINGS.of(regime) is getattr(TIMINGS, regime) for regime in Regime)
    with pytest.raises(ValidationError):
        Timings(hot=Samples.of([9.0]), stopped="tired")
    with pytest.raises(ValidationError):
        Timings(hot=Samples.of([9.0]), set_aside=-1)


def test_samples_of_a_confirmation_are_paired():
    three, two = Samples.of([1.0, 2.0, 3.0]), Samples.of([1.0, 2.0])
    pair = {"winner": "4", "first_pick": "1"}
    assert Confirmation(**pair, winner_us=three, first_pick_us=three).message is None
    assert Confirmation(**pair, message="the first pick crashed").winner_us is None
    for wrong in ({"winner_us": three, "first_pick_us": two}, {"winner_us": three}, {}, {"message": ""}):
        with pytest.raises(ValidationError):
            Confirmation(**pair, **wrong)
    with pytest.raises(ValidationError, match="against itself"):
        Confirmation(winner="4", first_pick="4", winner_us=three, first_pick_us=three)


def test_seconds_are_not_negative():
    assert Phases(build_s=1.5).list_s is None
    with pytest.raises(ValidationError):
        Phases(rounds_s=-0.1)


def test_only_an_attention_has_scores_to_shift():
    check_options(SweepOptions(score_shift=-123.0), pipeline("sdpa").graph({}))
    check_options(SweepOptions(), pipeline("matmul").graph({}))
    with pytest.raises(InvalidInput, match="score_shift = -5") as caught:
        check_options(SweepOptions(score_shift=-5.0), pipeline("matmul").graph({}))
    assert caught.value.errors[0].field == "score_shift"


@pytest.mark.parametrize(
    "wrong",
    [
        {"score_shift": float("nan")},
        {"score_shift": 2e4},
        {"workspace_limit_bytes": -1},
        {"knob_budget": -1},
        {"data": 1},
    ],
)
def test_options_have_limits(wrong):
    with pytest.raises(ValidationError):
        SweepOptions(**wrong)


def test_options_cross_a_file():
    asked = SweepOptions(explicit=(PlanIdentity(engine_id=49, knobs={"SPLIT_K_SLC": 15}),), workspace_limit_bytes=0)
    assert SweepOptions.model_validate_json(asked.model_dump_json()) == asked


def test_a_small_error_on_positive_data_does_not_tell_tf32_from_float32():
    """TF32 rounded to nearest, 4,096 products of positive numbers: off by 2.7e-5 (emulated), 1.3e-3 on normal data."""
    close = accuracy(max_rel=2.7e-5, elements=4096, tolerance=TF32_OPERANDS + 1e-4)
    quiet = plan(Status.OK, accuracy=(close,), numerical_notes=("TENSOR_CORE",))
    assert arithmetic(DataType.FP32, quiet) is Arithmetic.FLOAT32_SEEN
    assert arithmetic(DataType.FP32, quiet, DataKind.POSITIVE) is Arithmetic.TF32_NOTED
    assert seen_arithmetic(DataType.FP32, (close,), DataKind.POSITIVE) is None
    far = close.model_copy(update={"max_rel": 1.5e-3})
    assert seen_arithmetic(DataType.FP32, (far,), DataKind.POSITIVE) is Arithmetic.TF32_SEEN


@pytest.mark.parametrize(("dtype", "shift"), [("fp16", 9000.0), ("bf16", -1e4)])
def test_a_shift_has_to_fit_the_type(dtype, shift):
    graph = pipeline("sdpa").graph({"dtype": dtype, "scale": 0.01})
    if dtype == "bf16":
        check_options(SweepOptions(score_shift=shift), graph)
    else:
        with pytest.raises(InvalidInput, match="fp16 holds shifts up to 5240"):
            check_options(SweepOptions(score_shift=shift), graph)
    with pytest.raises(InvalidInput, match="holds shifts up to 0"):
        check_options(SweepOptions(score_shift=shift), pipeline("sdpa").graph({"dtype": dtype, "scale": 0.0}))
