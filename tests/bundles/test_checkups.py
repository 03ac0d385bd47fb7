"""Exit statuses and sentences of the plan doctor."""

from __future__ import annotations

import pytest

from engine.bundles.checkups import FINE, UNUSABLE, WORSE, Examination, Loading, PlanCheckup, Rebuilding, Running
from engine.records.plan import Status

LOADS, LOADS_NOT = Loading(ok=True, milliseconds=1.0), Loading(ok=False, message="another version.")
BUILDS, BUILDS_NOT = Rebuilding(ok=True, milliseconds=300.0), Rebuilding(ok=False, message="no such engine.")


def running(**more):
    return Running(**{"gpu": "NVIDIA H200", "status": Status.OK, "median_us": 10.0, **more})


def checkup(loading=LOADS, rebuilding=BUILDS, run=None, is_default=True):
    known = {"graph": 1, "pipeline": "matmul", "plan_name": "eng4", "plan_key": "4", "is_default": is_default}
    return PlanCheckup(**known, loading=loading, rebuilding=rebuilding, running=run)


def examination(*plans, **more):
    return Examination(trusted=True, label="One plan.", files=8, plans=plans, **more)


BEST = running(rivals=("eng7",), inside=True, best="eng7", best_us=11.0)
SLOWER = running(rivals=("eng7",), inside=False, best="eng7", best_us=9.0)


@pytest.mark.parametrize(
    ("plan", "status"),
    [
        (checkup(), FINE),
        (checkup(run=running()), FINE),
        (checkup(run=BEST), FINE),
        (checkup(run=SLOWER), WORSE),
        (checkup(run=running(status=Status.WRONG_RESULT, message="C is wrong")), UNUSABLE),
        (checkup(run=running(status=Status.CRASHED, message="it ended")), UNUSABLE),
        (checkup(LOADS_NOT), WORSE),
        (checkup(LOADS_NOT, run=BEST), WORSE),
        (checkup(LOADS_NOT, BUILDS_NOT), UNUSABLE),
        (checkup(LOADS, BUILDS_NOT), WORSE),
        (checkup(LOADS, None, is_default=False), FINE),
        (checkup(LOADS_NOT, None, is_default=False), WORSE),
    ],
)
def test_exit_status_of_a_plan(plan, status):
    assert plan.exit_status == status
    assert examination(plan).exit_status == status
    assert all(sentence.strip() for sentence in plan.sentences())


def test_the_worst_of_all_counts_and_a_refusal_or_problem_is_the_worst():
    assert examination(checkup(), checkup(LOADS_NOT)).exit_status == WORSE
    assert examination(checkup(), checkup(LOADS_NOT, BUILDS_NOT)).exit_status == UNUSABLE
    assert Examination(trusted=False, refused="it is no zip").exit_status == UNUSABLE
    assert examination(problem="no driver library").exit_status == UNUSABLE
    assert Examination(trusted=False, label="One plan.", files=8).exit_status == FINE


def test_verdicts_say_what_was_not_done():
    assert "Nothing was run" in examination(checkup()).verdict
    assert "Nothing was run" not in examination(checkup(run=BEST)).verdict
    assert "Only its integrity was checked" in Examination(trusted=False).verdict
    assert "nothing of it was given to cuDNN" in Examination(trusted=True, refused="no").verdict


def test_sentences_tell_every_finding():
    told = " ".join(checkup(LOADS_NOT, BUILDS_NOT).sentences())
    assert "does not load: another version." in told and "does not build: no such engine." in told
    assert "heuristics' choice" in told
    told = " ".join(checkup(run=SLOWER.model_copy(update={"then_us": 9.5})).sentences())
    assert "It takes 10.00 µs hot, 9.500 µs when it was chosen." in told and "eng7 is faster: 9.000 µs." in told
    assert "no other plan to hold it against" in " ".join(checkup(run=running()).sentences())
