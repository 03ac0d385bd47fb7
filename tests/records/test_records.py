"""A record refuses what cannot be true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.records.plan import OutputAccuracy, PlanIdentity, PlanRecord, Stage, Status, Timings
from engine.records.samples import Samples

TIMINGS = Timings(hot=Samples.of([1.0, 2.0, 3.0], 10), cold=Samples.of([4.0]), host=Samples.of([5.0]))


def accuracy(**changes) -> OutputAccuracy:
    right = {"name": "Y", "max_abs": 0.1, "max_rel": 0.001, "unwritten": 0, "nonfinite": 0, "elements": 4}
    return OutputAccuracy(**{**right, "tolerance": 0.01, **changes})


def plan(status: Status, **changes) -> PlanRecord:
    identity = PlanIdentity(engine_id=4, knobs={"TILE": 3, "KERNEL_CFG": 43})
    return PlanRecord(
        identity=identity, plan_name="eng4_k24=43", modes={"A": 0}, status=status, stage=Stage.TIME, **changes
    )


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
