"""Who is sampled next and when it is enough, on timing sources whose truth is known."""

from __future__ import annotations

import random

import pytest

from engine.measure.rounds import Rounds, Tally
from engine.measure.screening import SETTLE_ROUNDS, Rule

STEP_S = 0.001


def play(rounds, source, ahead=0, step_s=STEP_S, most=100_000):
    """Rounds until nobody needs more, asked for ``ahead`` of their samples; gives every round's order."""
    orders, running, elapsed = [], [], 0.0
    for _ in range(most):
        order = rounds.order(elapsed)
        if not order and not running:
            return orders
        if order:
            orders.append(order)
            running.append(order)
            elapsed += step_s * len(order)
        if len(running) > ahead or not order:
            for key in running.pop(0):
                value, slow = source(key, elapsed)
                rounds.take(key, value, slow)
    raise AssertionError("the rounds never end")


def steady(**medians):
    return lambda key, elapsed: (medians[key], False)


def noisy(seed=0, share=0.02, **medians):
    draw = random.Random(seed)
    return lambda key, elapsed: (medians[key] * (1 + draw.gauss(0, share)), False)


@pytest.mark.parametrize("ahead", [0, 1])
def test_steady_plans_get_exactly_the_least(ahead):
    rounds = Rounds(["a", "b"], Rule(least=100), 0)
    orders = play(rounds, steady(a=10.0, b=10.5), ahead)
    assert rounds.stopped == {"a": "precise", "b": "precise"}
    assert {key: tally.count for key, tally in rounds.tallies.items()} == {"a": 100, "b": 100}
    assert len(orders) == 100 and rounds.fraction == 1.0


def test_orders_are_shuffled_anew_and_by_the_seed():
    keys = list("abcdef")
    orders = play(Rounds(keys, Rule(least=50, margin=9), 7), steady(**dict.fromkeys(keys, 1.0)))
    assert len({tuple(order) for order in orders}) > 40
    firsts = [order[0] for order in orders]
    assert all(firsts.count(key) > 1 for key in keys)
    assert orders == play(Rounds(keys, Rule(least=50, margin=9), 7), steady(**dict.fromkeys(keys, 1.0)))
    assert orders != play(Rounds(keys, Rule(least=50, margin=9), 8), steady(**dict.fromkeys(keys, 1.0)))


def test_a_clock_that_falls_while_sampling_does_not_decide():
    """Five plans of the same speed on a GPU that slows by a sixth: in rounds, nobody is favoured."""
    keys = list("abcde")
    seen = {key: [] for key in keys}

    def slowing(key, elapsed):
        seen[key].append(84.0 * (1 + min(elapsed, 1.0) / 6))
        return seen[key][-1], False

    play(Rounds(keys, Rule(least=100, margin=2), 1), slowing)
    medians = [sorted(values)[len(values) // 2] for values in seen.values()]
    assert max(medians) / min(medians) < 1.002


def test_a_noisy_plan_is_sampled_until_it_is_precise_and_the_others_beside_it():
    source = noisy(share=0.1, loud=10.0)
    rounds = Rounds(["loud", "calm"], Rule(least=100, error=0.005, budget_s=1e6), 0)
    play(rounds, lambda key, elapsed: source(key, elapsed) if key == "loud" else (10.0, False))
    loud, calm = rounds.tallies["loud"], rounds.tallies["calm"]
    assert rounds.stopped == {"loud": "precise", "calm": "precise"}
    assert calm.count == loud.count > 200 and loud.error < 0.005


def test_a_clock_that_changes_after_the_least_favours_nobody_who_is_precise_by_then():
    """Two plans of the same speed, one of them noisy, on a GPU that gets faster while the noisy one is sampled on."""
    source = noisy(share=0.1, loud=10.0)
    seen = {"loud": [], "calm": []}

    def rising(key, elapsed):
        value = source(key, elapsed)[0] if key == "loud" else 10.0
        seen[key].append(value * (0.8 if elapsed > 0.25 else 1.0))
        return seen[key][-1], False

    play(Rounds(["loud", "calm"], Rule(least=100, budget_s=1e6, margin=9), 0), rising)
    loud, calm = (sorted(values)[len(values) // 2] for values in seen.values())
    assert len(seen["calm"]) > 300 and loud / calm == pytest.approx(1.0, abs=0.05)


def test_the_budget_ends_what_will_not_become_precise_but_not_before_the_least():
    rounds = Rounds(["loud", "calm"], Rule(least=100, error=1e-6, budget_s=0.05), 0)
    play(rounds, noisy(share=0.2, loud=10.0, calm=10.0), ahead=1)
    assert set(rounds.stopped.values()) == {"budget"}
    assert all(tally.count == 100 for tally in rounds.tallies.values())


def test_noise_that_does_not_average_out_is_not_sampled_without_end():
    rounds = Rounds(["loud", "calm"], Rule(least=100, error=0.001, budget_s=1e6), 0, keep=["loud", "calm"])
    source = noisy(share=0.5, loud=10.0)
    play(rounds, lambda key, elapsed: source(key, elapsed) if key == "loud" else (10.0, False))
    assert rounds.stopped == {"loud": "budget", "calm": "precise"}
    assert rounds.tallies["loud"].count == rounds.tallies["calm"].count == Rule().most == 2000


def test_ten_budgets_are_the_end_of_all_patience():
    rounds = Rounds(["slow"], Rule(least=100, budget_s=0.1), 0)
    orders = play(rounds, steady(slow=1e6), ahead=1, step_s=0.25)
    assert rounds.stopped == {"slow": "budget"} and len(orders) < 10


def test_far_plans_drop_out_once_all_were_sampled_side_by_side():
    rounds = Rounds(["best", "far", "pick"], Rule(least=100, margin=1.15), 0, keep=["pick"])
    play(rounds, noisy(best=10.0, far=13.0, pick=13.0), ahead=1)
    assert rounds.stopped["far"] == "screened" and rounds.stopped["pick"] == rounds.stopped["best"] == "precise"
    assert rounds.tallies["far"].count <= SETTLE_ROUNDS + 1
    assert rounds.tallies["pick"].count >= 100


def test_a_single_fast_sample_keeps_a_plan_in():
    values = iter([13.0] * 5 + [10.2] + [13.0] * 1000)
    rounds = Rounds(["best", "disturbed"], Rule(least=50, margin=1.15), 0)
    play(rounds, lambda key, elapsed: (10.0, False) if key == "best" else (next(values), False))
    assert rounds.tallies["disturbed"].count >= 50


def test_samples_at_a_low_clock_are_set_aside_and_taken_again():
    taken = {"a": 0, "b": 0}

    def warming(key, elapsed):
        taken[key] += 1
        return (20.0, True) if taken[key] <= 30 else (10.0, False)

    rounds = Rounds(["a", "b"], Rule(least=100), 0)
    play(rounds, warming, ahead=1)
    for tally in rounds.tallies.values():
        assert (tally.count, tally.set_aside) == (100, 30) and tally.mean == pytest.approx(10.0)
    assert not rounds.slow_clock


def test_a_clock_that_never_comes_up_is_taken_as_it_is():
    rounds = Rounds(["a"], Rule(least=100), 0)
    play(rounds, lambda key, elapsed: (20.0, True), ahead=1)
    assert rounds.slow_clock and rounds.stopped == {"a": "precise"}
    assert rounds.tallies["a"].count >= 100 and rounds.tallies["a"].set_aside == 100


def test_what_an_earlier_process_sampled_counts():
    before = {"a": Tally.of([10.0 + n % 2 / 100 for n in range(60)]), "b": Tally.of([10.0] * 100)}
    rounds = Rounds(["a", "b"], Rule(least=100), 0, before=before)
    orders = play(rounds, steady(a=10.0, b=10.0))
    assert len(orders) == 40 and all(order == ["a"] for order in orders)
    assert rounds.tallies["a"].count == 100


def test_time_spent_before_counts_against_the_budget():
    rounds = Rounds(["a"], Rule(least=10, error=1e-9, budget_s=1.0), 0, spent_s=1.0)
    assert len(play(rounds, noisy(a=10.0))) == 10 and rounds.stopped == {"a": "budget"}


def test_running_sums_are_those_of_the_samples():
    import numpy as np

    values = np.random.default_rng(3).normal(50.0, 2.0, 500)
    tally = Tally.of(values)
    assert tally.mean == pytest.approx(values.mean())
    assert tally.error == pytest.approx(values.std(ddof=1) / 500**0.5 / values.mean())
    assert Tally.of([1.0]).error == float("inf")
