"""Verdicts: what ties, who wins, what it costs. Properties over any samples, and decisions checked by simulation."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records.constraints import Constraints
from engine.records.options import SweepOptions
from engine.records.passport import Repeatability
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Status
from engine.records.regimes import regime_change, verdicts
from engine.records.timings import Regime
from engine.records.verdict import Verdict, verdict
from engine.runs.recordings import Recordings
from tests.records.sample_plans import failed, measured, run_of

RECORDINGS = Recordings()
SAMPLES = st.lists(st.floats(0.5, 1e5, width=32), min_size=1, max_size=40)


def same(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts agree, whatever the order of the plans they were made from."""
    return (one.best, one.tie_set, one.winner, one.picks, one.costs, one.intervals) == (
        (other.best, other.tie_set, other.winner, other.picks, other.costs, other.intervals)
    )


@settings(deadline=None)
@given(st.lists(SAMPLES, min_size=1, max_size=6), st.randoms())
def test_the_winner_ties_and_the_best_is_the_smallest_median(series, random):
    plans = [measured(i, values, workspace_bytes=random.choice([0, 64])) for i, values in enumerate(series)]
    found = verdict(plans)
    assert found.best in found.tie_set
    assert found.winner in found.tie_set
    assert found.intervals[found.best].median == min(one.median for one in found.intervals.values())
    assert list(found.tie_set) == sorted(found.tie_set, key=list(found.intervals).index)
    shuffled = list(plans)
    random.shuffle(shuffled)
    assert same(verdict(shuffled), found)


@settings(deadline=None)
@given(SAMPLES, st.integers(2, 5))
def test_plans_of_the_same_samples_tie(values, count):
    found = verdict([measured(i, values) for i in range(count)])
    assert set(found.tie_set) == {str(i) for i in range(count)}
    assert found.winner == "0"  # all else being equal, the lowest engine id


@settings(deadline=None)
@given(SAMPLES)
def test_a_plan_far_beyond_does_not_tie(values):
    far = (np.array(values) + 3 * max(values)).tolist()
    found = verdict([measured(0, far), measured(1, values)])
    assert found.tie_set == ("1",)
    assert found.winner == "1"
    assert found.behind("0") > 1.5


@settings(deadline=None)
@given(SAMPLES, st.sampled_from([s for s in Status if s is not Status.OK]))
def test_what_did_not_end_well_is_in_none_of_it(values, status):
    """Not even where its times are there, as a record that nobody checked could have them."""
    right = measured(1, values)
    tempting = measured(0, [0.5])
    wrong = PlanRecord.model_construct(**{**dict(tempting), "status": status, "message": "no"})
    assert not same(verdict([right, tempting]), verdict([right, wrong]))
    found = verdict([right, wrong])
    assert (found.best, found.winner, found.tie_set, set(found.intervals)) == ("1", "1", ("1",), {"1"})
    assert found.picks[0].regret is None
    assert found.picks[0].status is status


def test_one_percent_or_100_ns_make_a_tie():
    def tied(first: float, second: float) -> bool:
        return len(verdict([measured(0, [first] * 9), measured(1, [second] * 9)]).tie_set) == 2

    assert tied(100, 100.99)
    assert not tied(100, 101.02)
    assert tied(3.0, 3.0999)  # 3 %, but 100 ns
    assert not tied(3.0, 3.102)


def test_intervals_that_overlap_make_a_tie(noisy):
    wide = [noisy(100, 0.2), noisy(103, 0.2)]
    narrow = [noisy(100, 0.002), noisy(103, 0.002)]
    assert len(verdict([measured(i, values) for i, values in enumerate(wide)]).tie_set) == 2
    assert len(verdict([measured(i, values) for i, values in enumerate(narrow)]).tie_set) == 1


def test_who_is_chosen_inside_a_tie():
    def identity(engine: int, knobs: int) -> PlanIdentity:
        return PlanIdentity(engine_id=engine, knobs={f"K{i}": 1 for i in range(knobs)})

    compiled = {"behavior_notes": ("RUNTIME_COMPILATION",)}
    plans = [
        measured(1, [9.00], workspace_bytes=64),
        measured(2, [9.05], **compiled, identity=identity(2, 0)),
        measured(7, [9.04], identity=identity(7, 2)),
        measured(6, [9.03], identity=identity(6, 1)),
        measured(5, [9.08], identity=identity(5, 1)),
        measured(5, [9.07], identity=PlanIdentity(engine_id=5, knobs={"OTHER": 1})),
    ]
    expected = [
        ("5;OTHER=1", "the smaller median"),
        ("5;K0=1", "the lowest engine id"),
        ("6;K0=1", "the fewest knobs"),
        ("7;K0=1;K1=1", "a kernel compiled in advance"),
        ("2", "the smallest workspace"),
        ("1", None),
    ]
    for winner, reason in expected:
        found = verdict(plans)
        assert (found.winner, found.reason) == (winner, reason)
        plans = [plan for plan in plans if plan.key != winner]
    assert verdict([]).winner is None


def test_a_workspace_nobody_knows_is_the_largest():
    plans = [measured(1, [9.0], workspace_bytes=None), measured(2, [9.0], workspace_bytes=1 << 40)]
    assert verdict(plans).winner == "2"
    assert verdict(plans, constraints=Constraints(workspace_limit_bytes=1 << 41)).tie_set == ("2",)


def test_a_screened_plan_does_not_win_by_samples_taken_at_another_time():
    plans = [measured(1, [84.0] * 50), measured(2, [80.0], stopped="screened")]
    assert verdict(plans).tie_set == ("1",)
    assert list(verdict(plans).intervals) == ["2", "1"]  # it is shown all the same
    assert verdict(plans[1:]).winner == "2"


def test_a_slow_first_pick_does_not_win_before_a_screened_plan_that_is_faster_at_any_clock():
    """First picks are sampled to the end, however far from the best: a constraint may leave one of them beside plans
    that screening has left behind the best, and that are faster than it all the same."""
    pick = measured(1, [250.0] * 100, modes={"FALLBACK": 0})
    near, doubtful = (measured(i, [us] * 4, stopped="screened") for i, us in ((2, 140.0), (3, 200.0)))
    plans = [measured(0, [100.0] * 100, workspace_bytes=1 << 20), pick, near, doubtful]
    found = verdict(plans, constraints=Constraints(workspace_limit_bytes=0))
    assert (found.winner, found.tie_set, found.costs[0].ratio) == ("2", ("2",), pytest.approx(1.4))
    assert verdict([plans[0], pick, doubtful], constraints=Constraints(workspace_limit_bytes=0)).winner == "1"
    assert verdict(plans).costs[0].ratio == pytest.approx(1.4)


def test_regret_and_how_far_down_the_list_a_close_plan_comes():
    plans = [
        measured(0, [12.6] * 9, modes={"A": 0}),
        failed(1, Status.CRASHED, modes={"A": 1, "B": 0}),
        measured(2, [10.15] * 9, modes={"A": 2, "FALLBACK": 1}),
        measured(3, [10.0] * 9, modes={"A": 3}),
        measured(4, [15.0] * 9, modes={"FALLBACK": 0, "B": 1}),
    ]
    a, b, fallback = verdict(plans).picks
    assert (a.key, a.regret, a.ties, a.close_after, a.listed) == ("0", pytest.approx(1.26), False, 3, 4)
    assert (b.key, b.status, b.regret, b.close_after, b.listed) == ("1", Status.CRASHED, None, None, 2)
    assert (fallback.regret, fallback.close_after) == (pytest.approx(1.5), 2)
    only_b = verdict(plans, modes=("B", "C")).picks
    assert [pick.mode for pick in only_b] == ["B", "C"]
    assert (only_b[1].key, only_b[1].listed) == (None, 0)


def test_constraints_hold_for_the_winner_and_have_a_price():
    shaky = Repeatability(runs=10, differing=3, elements=64)
    steady = Repeatability(runs=10, differing=0, elements=64)
    plans = [
        measured(0, [10.0] * 9, workspace_bytes=1 << 20),
        measured(1, [11.0] * 9, repeats=shaky),
        measured(2, [12.0] * 9, numerical_notes=("NONDETERMINISTIC",), repeats=steady),
        measured(3, [13.0] * 9, capturable=False, repeats=steady),
        measured(4, [14.0] * 9, repeats=steady),
    ]
    free = verdict(plans)
    assert (free.winner, [cost.is_set for cost in free.costs]) == ("0", [False] * 3)
    assert [(cost.excluded, cost.ratio) for cost in free.costs] == [
        (1, pytest.approx(1.1)),
        (2, pytest.approx(1.0)),
        (1, pytest.approx(1.0)),
    ]
    assert free.costs[1].same
    every = Constraints(workspace_limit_bytes=0, deterministic_only=True, capturable_only=True)
    found = verdict(run_of(plans, options=SweepOptions(workspace_limit_bytes=0, deterministic_only=True)))
    assert found.winner == "3"
    found = verdict(plans, constraints=every)
    assert (found.winner, found.tie_set, found.behind("0")) == ("4", ("4",), pytest.approx(10 / 14))
    assert [(cost.words, cost.excluded, cost.ratio, cost.is_set) for cost in found.costs] == [
        ("No workspace", 1, pytest.approx(1.4), True),
        ("Deterministic plans only", 2, pytest.approx(14 / 11), True),
        ("Capturable plans only", 1, pytest.approx(14 / 13), True),
    ]
    assert not found.picks[0].admitted
    assert found.picks[0].regret == pytest.approx(10 / 14)


def test_constraints_that_nobody_meets_leave_no_winner():
    found = verdict([measured(0, [9.0], workspace_bytes=8)], constraints=Constraints(workspace_limit_bytes=7))
    assert (found.best, found.winner, found.tie_set, found.behind("0")) == (None, None, (), None)
    assert set(found.intervals) == {"0"}
    assert found.costs[0].ratio is None
    assert found.picks[0].key == "0"


def test_whether_anything_unlisted_won():
    listed = measured(0, [10.0] * 9)
    beyond = {"modes": {}, "origin": PlanOrigin.KNOB_SEARCH}
    assert verdict([listed]).unlisted is None
    for us, ratio, ties in ((9.0, 0.9, False), (10.05, 1.005, True), (12.0, 1.2, False)):
        found = verdict([listed, measured(1, [us] * 9, **beyond), measured(2, [30.0] * 9, **beyond)]).unlisted
        assert (found.key, found.measured, found.ties) == ("1", 2, ties)
        assert found.ratio == pytest.approx(ratio, rel=1e-6)
    assert verdict([measured(1, [9.0], **beyond)]).unlisted.ratio is None


def test_screening_tells_whether_anything_unlisted_won():
    """Every plan of one side left behind beyond any doubt is an answer, and none that was measured goes uncounted."""
    beyond = {"modes": {}, "origin": PlanOrigin.ENGINE_LIST}
    far = [measured(engine, [us], stopped="screened", **beyond) for engine, us in ((1, 30.0), (2, 40.0))]
    lost = verdict([measured(0, [10.0] * 9), *far]).unlisted
    assert (lost.key, lost.measured, lost.ties) == ("1", 2, False)
    assert lost.ratio == pytest.approx(3.0)
    assert verdict([measured(0, [10.0] * 9), measured(3, [11.0] * 9, **beyond), *far]).unlisted.measured == 3
    won = verdict([measured(0, [50.0], stopped="screened"), measured(3, [10.0] * 9, **beyond)]).unlisted
    assert (won.key, won.ratio, won.ties) == ("3", pytest.approx(0.2), False)
    for one, other in (({}, beyond), (beyond, {})):
        doubtful = [measured(0, [10.0] * 9, **one), measured(1, [9.0], stopped="screened", **other)]
        assert verdict(doubtful).unlisted is None


def test_the_winner_changes_between_regimes():
    plans = [
        measured(0, [10.0] * 9, regimes={"cold": [30.0] * 9, "host": [9.0]}),
        measured(1, [12.0] * 9, regimes={"cold": [20.0] * 9, "host": [1.0]}),
        measured(2, [99.0], stopped="screened"),
    ]
    judged = verdicts(plans)
    assert list(judged) == [Regime.HOT, Regime.COLD, Regime.HOST]
    change = regime_change(judged)
    assert change.winners == {Regime.HOT: "0", Regime.COLD: "1"}
    assert change.changed == {Regime.COLD: pytest.approx(1.5)}
    assert change.everywhere is None
    everyone = regime_change(judged, compared=tuple(Regime))
    assert everyone.changed == {Regime.COLD: pytest.approx(1.5), Regime.HOST: pytest.approx(9)}


def test_a_winner_that_ties_elsewhere_stays():
    plans = [
        measured(0, [10.0] * 9, regimes={"cold": [20.1] * 9}),
        measured(1, [10.0] * 9, regimes={"cold": [20.0] * 9}, workspace_bytes=64),
    ]
    change = regime_change(verdicts(plans))
    assert (change.changed, change.everywhere) == ({}, "0")
    assert regime_change(verdicts([measured(0, [1.0])])) is None


@pytest.mark.parametrize(("spread", "count"), [(0.004, 100), (0.03, 100), (0.1, 32)])
def test_equal_plans_are_rarely_told_apart_by_chance(spread, count):
    """A false difference between the best and one of its equals: seldom, at any noise. Two plans each time."""
    random = np.random.default_rng(7)
    wrong = 0
    for _ in range(300):
        plans = [measured(i, 25 * np.exp(spread * random.standard_normal(count))) for i in range(2)]
        wrong += len(verdict(plans).tie_set) == 1
    assert wrong / 300 <= 0.02


@pytest.mark.parametrize("drift", [0.0, 0.12])
def test_a_plan_two_percent_slower_is_told_apart_whatever_the_clock_does(drift):
    """Twenty plans in rounds, two of them equally good; hot samples of an H200 spread by 0.4 %, and its clock falls by
    an eighth under load."""
    random = np.random.default_rng(8)
    clock = 1 + drift * (1 - np.exp(-np.arange(100) / 15))
    missed = wrong = 0
    for _ in range(40):
        factors = [1.0, 1.0, *(1.02 + 0.1 * random.random(18))]
        plans = [
            measured(i, 25 * f * clock * np.exp(0.004 * random.standard_normal(100))) for i, f in enumerate(factors)
        ]
        tied = set(verdict(plans).tie_set)
        wrong += len({"0", "1"} - tied)
        missed += len(tied - {"0", "1"})
    assert wrong == 0
    assert missed <= 40 * 18 * 0.005


def test_two_sweeps_agree_up_to_the_tie_set():
    """The winner of one sweep is in the tie set of the next, though clocks differ between them."""
    random = np.random.default_rng(9)
    factors = [1.0, 1.002, 1.004, 1.006, 1.015, 1.03, 1.2]
    winners, tie_sets = [], []
    for _ in range(30):
        level = random.uniform(0.95, 1.05)
        plans = [
            measured(i, 30 * level * f * np.exp(0.005 * random.standard_normal(100))) for i, f in enumerate(factors)
        ]
        found = verdict(plans)
        winners.append(found.winner)
        tie_sets.append(found.tie_set)
    assert all(winner in tied for winner in winners for tied in tie_sets)


@pytest.mark.timing
def test_40_plans_of_100_samples_are_judged_in_10_ms():
    random = np.random.default_rng(10)
    plans = [measured(i, random.lognormal(3 + i / 50, 0.01, 100)) for i in range(40)]
    verdict(plans)
    spent = []
    for _ in range(7):
        began = time.process_time()
        verdict(plans)
        spent.append(time.process_time() - began)
    assert np.median(spent) < 0.010


@settings(deadline=None)
@given(
    st.sampled_from([one for one in RECORDINGS.summaries() if one.measured]),
    st.sampled_from(list(Regime)),
    st.booleans(),
    st.booleans(),
)
def test_recordings_are_judged(summary, regime, no_workspace, deterministic):
    run = RECORDINGS.get(summary.id)
    constraints = Constraints(0 if no_workspace else None, deterministic)
    found = verdict(run, regime, constraints)
    if not found.intervals:
        assert regime not in (Regime.HOT, Regime.COLD, Regime.HOST)
        return
    plans = {plan.key: plan for plan in run.plans}

    def admitted(plan):
        varies = "NONDETERMINISTIC" in plan.numerical_notes or (plan.repeats and plan.repeats.differing)
        return not (no_workspace and plan.workspace_bytes) and not (deterministic and varies)

    allowed = [key for key in found.intervals if admitted(plans[key])]
    sampled = [key for key in allowed if plans[key].timings.stopped != "screened"] or allowed
    if not sampled:
        assert found.best is None and not found.tie_set
        return
    best = min((found.intervals[key] for key in sampled), key=lambda interval: interval.median)
    assert found.intervals[found.best] == best
    for key in found.intervals:
        one = found.intervals[key]
        close = one.median <= max(1.01 * best.median, best.median + 0.1) or one.low <= best.high
        assert (key in found.tie_set) == (key in sampled and close)
    for pick in found.picks:
        assert pick.key is None or plans[pick.key].modes[pick.mode] == 0
    if regime is Regime.HOT and not constraints.demands:
        assert found.best == run.best.key
        assert [pick.regret for pick in found.picks if pick.key] == [
            pytest.approx(plan.timings.hot.median_us / run.best.timings.hot.median_us)
            for plan in run.first_picks().values()
        ]


def test_the_winner_recorded_on_the_h200_is_the_known_one():
    run = next(
        RECORDINGS.get(s.id)
        for s in RECORDINGS.summaries()
        if s.measured and s.pipeline == "matmul_epilogue" and "×1024" in s.shape
    )
    found = verdict(run)
    assert found.names[found.winner] == "eng4_k24=43"
    assert found.picks[0].regret == pytest.approx(1.25, abs=0.02)
    assert found.picks[0].close_after == 4
