"""Sweeps beyond the heuristics: named plans, every engine and a knob search, by processes that follow a script."""

import dataclasses
from collections import Counter

import pytest

from engine.jobs.unlisted import search_remark
from engine.plans.explicit import parse_plan
from engine.records.options import SweepOptions
from engine.records.plan import PlanOrigin, Stage, Status
from engine.records.run import RunStatus
from engine.records.sentences import sentences
from tests.process.scripted import diary

pytestmark = pytest.mark.process

HANGING = parse_plan("49;SPLIT_K_SLC=15;KERNEL_CFG=30")


@pytest.fixture
def sweep(machine):
    def run(**options):
        return machine.sweep(request=dataclasses.replace(machine.request, options=SweepOptions(**options)))

    return run


def test_all_three_ways_in_one_sweep(machine, sweep):
    machine.script(others=2, slower={"eng1": 9.0, "eng2": 9.0, "eng4": 9.0, "eng49": 9.0})
    run = sweep(explicit=(HANGING,), every_engine=True, knob_budget=4)
    assert run.status is RunStatus.DONE and {plan.status for plan in run.plans} == {Status.OK}
    origins = Counter(plan.origin for plan in run.plans)
    assert origins == {
        PlanOrigin.HEURISTICS: 3,
        PlanOrigin.EXPLICIT: 1,
        PlanOrigin.ENGINE_LIST: 2,
        PlanOrigin.KNOB_SEARCH: 4,
    }
    assert all(plan.timings for plan in run.plans)
    searched = [plan for plan in run.plans if plan.origin is PlanOrigin.KNOB_SEARCH]
    assert {plan.identity.engine_id for plan in searched} <= {0, 3}, "only engines that were seen to be near the best"
    assert machine.store.get(run.id).plans == run.plans
    asked, won = (sentence.text for sentence in sentences(run) if sentence.topic == "unlisted")
    assert "1 explicit plan (1 measured)" in asked and "4 knob choices (4 measured)" in asked
    assert "is faster than the listed ones" in won


def test_the_search_begins_when_what_is_built_has_been_received(machine, sweep):
    machine.script(worker={"admit eng2": 0.5})
    sweep(knob_budget=2)
    received = max(when for _, when, what in diary(machine.folder, "worker") if what == "admit eng2") + 0.5
    checks = [when for _, when, what in diary(machine.folder, "builder") if what == "check"]
    assert len(checks) == 2 and min(checks) >= received


@pytest.mark.parametrize(
    ("act", "status"), [("hang", Status.TIMEOUT), ("crash", Status.CRASHED)], ids=["a hang", "a crash"]
)
def test_an_explicit_plan_that_takes_the_process_with_it_costs_itself(machine, sweep, act, status):
    machine.script(worker={"admit eng49": act})
    run = sweep(explicit=(HANGING,))
    ended = {plan.key: plan for plan in run.plans}[HANGING.key]
    assert run.status is RunStatus.DONE
    assert (ended.status, ended.stage, ended.origin) == (status, Stage.EXECUTE, PlanOrigin.EXPLICIT)
    assert [plan.status for plan in run.plans if plan.modes] == [Status.OK] * 3
    assert machine.store.get(run.id).plans == run.plans


def test_a_search_tells_how_many_choices_were_checked():
    assert search_remark(1, 1) == "Knob search: 1 choice was checked, cuDNN takes 1."
    assert search_remark(1600, 0) == "Knob search: 1,600 choices were checked, cuDNN takes 0."


def test_a_search_whose_plans_all_fail_ends(machine, sweep):
    machine.script(worker={"admit eng0": "wrong", "admit eng1": "wrong", "admit eng2": "wrong"})
    run = sweep(knob_budget=2)
    assert run.status is RunStatus.DONE
    assert {plan.status for plan in run.plans} == {Status.WRONG_RESULT} and len(run.plans) == 5
