"""The choice of knobs to try next: legal, new, repeatable, near what is fast, and spread out."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.plans.engines import KnobRange, ranges_of
from engine.plans.knob_search import KnobSpace, Standing, choose, near_best, one_by_one
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status

SPLIT = KnobRange(name="SPLIT_K_SLC", low=1, high=128)
CONFIG = KnobRange(name="KERNEL_CFG", low=0, high=55)
STREAM = KnobRange(name="STREAM_K", low=1, high=2)
SPACE = KnobSpace(4, (SPLIT, CONFIG, STREAM))


def plan(engine, time_us=None, **knobs):
    return Standing(PlanIdentity(engine_id=engine, knobs=knobs), time_us)


KNOWN = [plan(4, 10.0, KERNEL_CFG=43), plan(4, 30.0, KERNEL_CFG=2), plan(7, 14.0, KERNEL_CFG=21)]


def keys(choices):
    return [choice.key for choice in choices]


@given(
    seed=st.integers(0, 2**63 - 1),
    count=st.integers(0, 20),
    ranges=st.lists(
        st.builds(
            lambda name, low, span, stride: KnobRange(name=name, low=low, high=low + span, stride=stride),
            st.sampled_from(["TILE_M", "TILE_N", "STAGES"]),
            st.integers(-2, 5),
            st.integers(0, 200),
            st.integers(1, 7),
        ),
        unique_by=lambda knob: knob.name,
        max_size=3,
    ),
)
def test_choices_are_legal_and_new_and_repeat(seed, count, ranges):
    space = KnobSpace(1, tuple(ranges))
    base = plan(1, 5.0, **{knob.name: knob.low for knob in ranges[:1]})
    tried = {PlanIdentity(engine_id=1, knobs={knob.name: knob.low for knob in ranges}).key}
    chosen = choose([space], [base], tried, seed, count)
    assert chosen == choose([space], [base], tried, seed, count)
    assert len(chosen) <= count and len(set(keys(chosen))) == len(chosen)
    assert not {base.identity.key, *tried} & set(keys(chosen))
    for choice in chosen:
        assert choice.engine_id == 1
        assert all(choice.knobs[knob.name] in knob.values for knob in ranges if knob.name in choice.knobs)
        assert set(choice.knobs) <= {knob.name for knob in ranges}


def test_another_seed_or_further_tries_give_other_choices():
    first = choose([SPACE], KNOWN, (), 0, 6)
    assert first != choose([SPACE], KNOWN, (), 1, 6)
    assert not set(keys(first)) & set(keys(choose([SPACE], KNOWN, keys(first), 0, 6)))


def test_a_small_space_is_used_up_and_then_there_is_nothing_left():
    space = KnobSpace(4, (KnobRange(name="STREAM_K", low=0, high=5, stride=5), KnobRange(name="STAGES", low=1, high=3)))
    base = plan(4, 1.0, STREAM_K=0, STAGES=1)
    chosen = choose([space], [base], (), 0, 50)
    assert len(chosen) == 3 * 4 - 2, "each knob may be left out; less the plan there is, and no choice at all"
    assert choose([space], [base], keys(chosen), 0, 50) == []
    assert choose([KnobSpace(4, ())], [base], (), 0, 50) == []


def test_choices_start_from_plans_or_from_defaults():
    everything = plan(4, 10.0, KERNEL_CFG=43, STREAM_K=1, SPLIT_K_SLC=2)
    sizes = Counter(len(choice.knobs) for choice in choose([SPACE], [everything], (), 0, 60))
    assert sizes[3] > sizes[1] > 0 and sizes[3] > sizes[2] > 0 and sizes[0] == 0
    assert {len(choice.knobs) for choice in choose([SPACE], [], (), 0, 60)} == {1, 2, 3}


def test_one_knob_at_a_time_kernel_configurations_first():
    def told(count):
        return keys(one_by_one(SPACE, count))

    assert told(56) == [f"4;KERNEL_CFG={value}" for value in range(56)]
    assert told(20) == [f"4;KERNEL_CFG={value}" for value in range(0, 56, 3)] + ["4;SPLIT_K_SLC=1"]
    assert told(58)[56:] == ["4;SPLIT_K_SLC=1", "4;SPLIT_K_SLC=65"]
    assert len(told(1000)) == 56 + 128 + 2 and told(0) == []


def test_choices_keep_some_knobs_of_the_fastest_plans():
    """KERNEL_CFG has 56 values: by chance alone one in 56 would be a fast plan's."""
    chosen = [choice for seed in range(4) for choice in choose([SPACE], KNOWN, (), seed, 60)]
    kept = Counter(choice.knobs.get("KERNEL_CFG") for choice in chosen)
    assert min(kept[43], kept[2]) > 12, "4 of 240 each by chance"


def test_choices_spread():
    """14 values drawn out of 56 at random leave a gap of 11.3 somewhere, in the mean of many draws."""
    space, largest = KnobSpace(4, (CONFIG,)), []
    for seed in range(20):
        choices = choose([space], [plan(4, 1.0, KERNEL_CFG=20)], (), seed, 14)
        values = [-1, *sorted(choice.knobs["KERNEL_CFG"] for choice in choices), 56]
        assert len(set(values)) == 16
        largest.append(max(b - a for a, b in pairwise(values)))
    assert sum(largest) / 20 < 10


def test_counts_are_drawn_by_ratio():
    chosen = choose([KnobSpace(4, (SPLIT,))], [plan(4, 1.0)], (), 0, 30)
    values = [choice.knobs["SPLIT_K_SLC"] for choice in chosen]
    assert sum(value <= 11 for value in values) >= 8, "a third and more below the geometric middle"
    assert any(value > 40 for value in values)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (KNOWN, [4, 7]),
        ([*KNOWN, plan(9, 15.1), plan(1, 8.0), plan(2)], [1, 4]),
        ([plan(7), plan(4), plan(7, KERNEL_CFG=1)], [7, 4]),
        ([], []),
    ],
)
def test_engines_near_the_best(known, expected):
    """1.5 times the best at most; in the order of the lists where nothing was measured."""
    assert near_best(known) == expected


def test_the_nearest_engine_gets_half_and_what_was_spent_counts():
    other = KnobSpace(7, (CONFIG, STREAM))
    shares = Counter(choice.engine_id for choice in choose([SPACE, other], KNOWN, (), 0, 30))
    assert shares == {4: 20, 7: 10}
    later = Counter(choice.engine_id for choice in choose([SPACE, other], KNOWN, (), 0, 30, spent={4: 100.0}))
    assert later == {7: 30}


def test_ranges_come_from_the_plans_where_an_engine_tells_none():
    def record(engine, **knobs):
        identity = PlanIdentity(engine_id=engine, knobs=knobs)
        return PlanRecord(identity=identity, plan_name="p", modes={"A": 0}, status=Status.LISTED, stage=Stage.LIST)

    plans = [record(41, TILE_SIZE=3, TILEK=1), record(41, TILE_SIZE=9, TILEK=1), record(4, TILE_SIZE=70), record(41)]
    found = ranges_of({plan.key: plan for plan in plans}, 41)
    assert [(knob.name, knob.low, knob.high) for knob in found] == [("TILEK", 1, 1), ("TILE_SIZE", 3, 9)]
    assert ranges_of({}, 41) == ()
