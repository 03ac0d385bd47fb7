"""Receiving plans on a simulated GPU: how many samples a plan gets, and of how many executions each."""

from __future__ import annotations

import pytest

from engine.measure.rounds import Rounds
from engine.measure.screening import FAR, Rule
from engine.measure.timing import EXECUTIONS
from engine.records.plan import Stage, Status
from tests.measure.simulated_gpu import GPU, simulate


@pytest.fixture
def simulation(monkeypatch):
    return simulate(monkeypatch)


@pytest.fixture
def admit(simulation, small):
    """``admit(us, best_us)``: the finding about a plan that takes so long where the best so far took that long."""

    def call(us, best_us):
        simulation.plans = {"plan": us}
        session = simulation.make(small("matmul"))
        return session.admit("plan", b"plan", 0, best_us, lambda stage: None)

    return call


@pytest.mark.parametrize("us", [2.0, 3.5])
@pytest.mark.parametrize("best_us", [None, 2.0, 3.5])
def test_a_kernel_of_a_few_microseconds_gets_all_its_samples_of_many_executions(admit, us, best_us):
    """Its first call costs the host more than the GPU, so one execution says nothing of how far it is."""
    finding = admit(us, best_us)
    assert (finding.status, finding.stage) == (Status.OK, Stage.TIME)
    assert (finding.screening.count, finding.screening.executions) == (4, EXECUTIONS)
    assert finding.screening.median_us == pytest.approx(us, rel=1e-4)


def test_a_plan_far_from_the_best_gets_one_execution_where_that_is_telling_and_one_replay_where_it_is_not(admit):
    telling = admit(120_000.0, 80.0)
    assert (telling.status, telling.screening.count, telling.screening.executions) == (Status.OK, 1, 1)
    assert FAR * 80.0 < telling.screening.median_us <= 120_000.0 and telling.capturable
    hidden = admit(10.0, 2.0)  # by less than a call of the host's takes
    assert (hidden.screening.count, hidden.screening.median_us) == (1, pytest.approx(10.0, rel=1e-4))


def test_a_low_clock_is_judged_by_the_rated_one_of_the_gpu_in_the_record(simulation, small):
    simulation.plans, simulation.sm_clock_mhz = {"plan": 20.0}, int(0.74 * GPU.rated_sm_clock_mhz)
    session, told = simulation.make(small("matmul")), []
    session.admit("plan", b"plan", 0, None, lambda stage: None)

    def report(rounds):
        told.extend(rounds)
        simulation.sm_clock_mhz = GPU.rated_sm_clock_mhz

    rounds = Rounds(["plan"], Rule(least=50), 0)
    session.sample(rounds, {"plan": None}, report, None)
    kept = [is_kept for one in told for _, _, is_kept in one.samples]
    assert not kept[0] and sum(kept) >= 50 and rounds.tallies["plan"].set_aside == kept.count(False)


def test_what_is_executed_once_is_captured_and_not_executed_for_it(simulation, small):
    simulation.plans = {"slow": {"us": 120_000.0, "uncapturable": True}}
    finding = simulation.make(small("matmul")).admit("slow", b"slow", 0, 80.0, lambda stage: None)
    assert finding.capturable is False and simulation.executed == ["slow"]
    simulation.plans["other"] = 120_000.0
    assert simulation.make(small("matmul")).admit("other", b"other", 0, 80.0, lambda stage: None).capturable
    assert simulation.executed == ["slow", "other"]
