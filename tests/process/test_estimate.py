"""The time left: a guess up front, then what steps have taken."""

import pytest

from engine.jobs.estimate import (
    AFTER_S,
    AFTER_STEPS,
    BUILD_S,
    REPLAY_S,
    ROUNDS_STEPS,
    START_S,
    SURVIVORS,
    USUAL_PLANS,
    Estimate,
    expected_s,
)
from engine.measure.screening import RULES

RULE = RULES["standard"]
SAMPLING_S = SURVIVORS * RULE.least * REPLAY_S


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_nothing_is_known_before_the_candidates_are(clock):
    estimate = Estimate(4, RULE, clock)
    assert (estimate.done, estimate.total, estimate.left_s) == (0, 0, None)


def test_up_front_it_is_a_guess_that_knows_the_number_of_builders(clock):
    alone, four = Estimate(1, None, clock), Estimate(4, None, clock)
    for estimate in (alone, four):
        estimate.listed(20)
    assert alone.left_s == pytest.approx(20 * BUILD_S) == pytest.approx(4 * four.left_s)
    assert alone.total == 20


def test_a_sweep_waits_for_the_slower_of_building_and_starting(clock):
    few, many = Estimate(4, RULE, clock), Estimate(4, RULE, clock)
    few.listed(10)
    many.listed(100)
    after = AFTER_S + SAMPLING_S
    assert few.left_s == pytest.approx(START_S + after)
    assert many.left_s == pytest.approx(25 * BUILD_S + after)


def test_before_anything_is_done_more_builders_and_fewer_plans_are_expected_to_take_less():
    rule = RULES["standard"]
    assert expected_s(16, rule, 30) < expected_s(2, rule, 30) < expected_s(2, rule, 60)
    assert expected_s(8, rule) == pytest.approx(expected_s(8, rule, USUAL_PLANS), abs=0.1)


def test_more_care_takes_longer(clock):
    left = []
    for preset in ("quick", "standard", "thorough"):
        estimate = Estimate(4, RULES[preset], clock)
        estimate.listed(20)
        left.append(estimate.left_s)
    assert left == sorted(left) and left[0] < left[2]


def test_then_it_is_the_pace_so_far(clock):
    estimate = Estimate(2, RULE, clock)
    estimate.listed(10)
    clock.now += 8
    estimate.built(4)
    assert estimate.left_s == pytest.approx(6 * 2.0 + SAMPLING_S + AFTER_S)
    estimate.built(10)
    estimate.sampling(5)
    clock.now += 3
    estimate.sampled(0.25)
    assert estimate.left_s == pytest.approx(9.0 + AFTER_S)
    for _ in range(AFTER_STEPS - 1):
        estimate.followed()
    assert estimate.left_s == pytest.approx(AFTER_S / AFTER_STEPS)


def test_steps_add_up_also_where_plans_cannot_be_measured(clock):
    estimate = Estimate(2, RULE, clock)
    estimate.listed(5)
    assert estimate.total == 10 + ROUNDS_STEPS + AFTER_STEPS
    estimate.built(5)
    for _ in range(3):
        estimate.received()
    assert estimate.done == 8
    estimate.sampling(2)
    assert estimate.done == 10
    estimate.sampled(0.5)
    assert estimate.done == 10 + ROUNDS_STEPS // 2
    for _ in range(AFTER_STEPS):
        estimate.followed()
    assert estimate.done == estimate.total


def test_steps_never_go_back(clock):
    estimate = Estimate(2, RULE, clock)
    estimate.listed(5)
    estimate.sampling(2)
    estimate.sampled(0.9)
    done = estimate.done
    estimate.sampled(0.1)  # a plan was lost, and the rest starts over
    assert estimate.done == done
