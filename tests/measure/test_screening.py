"""Who drops out before the rounds: only plans that no clock and no cache can excuse."""

from __future__ import annotations

import pytest

from engine.measure.screening import DOUBT, FAR, MOST_SURVIVORS, RULES, Rule, is_far, survivors
from engine.records.options import Preset


def test_every_preset_has_a_rule_with_a_hundred_samples_at_least():
    assert set(RULES) == set(Preset)
    assert all(rule.least >= 100 and rule.error <= 0.005 for rule in RULES.values())
    assert RULES["quick"].budget_s < RULES["standard"].budget_s < RULES["thorough"].budget_s


def test_a_plan_a_thousand_times_slower_costs_one_execution():
    assert is_far(120_000.0, 84.0)
    assert not is_far(120_000.0, None)  # the first of all: nothing to hold it against
    assert not is_far(84.0 * FAR * 0.99, 84.0)


def test_survivors_are_those_a_low_clock_could_excuse():
    seen = {"best": [84.0, 85.0, 84.0], "near": [90.0], "doubtful": [111.0], "slow": [120.0, 140.0], "far": [120_000.0]}
    assert survivors(seen) == ["best", "near", "doubtful"]
    assert 111.0 <= DOUBT * 84.0 < 120.0


def test_one_fast_sample_saves_a_plan_that_was_disturbed():
    assert survivors({"best": [84.0], "disturbed": [300.0, 95.0, 310.0]}) == ["best", "disturbed"]


def test_first_picks_are_kept_unless_they_are_beyond_hope():
    seen = {"best": [84.0], "pick of A": [200.0], "pick of B": [400.0]}
    assert survivors(seen, keep=["pick of A", "pick of B"]) == ["best", "pick of A"]


def test_no_more_go_into_the_rounds_than_anybody_waits_for():
    seen = {f"plan {n}": [84.0 + n / 100] for n in range(1000)}
    chosen = survivors(seen, keep=["plan 900"])
    assert len(chosen) == MOST_SURVIVORS and chosen[-1] == "plan 900"
    assert chosen[:-1] == [f"plan {n}" for n in range(MOST_SURVIVORS - 1)]


def test_the_first_pick_of_all_can_be_kept_with_no_plans_at_all():
    assert survivors({}, keep=["gone"]) == []


@pytest.mark.parametrize("wrong", [{"least": 0}, {"error": -1.0}, {"margin": 0.9}, {"budget_s": 0.0}])
def test_a_rule_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="not a rule"):
        Rule(**wrong)
