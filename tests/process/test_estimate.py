"""The time left: a guess up front, then what steps have taken."""

import pytest

from engine.jobs.estimate import BUILD_S, MEASURE_S, Estimate


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_nothing_is_known_before_the_candidates_are(clock):
    estimate = Estimate(4, True, clock)
    assert (estimate.done, estimate.total, estimate.left_s) == (0, 0, None)


def test_up_front_it_is_a_guess_that_knows_the_number_of_builders(clock):
    alone, four = Estimate(1, False, clock), Estimate(4, False, clock)
    for estimate in (alone, four):
        estimate.listed(20)
    assert alone.left_s == pytest.approx(20 * BUILD_S) == pytest.approx(4 * four.left_s)


def test_then_it_is_the_pace_so_far(clock):
    estimate = Estimate(2, True, clock)
    estimate.listed(10)
    clock.now += 8
    estimate.built(4)
    assert estimate.left_s == pytest.approx(6 * 2.0 + 11 * MEASURE_S + 1)
    estimate.built(10)
    estimate.ready(9)
    for _ in range(3):
        clock.now += 5
        estimate.measured()
    assert estimate.left_s == pytest.approx(6 * 5.0)


def test_steps_add_up_also_where_plans_cannot_be_measured(clock):
    estimate = Estimate(2, True, clock)
    estimate.listed(5)
    assert estimate.total == 11
    estimate.built(5)
    estimate.ready(3)  # the baseline and two plans that were built
    assert estimate.done == 8
    for _ in range(3):
        estimate.measured()
    assert estimate.done == estimate.total == 11
    assert estimate.left_s == 0
