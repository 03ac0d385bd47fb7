"""`bench` without a GPU: what the commands write of benchmarks that were made, and of those that failed."""

from __future__ import annotations

import json
import os
import signal

import pytest

from engine.bench.repeating import OneSweep, Repeats
from engine.bench.sweeping import COVERED, Comparison, Floor
from engine.bench.timing import Timed, TimedPlan
from engine.cli.bench import _local as LOCAL
from engine.jobs.protocol import ROOT, JobError
from engine.plans.targets import resolve_target
from engine.records.environment import Environment, GpuInfo
from engine.records.run import Phases

GPU = GpuInfo(name="NVIDIA H200", uuid="GPU-1", compute_capability="9.0", sm_count=132, memory_bytes=1 << 37)
ENVIRONMENT = Environment(
    gpu=GPU, cudnn_backend="9.19.0", cudnn_frontend="1.32.0", python="3.12", host="h", os="Linux", torch="2.11.0"
)
YARDSTICK = {"plans": 6, "failed": {}, "build_s": 2.4, "timing_s": 0.1, "total_s": 2.5, "times_us": {}}


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A GPU that nothing here uses."""
    monkeypatch.setattr("engine.cli.bench._local", lambda out: (resolve_target("h200"), GPU))
    monkeypatch.setattr("engine.bench.sweeping.run_yardstick", lambda names, uuid: [YARDSTICK] * len(names))


def compare(name, yardstick, *_):
    if name == "sdpa":
        raise JobError("the sweep of sdpa ended as failed: the GPU is gone")
    return Comparison(
        pipeline=name,
        environment=ENVIRONMENT,
        yardstick=yardstick,
        builders=16,
        span_s=0.5,
        phases=Phases(verdict_at_s=0.5),
        prepare_s=None,
        plans=6,
        right=6,
        survivors=1,
        least_samples=100,
        executions_per_sample={"eng4": 16},
        floor=Floor(slowest_plan="eng4", build_s=0.3, survivors_s=0.0, others_s=0.0),
    )


def test_a_graph_that_fails_costs_its_own_comparison_and_the_exit_status(invoke, monkeypatch, tmp_path):
    monkeypatch.setattr("engine.bench.sweeping.compare", compare)
    out = tmp_path / "sweep.json"
    result = invoke("bench", "sweep", "matmul_epilogue", "sdpa", "--out", out, "--json")
    assert result.exit_code == 1 and "the GPU is gone" in result.stderr
    told = json.loads(result.stdout)
    assert told == json.loads(out.read_text())
    assert told["benchmark"] == "sweep" and told["covered"] == COVERED and told["at"].endswith("+00:00")
    assert told["failed"] == {"sdpa": "the sweep of sdpa ended as failed: the GPU is gone"}
    (one,) = told["results"]
    assert (one["ratio"], one["wanted_ratio"], one["allowed_s"], one["is_fast_enough"]) == (5.0, 4.0, 0.7, True)
    assert one["environment"]["cudnn_backend"] == "9.19.0" and one["environment"]["gpu"]["name"] == "NVIDIA H200"
    people = invoke("bench", "sweep", "matmul_epilogue", "--no-yardstick")
    assert people.exit_code == 0 and "the plans of three small graphs" in people.stdout


@pytest.mark.parametrize("command", ["sweep", "timing", "repeat"])
def test_without_a_gpu_it_says_what_there_is(invoke, monkeypatch, command):
    monkeypatch.setattr("engine.cli.bench._local", LOCAL)
    monkeypatch.setattr("engine.machine.gpus.list_gpus", lambda: ())
    result = invoke("bench", command)
    assert result.exit_code == 1 and "no NVIDIA GPU" in result.stderr and "recordings/benchmarks" in result.stderr
    assert (ROOT / "engine" / "runs" / "recordings" / "benchmarks" / f"{command}.json").is_file()


def test_what_was_measured_before_it_was_cancelled_is_written(invoke, monkeypatch, tmp_path):
    def until_cancelled(name, *rest):
        if name == "sdpa":
            raise KeyboardInterrupt
        return compare(name, *rest)

    monkeypatch.setattr("engine.bench.sweeping.compare", until_cancelled)
    out = tmp_path / "sweep.json"
    assert invoke("bench", "sweep", "matmul", "sdpa", "conv_relu", "--out", out).exit_code == 130
    told = json.loads(out.read_text())
    assert [one["pipeline"] for one in told["results"]] == ["matmul"]
    assert told["failed"] == {"sdpa": "cancelled", "conv_relu": "cancelled"}


def test_ctrl_c_during_the_yardstick_is_written_like_any_other(invoke, monkeypatch, tmp_path):
    def pressed(names, uuid):
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda *_: pytest.fail("ended then and there"))
    try:
        monkeypatch.setattr("engine.bench.sweeping.run_yardstick", pressed)
        monkeypatch.setattr("engine.bench.sweeping.compare", lambda *_: pytest.fail("swept"))
        out = tmp_path / "sweep.json"
        assert invoke("bench", "sweep", "matmul", "sdpa", "--out", out).exit_code == 130
    finally:
        signal.signal(signal.SIGINT, before)
    told = json.loads(out.read_text())
    assert (told["results"], told["failed"]) == ([], {"matmul": "cancelled", "sdpa": "cancelled"})


def test_a_folder_that_is_not_there_is_named_before_anything_is_swept(invoke, monkeypatch, tmp_path):
    monkeypatch.setattr("engine.bench.sweeping.compare", lambda *_: pytest.fail("swept"))
    result = invoke("bench", "sweep", "matmul", "--keep", tmp_path / "none")
    assert result.exit_code == 2 and "--keep" in result.stderr


@pytest.mark.parametrize(("triton_us", "status"), [(20.1, 0), (21.0, 1), (None, 0)])
def test_timers_that_disagree_are_an_exit_status(invoke, monkeypatch, triton_us, status):
    plan = TimedPlan(plan="eng4", hot_us=20.0, executions=20, triton_us=triton_us, kernels_us=17.0, kernels=1.0)
    found = Timed(pipeline="matmul", environment=ENVIRONMENT, plans=(plan,))
    monkeypatch.setattr("engine.bench.timing.time_pipeline", lambda *_: found)
    result = invoke("bench", "timing", "matmul", "--json")
    assert result.exit_code == status
    (timed,) = json.loads(result.stdout)["results"]
    assert timed["environment"]["torch"] == "2.11.0" and timed["plans"][0]["gap_us"] == pytest.approx(3.0)
    assert timed["plans"][0]["agrees_with_kernels"] is None


def test_a_plan_that_could_not_be_timed_is_an_exit_status(invoke, monkeypatch):
    plans = (TimedPlan(plan="eng4", hot_us=20.0), TimedPlan(plan="eng7", message="exec_failed: boom"))
    found = Timed(pipeline="matmul", environment=ENVIRONMENT, plans=plans)
    monkeypatch.setattr("engine.bench.timing.time_pipeline", lambda *_: found)
    assert invoke("bench", "timing", "matmul").exit_code == 1


@pytest.mark.parametrize(("winner", "status"), [("eng4", 0), ("eng7", 1)])
def test_sweeps_that_disagree_are_an_exit_status(invoke, monkeypatch, winner, status):
    sweeps = tuple(
        OneSweep(winner=name, tie_set=(name,), medians_us={name: 20.0}, span_s=1.0) for name in ("eng4", winner)
    )
    found = Repeats(pipeline="matmul", environment=ENVIRONMENT, sweeps=sweeps)
    monkeypatch.setattr("engine.bench.repeating.repeat", lambda *_: found)
    result = invoke("bench", "repeat", "matmul", "--times", "2", "--json")
    assert result.exit_code == status
    (told,) = json.loads(result.stdout)["results"]
    assert told["disagreements"] == ([] if status == 0 else [[0, 1], [1, 0]])
