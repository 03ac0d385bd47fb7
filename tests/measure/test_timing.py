"""How long a replay is, and what a first execution proves. (Timing itself needs a GPU.)"""

from __future__ import annotations

import pytest

from engine.measure.graph_use import samples_by_executions
from engine.measure.timing import EXECUTIONS, First, estimate_us, executions_in_replay


@pytest.mark.parametrize(
    ("execution_us", "executions"), [(1, 100), (10, 40), (25, 16), (84, 5), (390, 1), (120_000, 1)]
)
def test_a_replay_lasts_about_four_tenths_of_a_millisecond(execution_us, executions):
    assert executions_in_replay(execution_us) == executions
    assert executions in (1, EXECUTIONS) or 250 <= executions * execution_us <= 550


def test_a_slow_first_execution_is_estimate_enough():
    def never():
        raise AssertionError("executed again")

    assert estimate_us(never, First(120_010.0)) == 120_010.0


def test_what_is_surely_the_gpu_s_own_leaves_room_for_a_launch():
    assert First(400.0).at_least_us == 300.0
    assert First(20.0).at_least_us == 1.0


@pytest.mark.parametrize(
    ("execution_us", "samples"),
    [
        (80, {1: 30, 10: 30, 100: 30}),
        (2_700, {1: 30, 10: 30, 100: 7}),
        (10_000, {1: 30, 10: 20}),
        (120_000, {1: 16}),
        (3_000_000, {1: 5}),
    ],
)
def test_slow_plans_are_sampled_in_graphs_for_no_longer_than_it_is_worth(execution_us, samples):
    assert samples_by_executions(execution_us) == samples
