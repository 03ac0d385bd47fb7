"""What people read: every sentence, from plans made for it, and the sentences of every recording."""

from __future__ import annotations

import numpy as np
import pytest

from engine.records.circumstances import circumstances
from engine.records.confirming import confirm
from engine.records.constraints import Constraints
from engine.records.environment import GpuInfo
from engine.records.gpu_state import GpuState
from engine.records.plan import PlanOrigin, Status
from engine.records.run import Baseline, Confirmation, RunStatus
from engine.records.samples import Samples
from engine.records.sentences import cost_sentence, pick_sentence, sentences, winner_sentence
from engine.records.timings import Regime, Timings
from engine.records.verdict import verdict
from engine.records.wording import count_bytes, factor, listing, microseconds, percent, span
from engine.runs.recordings import Recordings
from tests.records.sample_plans import failed, measured, run_of

CAP = GpuState(sm_clock_mhz=1710, throttle_reasons=("software power cap",))
FREE = GpuState(sm_clock_mhz=1980)
HEAT = GpuState(sm_clock_mhz=1200, throttle_reasons=("hardware thermal slowdown", "hardware power brake"))


def texts(run, topic):
    return [sentence.text for sentence in sentences(run) if sentence.topic == topic]


def test_a_winner_with_its_interval_and_its_distance():
    spread = [9.97, 9.98, 9.99, 10.0, 10.01, 10.02, 10.03]
    found = verdict([measured(0, spread), measured(1, [12.5] * 7), failed(2, Status.CRASHED)])
    assert winner_sentence(found) == (
        "eng0 wins hot with 10.000 µs (95 % interval 9.970 to 10.030 µs); the next plan takes 1.25x as long."
    ).replace("10.000", "10.00").replace("10.030", "10.03")
    assert (
        winner_sentence(verdict([measured(0, [5.0])]))
        == "eng0 wins hot with 5.000 µs (1 sample); no other plan was measured."
    )


def test_what_few_samples_span_is_not_called_an_interval():
    few = winner_sentence(verdict([measured(0, [20.1, 20.3, 20.5, 20.7])]))
    assert few.startswith("eng0 wins hot with 20.40 µs (20.10 to 20.70 µs in 4 samples); ")
    six = winner_sentence(verdict([measured(0, [20.1, 20.2, 20.3, 20.5, 20.6, 20.7])]))
    assert "(95 % interval 20.10 to 20.70 µs)" in six


def test_plans_that_do_not_meet_the_constraints_are_not_said_to_be_unmeasured():
    plans = [measured(i, [10.0 + i] * 9, workspace_bytes=ws) for i, ws in enumerate((8, 0, 8, 0))]
    strict = Constraints(workspace_limit_bytes=0)
    assert winner_sentence(verdict(plans, constraints=strict)).endswith(
        "the next plan that meets the constraints takes 1.18x as long."
    )
    alone = winner_sentence(verdict(plans[:2], constraints=strict))
    assert alone.endswith("; no other measured plan meets the constraints.")
    assert winner_sentence(verdict(plans[:3], constraints=strict)) == alone


def test_plans_that_tie_and_why_one_is_chosen():
    plans = [measured(i, [25.0 + i / 100], workspace_bytes=64 * (i != 1)) for i in range(3)]
    assert winner_sentence(verdict(plans)) == (
        "3 plans tie hot at 25.00 to 25.02 µs: eng0, eng1 and eng2. "
        "eng1 is chosen among them for the smallest workspace."
    )


def test_no_winner():
    assert winner_sentence(verdict([])) == "No right plan was measured hot."
    assert winner_sentence(verdict([measured(0, [1.0])], Regime.END_TO_END)) == "No right plan was measured end to end."
    strict = Constraints(workspace_limit_bytes=1 << 20, capturable_only=True)
    found = verdict([measured(0, [1.0], workspace_bytes=1 << 21)], constraints=strict)
    assert winner_sentence(found) == (
        "None of 1 measured plan meets the constraints (At most 1 MiB of workspace; Capturable plans only)."
    )
    assert cost_sentence(found.costs[0]) == "At most 1 MiB of workspace: leaves no plan."


def test_what_trusting_each_mode_costs():
    plans = [
        measured(0, [12.6] * 9, modes={"A": 0}),
        failed(1, Status.BUILD_FAILED, modes={"B": 0}),
        measured(2, [10.15] * 9, modes={"A": 1, "FALLBACK": 1}),
        measured(3, [10.0] * 9, modes={"FALLBACK": 0, "B": 1, "C": 0}),
        measured(4, [10.0] * 9, modes={"D": 0}),
        measured(5, [99.0] * 9, modes={"E": 3}),
    ]
    found = verdict(plans, modes=("A", "B", "FALLBACK", "C", "D", "E", "Z"))
    assert [pick_sentence(found, pick) for pick in found.picks] == [
        "Mode A's first pick eng0 takes 1.26x as long as the best; "
        "one within 2 % of the best comes after 2 of its 2 plans.",
        "Mode B's first pick eng1: build failed; one within 2 % of the best comes after 2 of its 2 plans.",
        "Mode FALLBACK's first pick eng3 wins.",
        "Mode C's first pick eng3 wins.",
        "Mode D's first pick eng4 ties with the best.",
        "Mode E's first pick is not in the run; none of its 1 plan comes within 2 % of the best.",
        "Mode Z lists no plan.",
    ]


def test_a_first_pick_that_breaks_a_constraint():
    plans = [measured(0, [8.0] * 9, workspace_bytes=64), measured(1, [10.0] * 9)]
    found = verdict(plans, constraints=Constraints(workspace_limit_bytes=0))
    assert pick_sentence(found, found.picks[0]) == (
        "Mode A's first pick eng0 does not meet the constraints (0.800x the best that does); "
        "one within 2 % of the best comes after 2 of its 2 plans."
    )
    assert cost_sentence(found.costs[0]) == "No workspace: costs 25 % and excludes 1 plan."
    assert cost_sentence(found.costs[1]) == "Deterministic plans only: excludes none of the measured plans."
    free = verdict([measured(0, [8.0] * 9, workspace_bytes=64), measured(1, [80.0] * 9)])
    assert cost_sentence(free.costs[0]) == "No workspace: would cost 10.0x the time and exclude 1 plan."
    equal = verdict([measured(0, [8.0] * 9, workspace_bytes=64), measured(1, [8.01] * 9)])
    assert cost_sentence(equal.costs[0]) == "No workspace: would cost nothing that can be told and exclude 1 plan."


@pytest.mark.parametrize(
    ("us", "ending"),
    [
        (
            9.0,
            "Of 1 plan that no mode lists eng1, found by the knob search, beats every listed one: "
            "it takes 0.900x the time of the best of these.",
        ),
        (
            10.05,
            "The one plan that no mode lists is not faster than the listed ones; "
            "eng1, found by the knob search, ties with the best of these.",
        ),
        (
            15.0,
            "The one plan that no mode lists is not faster than the listed ones; "
            "eng1, found by the knob search, takes 1.50x as long.",
        ),
    ],
)
def test_whether_searching_paid(us, ending):
    beyond = measured(1, [us] * 9, modes={}, origin=PlanOrigin.KNOB_SEARCH)
    assert texts(run_of([measured(0, [10.0] * 9), beyond]), "unlisted") == [
        "Besides the listed plans: 1 knob choice (1 measured).",
        ending,
    ]


def test_where_the_winner_changes():
    plans = [
        measured(0, [10.0] * 9, regimes={"cold": [30.0] * 9, "end_to_end": [40.0] * 9}),
        measured(1, [12.0] * 9, regimes={"cold": [20.0] * 9, "end_to_end": [41.0] * 9}),
    ]
    assert texts(run_of(plans), "regimes") == [
        "The winner changes: hot eng0, cold eng1 (there the hot one takes 1.50x as long)."
    ]
    assert texts(run_of(plans[:1]), "regimes") == ["The winner stays: eng0 is among the best hot, cold and end to end."]
    shared = [
        *plans,
        measured(2, [10.05] * 9, workspace_bytes=8, regimes={"cold": [20.0] * 9, "end_to_end": [40.0] * 9}),
    ]
    assert texts(run_of(shared), "regimes")[0].endswith(". eng2 is among the best in all of them.")
    assert texts(run_of([measured(0, [1.0])]), "regimes") == []


def confirmed(winner_us, first_us, noisy, **changes):
    plans = [measured(0, [12.0] * 9), measured(1, [10.0] * 9)]
    record = Confirmation(
        winner="1", first_pick="0", winner_us=Samples.of(noisy(winner_us)), first_pick_us=Samples.of(noisy(first_us))
    )
    return run_of(plans, confirmation=record, **changes)


@pytest.mark.parametrize(
    ("winner_us", "first_us", "outcome", "beginning"),
    [
        (10.0, 12.0, "confirmed", "The difference is confirmed: in a fresh process, in turns, eng1 took"),
        (10.0, 10.02, "same", "No difference that matters: in a fresh process"),
        (2.0, 2.08, "same", "No difference that matters"),  # 100 ns
        (12.0, 10.0, "reversed", "The order is reversed: do not trust the sweep: in a fresh process"),
    ],
)
def test_a_confirmation(winner_us, first_us, outcome, beginning, noisy):
    found = confirm(confirmed(winner_us, first_us, noisy))
    assert found.outcome == outcome
    assert found.sentence.startswith(beginning)
    assert found.ratio.median == pytest.approx(first_us / winner_us, rel=0.002)
    assert found.sentence.endswith(", 100 pairs).")


def test_pairs_take_out_what_both_went_through(noisy):
    """Clocks that swing by 30 % and a difference of 2 %: seen all the same."""
    swing = [1.0 if i % 20 < 10 else 1.3 for i in range(100)]
    own = noisy(10.0) * swing
    record = Confirmation(
        winner="1", first_pick="0", winner_us=Samples.of(own), first_pick_us=Samples.of(noisy(10.2) * swing)
    )
    found = confirm(run_of([measured(0, [12.0]), measured(1, [10.0])], confirmation=record))
    assert found.outcome == "confirmed"
    assert 1.017 < found.ratio.low < found.ratio.high < 1.023


def test_a_confirmation_that_failed(noisy):
    record = Confirmation(winner="1", first_pick="0", message="the first pick hung")
    run = run_of([measured(0, [12.0] * 9), measured(1, [10.0] * 9)], confirmation=record)
    assert confirm(run).outcome == "failed"
    assert texts(run, "confirmation") == [
        "eng1 could not be confirmed against the first pick eng0: the first pick hung"
    ]
    assert confirm(run_of([])) is None


def test_clocks_that_were_held_down_by_round():
    states = tuple(CAP if i % 10 < 3 else FREE for i in range(40))
    plans = [measured(0, [1.0], states=states), measured(1, [1.0], states=states[:10]), failed(2, Status.CRASHED)]
    assert circumstances(plans) == ["Power capping was active in 12 of 40 rounds (SM clock 1,710 to 1,980 MHz)."]
    assert circumstances([measured(0, [1.0], states=(FREE,) * 9)]) == []
    hot = circumstances([measured(0, [1.0], states=(HEAT, CAP))])
    assert hot == [
        "Power capping was active in 2 of 2 rounds; thermal slowdown was active in 1 of 2 rounds (SM clock 1,200 to "
        "1,710 MHz)."
    ]


def test_clocks_that_were_held_down_by_plan_where_rounds_were_not_kept():
    assert circumstances([measured(0, [1.0], gpu=CAP), measured(1, [1.0], gpu=FREE), measured(2, [1.0])]) == [
        "Power capping was active while 1 of 2 plans were timed (SM clock 1,710 to 1,980 MHz)."
    ]
    unknown = GpuState(throttle_reasons=("something new",))
    assert circumstances([measured(0, [1.0], gpu=unknown)]) == ["Something new was active while 1 of 1 plan was timed."]


def test_samples_set_aside_and_sampling_that_ended_early():
    plans = [
        measured(0, [1.0], set_aside=30, stopped="budget"),
        measured(1, [1.0], set_aside=1, stopped="budget"),
        measured(2, [1.0], stopped="precise"),
        measured(3, [9.0], stopped="screened"),
    ]
    assert circumstances(plans) == [
        "31 samples of 2 plans set aside: the SM clock was below 75 % of the rated one.",
        "Sampling ended by its budget of time and samples for 2 plans, before the error was small enough.",
        "1 plan is beyond any doubt far from the best and got no more samples than that took.",
    ]


def test_what_held_clocks_down_beside_the_plans_is_told():
    plans = [measured(0, [1.0] * 3, states=(FREE,) * 3, stopped="precise")]
    torch = Timings(hot=Samples.of([2.0] * 4), states=(CAP,) * 3 + (FREE,), set_aside=2)
    baseline = Baseline(name="torch eager", accuracy=(), timings=torch)
    pairs = {"winner_us": Samples.of([1.0] * 2), "first_pick_us": Samples.of([1.0] * 2), "states": (CAP, FREE)}
    run = run_of(plans, baseline=baseline, confirmation=Confirmation(winner="0", first_pick="1", **pairs))
    said = circumstances(run)
    for text in (
        "While torch eager was timed, power capping was active in 3 of 4 rounds (SM clock 1,710 to 1,980 MHz).",
        "2 samples of torch eager set aside: the SM clock was below 75 % of the rated one.",
        "The SM clock was 1,710 MHz while torch eager was timed by itself, and 1,980 MHz in the plans' rounds "
        "(medians): part of the difference between their times is the clock's.",
        "In the confirmation power capping was active in 1 of 2 rounds (SM clock 1,710 to 1,980 MHz).",
    ):
        assert text in said
    well = run.model_copy(update={"baseline": baseline.model_copy(update={"timings": None}), "confirmation": None})
    assert not any("torch" in text or "capping" in text for text in circumstances(well))


def test_plans_that_were_screened_at_another_clock_than_the_rounds_are_said_to_look_faster_or_slower():
    def said(screened_mhz, rounds_mhz, count=2):
        behind = GpuState(sm_clock_mhz=screened_mhz)
        rounds = (GpuState(sm_clock_mhz=rounds_mhz),) * 3
        plans = [measured(0, [1.0] * 3, states=rounds, stopped="precise")]
        plans += [measured(i, [9.0], gpu=behind, stopped="screened") for i in range(1, count + 1)]
        return [text for text in circumstances(plans) if "screened out" in text]

    assert said(1980, 1620) == [
        "2 plans were screened out at an SM clock of 1,980 MHz, and the rounds ran at 1,620 MHz (medians): beside the "
        "best they look faster than they are."
    ]
    assert said(1620, 1980, count=1) == [
        "1 plan was screened out at an SM clock of 1,620 MHz, and the rounds ran at 1,980 MHz (medians): beside the "
        "best it looks slower than it is."
    ]
    assert said(1980, 1965) == said(1980, None) == said(None, 1980) == said(1980, 1620, count=0) == []


def test_plans_that_left_the_rounds_at_different_times_while_the_clock_changed_are_told_of():
    def said(clocks, *counts, stopped="precise"):
        plans = [
            measured(i, [1.0] * n, states=tuple(GpuState(sm_clock_mhz=clocks[j % len(clocks)]) for j in range(n)))
            for i, n in enumerate(counts)
        ]
        ended = [
            plan.model_copy(update={"timings": plan.timings.model_copy(update={"stopped": stopped})}) for plan in plans
        ]
        return [text for text in circumstances(ended) if "same rounds" in text]

    assert said((1980, 1515), 100, 209) == [
        "Plans have 100 to 209 samples, so not all of the same rounds, and the SM clock changed between rounds: part "
        "of the difference between medians is the clock's."
    ]
    assert (
        said((1980, 1515), 100, 100) == said((1980,), 100, 209) == [] == said((1980, 1515), 4, 11, stopped="screened")
    )
    recordings = Recordings()
    runs = [recordings.get(one.id) for one in recordings.summaries() if one.measured]
    told = {run.id[:4] for run in runs if "not all of the same rounds" in " ".join(circumstances(run))}
    assert told == {"0009"}


def test_cold_times_below_hot_ones_are_put_down_to_the_clock_that_the_rounds_held_down():
    def said(state, *cold):
        plans = [
            measured(i, [90.0] * 3, states=(state,) * 3, regimes={"cold": [us]}, stopped="precise")
            for i, us in enumerate(cold)
        ]
        return [text for text in circumstances(plans) if "cold" in text]

    assert said(CAP, 83.0, 84.0, 95.0) == [
        "2 of 3 plans took less time cold, one execution at a time, than hot, in rounds that held the clock down: "
        "regimes differ by their clocks too."
    ]
    assert said(CAP, 95.0) == said(FREE, 83.0) == []


def test_the_recordings_in_which_clocks_differed_between_screening_rounds_and_regimes_say_so():
    recordings, told = Recordings(), {}
    for summary in filter(lambda one: one.measured, recordings.summaries()):
        said = " ".join(circumstances(recordings.get(summary.id)))
        told[summary.id[:4]] = ("look faster than they are" in said, "took less time cold" in said)
    assert told["bab9"] == told["0009"] == (True, True)
    assert {(True, True), (True, False), (False, False)} == set(told.values())


def test_the_recordings_in_which_torch_had_another_clock_say_so():
    held = {}
    for summary in filter(lambda one: one.measured, Recordings().summaries()):
        run = Recordings().get(summary.id)
        mine, theirs = (
            [state.sm_clock_mhz for one in timings for state in one.states]
            for timings in ([run.baseline.timings], [plan.timings for plan in run.plans if plan.timings])
        )
        apart = not 1 / 1.01 <= np.median(mine) / np.median(theirs) <= 1.01
        capped = any(state.throttle_reasons for state in run.baseline.timings.states)
        said = circumstances(run)
        assert any("was timed by itself" in text for text in said) == apart
        assert any(text.startswith("While torch eager was timed, power capping") for text in said) == capped
        held[summary.id] = (apart, capped)
    assert {(True, True), (False, True), (False, False)} == set(held.values())


def test_a_run_that_was_cut_short_says_whose_samples_are_too_few():
    plans = [measured(0, [1.0] * 4), measured(1, [1.0] * 30, states=(FREE,)), measured(2, [9.0], stopped="screened")]
    said = "The sweep was cut short: 2 plans did not get all the samples that were wanted."
    assert said in circumstances(run_of(plans, status=RunStatus.CANCELLED))
    assert said not in circumstances(run_of(plans))
    assert not any("cut short" in one for one in circumstances(run_of(plans[2:], status=RunStatus.FAILED)))


def test_low_clocks_are_judged_only_where_the_rated_one_is_known():
    low, high = GpuState(sm_clock_mhz=1400), GpuState(sm_clock_mhz=1980)
    plans = [measured(0, [1.0, 2.0], states=(low, high)), measured(1, [1.0], states=(GpuState(),))]
    bare = run_of(plans)
    unknown = "The rated SM clock is not known: no sample was set aside for a low clock."
    assert circumstances(bare) == [unknown] and circumstances(plans) == []
    gpu = GpuInfo(name="NVIDIA H200", compute_capability="9.0", sm_count=132, memory_bytes=1 << 37)

    def on(rated):
        told = gpu.model_copy(update={"rated_sm_clock_mhz": rated})
        return bare.model_copy(update={"environment": bare.environment.model_copy(update={"gpu": told})})

    assert circumstances(on(None)) == [unknown]
    assert circumstances(on(1755)) == []
    assert circumstances(on(1980)) == [
        "1 sample below 75 % of the rated SM clock was kept: the clock did not come up again (down to 1,400 of 1,980 "
        "MHz)."
    ]
    assert circumstances(run_of([failed(0, Status.CRASHED)])) == []


def test_the_sentences_of_a_run_in_order():
    asked = run_of([measured(0, [1.0], gpu=CAP)]).options.model_copy(update={"deterministic_only": True})
    run = run_of([measured(0, [1.0], gpu=CAP)], options=asked)
    topics = [sentence.topic for sentence in sentences(run)]
    assert topics == ["winner", *["heuristics"] * 3, "constraints", "circumstances", "circumstances"]
    assert sentences(run_of([failed(0, Status.CRASHED)])) == []
    assert sentences(run, regime=Regime.COLD) == []


def test_every_recording_has_something_to_say():
    recordings = Recordings()
    for summary in filter(lambda one: one.measured, recordings.summaries()):
        run = recordings.get(summary.id)
        said = sentences(run)
        assert said[0].topic == "winner"
        assert sum(sentence.topic == "heuristics" for sentence in said) == len(run.options.modes)
        for sentence in said:
            assert sentence.text[0].isupper() or sentence.text[0].isdigit() or sentence.topic == "winner"
            assert sentence.text.endswith(".")
            assert "None" not in sentence.text.replace("None of", "")
            assert "nan" not in sentence.text


@pytest.mark.parametrize(
    ("value", "doubt", "text"),
    [
        (25.3612, 0, "25.36 µs"),
        (25.3612, 2.0, "25.4 µs"),
        (25.3612, 40, "25 µs"),
        (999.96, 0, "1.000 ms"),
        (999.91, 0, "999.9 µs"),
        (120_654.0, 0, "120.7 ms"),
        (0.1234, 0, "0.1234 µs"),
        (2.5e6, 0, "2.500 s"),
    ],
)
def test_times_have_as_many_digits_as_they_are_worth(value, doubt, text):
    assert microseconds(value, doubt) == text


def test_other_numbers():
    assert [factor(v) for v in (1.2634, 22.11, 1480.0, 0.95)] == ["1.26x", "22.1x", "1,480x", "0.950x"]
    assert [percent(v) for v in (0.032, 0.0994, 0.1, 1.07)] == ["3.2 %", "9.9 %", "10 %", "107 %"]
    assert [count_bytes(v) for v in (0, 1, 262_656, 1 << 25, None)] == [
        "0 B",
        "1 B",
        "256.5 KiB",
        "32 MiB",
        "an unknown amount",
    ]
    assert span(34.46, 34.47) == "34.46 to 34.47 µs"
    assert span(999.0, 1001.0) == "999.0 µs to 1.001 ms"
    assert span(5.0, 5.0) == "5.000 µs"
    assert listing(["a"]) == "a"
    assert listing(list("abcde")) == "a, b, c, d and e"
    assert listing(list("abcdef")) == "a, b, c, d and 2 more"
