"""The benchmarks' arithmetic and words, without a GPU; and a floor's builds by real cuDNN."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine.bench.repeating import OneSweep, Repeats
from engine.bench.sweeping import COVERED, Comparison, Floor, find_floor, slowest_build_alone
from engine.bench.timing import Timed, TimedPlan
from engine.cli import bench_tables
from engine.jobs.builder import small_graphs
from engine.jobs.protocol import ROOT
from engine.plans.targets import resolve_target
from engine.records.run import Phases
from engine.runs.recordings import Recordings

FLOOR = Floor(slowest_plan="eng4", build_s=1.0, survivors_s=0.25, others_s=0.1)


def recorded(pipeline):
    found = Recordings()
    return found.get(
        next(summary.id for summary in found.summaries() if summary.measured and summary.pipeline == pipeline)
    )


@pytest.fixture
def run():
    """A recorded sweep of a convolution, whose plans are compiled in advance."""
    return recorded("conv_relu")


def comparison(**changed):
    content = {
        "pipeline": "matmul",
        "environment": recorded("matmul").environment,
        "builders": 16,
        "yardstick": {"plans": 10, "failed": {}, "build_s": 10.0, "timing_s": 0.5, "total_s": 10.5, "times_us": {}},
        "span_s": 2.1,
        "phases": Phases(list_s=0.1, build_s=1.5, rounds_s=0.4, verdict_at_s=2.1),
        "prepare_s": 0.3,
        "plans": 10,
        "right": 10,
        "survivors": 6,
        "least_samples": 100,
        "executions_per_sample": {"eng4": 16},
        "floor": FLOOR,
    }
    return Comparison(**{**content, **changed})


def test_the_span_may_be_a_third_or_four_tenths_of_a_second_above_its_floor():
    assert FLOOR.total_s == pytest.approx(1.35) and FLOOR.allowed_s == pytest.approx(1.3 * 1.35)
    small = Floor(slowest_plan="eng1", build_s=0.5, survivors_s=0.1, others_s=0.0)
    assert small.allowed_s == pytest.approx(1.0)


def test_ratios():
    assert comparison().ratio == pytest.approx(5.0)
    assert comparison(yardstick=None).ratio is None


@pytest.mark.parametrize(
    ("changed", "enough"),
    [
        ({}, None),  # a matmul is held to nothing
        ({"pipeline": "sdpa"}, False),  # five times as fast, and far above its floor
        ({"pipeline": "sdpa", "span_s": 1.7}, True),
        ({"pipeline": "sdpa", "span_s": 1.7, "yardstick": None}, None),
        ({"pipeline": "matmul_epilogue", "span_s": 1.7, "yardstick": {"total_s": 6.7}}, False),
    ],
)
def test_a_sweep_is_fast_enough_by_the_yardstick_and_by_its_floor(changed, enough):
    assert comparison(**changed).is_fast_enough is enough


def test_a_table_and_the_words_below_it(capsys):
    bench_tables.print_comparisons([comparison(), comparison(yardstick=None)])
    text = capsys.readouterr().out
    assert "5.00" in text and "nothing compared" in text and "at least 100 samples of [16] executions" in text
    assert "each builder has listed the plans of three small graphs" in text and "nothing is built" in text
    assert text.count("the span is above what is allowed") == 2


def test_what_the_span_covers_is_what_builders_do_before_it():
    assert "three small graphs" in COVERED["planscope"] and len(list(small_graphs())) == 3


def test_differences_between_timers():
    plan = TimedPlan(plan="eng", hot_us=10.2, triton_us=10.0, kernels_us=9.0, kernels=2.0)
    assert plan.off_triton == pytest.approx(0.02) and plan.off_kernels == pytest.approx(10.2 / 9 - 1)
    assert plan.gap_us == pytest.approx(0.6)
    missing = TimedPlan(plan="eng", message="exec_failed: boom")
    assert missing.off_triton is missing.off_kernels is missing.gap_us is None
    assert missing.agrees_with_triton is missing.agrees_with_kernels is None


@pytest.mark.parametrize(
    ("hot", "triton", "kernels", "agrees"),
    [
        (9.9, 9.0, 5.0, (None, None)),  # too short to be held to anything
        (10.19, 10.0, 5.0, (True, None)),
        (10.3, 10.0, 5.0, (False, None)),
        (50.0, 51.1, 49.1, (False, True)),
        (50.0, None, 48.9, (None, False)),
    ],
)
def test_timers_have_to_agree_where_kernels_are_long_enough(hot, triton, kernels, agrees):
    plan = TimedPlan(plan="eng", hot_us=hot, triton_us=triton, kernels_us=kernels, kernels=1.0)
    assert (plan.agrees_with_triton, plan.agrees_with_kernels) == agrees


def test_timers_in_a_table(capsys):
    plans = (
        TimedPlan(plan="eng", hot_us=10.19, triton_us=10.0, kernels_us=9.0, kernels=2.0),
        TimedPlan(plan="bad", message="exec_failed: boom"),
    )
    bench_tables.print_timed([Timed(pipeline="p", environment=recorded("matmul").environment, plans=plans)])
    text = capsys.readouterr().out
    assert "+1.9%" in text and "exec_failed: boom" in text
    assert "1 of 1 plan of at least 10 us within 2% of do_bench_cudagraph" in text
    assert "0 of 0 plans of at least 50 us within 2% of the kernels' own times" in text


def test_a_winner_outside_another_sweep_s_tie_set_is_a_disagreement(capsys):
    def one(winner, *tied):
        return OneSweep(winner=winner, tie_set=tied, medians_us=dict.fromkeys(tied, 1.0), span_s=1.0)

    environment = recorded("matmul").environment
    agreeing = Repeats(pipeline="p", environment=environment, sweeps=(one("a", "a", "b"), one("b", "b", "a")))
    assert agreeing.disagreements == []
    split = Repeats(
        pipeline="p", environment=environment, sweeps=(one("a", "a", "b"), one("b", "b"), one("b", "a", "b"))
    )
    assert split.disagreements == [(0, 1)]
    bench_tables.print_repeats([agreeing, split])
    assert "no" in capsys.readouterr().out


def test_a_floor_counts_samples_of_survivors_and_one_execution_of_each_other(run, monkeypatch):
    monkeypatch.setattr("engine.bench.sweeping.slowest_build_alone", lambda run, target: ("eng", 0.5))
    best, *others = run.timed()
    floor = find_floor(run, [best], resolve_target("h200"))
    hot = best.timings.hot
    assert floor.survivors_s == pytest.approx(100 * hot.executions * hot.median_us * 1e-6)
    assert floor.others_s == pytest.approx(sum(plan.timings.hot.median_us for plan in others) * 1e-6)
    assert floor.build_s == 0.5


@pytest.mark.cudnn
@pytest.mark.process
def test_the_slowest_build_is_made_again_alone(run):
    """Plans of the recording that this cuDNN does not know are left out; what is built took some time."""
    name, seconds = slowest_build_alone(run, resolve_target("h200"))
    assert (name == "none") == (seconds == 0.0) and seconds < 120


@pytest.mark.parametrize("command", ["sweep", "timing", "repeat"])
def test_without_a_gpu_there_is_nothing_to_measure(command):
    ask = [sys.executable, "-m", "engine", "bench", command, "--json"]
    env = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(ask, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "no NVIDIA GPU" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize(
    "arguments", [["sweep", "nonsense"], ["sweep", "--preset", "hasty"], ["repeat", "--times", "1"]]
)
def test_bad_arguments_are_told_before_anything_is_measured(arguments):
    ask = [sys.executable, "-m", "engine", "bench", *arguments]
    done = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "error" in done.stderr
