"""The benchmarks' way through real pools and processes that follow a script: what is asked, when, and what is made of
it. (What anything takes needs a GPU.)"""

from __future__ import annotations

import functools
import json
import subprocess
from types import SimpleNamespace

import pytest

from engine.bench import process, repeating, sweeping, timing, timing_process
from engine.graph.pipelines import pipeline
from engine.jobs.measuring import GpuWorker
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobError
from engine.jobs.sweep import run_sweep
from engine.plans.targets import local_target
from engine.records.options import SweepOptions
from engine.runs.archive_reading import read_run_member
from tests.measure.simulated_gpu import GPU as SIMULATED
from tests.measure.simulated_gpu import simulate
from tests.process.conftest import BUILDER, DEADLINES, GPU, WORKER, is_gone
from tests.process.scripted import diary

pytestmark = pytest.mark.process
TARGET = local_target(GPU)


@pytest.fixture
def bench(machine, monkeypatch):
    """The machine, with benchmarks that start its processes."""
    scripted = {"worker_module": WORKER, "deadlines": DEADLINES, "lock_folder": machine.folder}
    monkeypatch.setattr(sweeping, "BuilderPool", functools.partial(BuilderPool, module=BUILDER))
    monkeypatch.setattr(sweeping, "GpuWorker", functools.partial(GpuWorker, module=WORKER, deadlines=DEADLINES))
    monkeypatch.setattr(sweeping, "run_sweep", functools.partial(run_sweep, **scripted))
    return machine


def test_a_comparison_begins_when_all_processes_are_ready_and_counts_what_was_swept(bench, tmp_path):
    yardstick = {"plans": 3, "failed": {}, "build_s": 1.0, "timing_s": 0.5, "total_s": 1.5, "times_us": {}}
    bench.script(slower={"eng0": 0.05, "eng1": 1.0}, builder={"ready": 0.5})
    kept = tmp_path / "matmul.zip"
    found = sweeping.compare("matmul", yardstick, TARGET, GPU, SweepOptions(), 2, kept)
    assert (found.plans, found.right, found.survivors, found.least_samples) == (3, 3, 2, 100)
    assert found.executions_per_sample == {"eng0": 4, "eng2": 4} and found.builders == 2
    assert found.ratio == pytest.approx(1.5 / found.span_s)
    assert found.floor.build_s == pytest.approx(1e-3) and found.floor.others_s == pytest.approx(20e-6)
    assert found.floor.survivors_s == pytest.approx(100 * 4 * (11.0 + 10.5) * 1e-6, rel=0.1)
    assert read_run_member(kept).phases == found.phases
    asked, (*swept, _alone) = diary(bench.folder, "builder"), bench.pids("builder")
    ready = max(when for pid, when, what in asked if what == "ready" and pid in swept)
    assert ready + 0.5 <= min(when for _, when, what in asked if what == "list")
    assert found.span_s == found.phases.verdict_at_s < found.phases.total_s


def test_a_sweep_that_fails_is_told(bench):
    bench.script(worker={"prepare": "decline"})
    with pytest.raises(JobError, match=r"only 3 GiB are free"):
        sweeping.compare("matmul", None, TARGET, GPU, SweepOptions(), 1)


def test_every_repeat_is_made_by_new_processes_and_ends_with_its_verdict(bench):
    found = repeating.repeat("matmul", 3, TARGET, GPU, SweepOptions(), 1)
    assert len(found.sweeps) == 3 and found.disagreements == [] and found.environment.gpu.name == "Test GPU"
    assert {sweep.winner for sweep in found.sweeps} == {"eng0"} and len(found.sweeps[0].tie_set) == 3
    assert len(bench.pids("worker")) == 3 and not bench.noted("worker", "baseline")


def test_a_repeat_without_a_right_plan_is_no_agreement(bench):
    bench.script(plans=1, worker={"admit eng0": "wrong"})
    with pytest.raises(JobError, match="measured no right plan"):
        repeating.repeat("matmul", 2, TARGET, GPU, SweepOptions(), 1)


@pytest.fixture
def timed(bench, monkeypatch):
    """``time_pipeline`` with its process's answers made here, on the simulated GPU, where both other timers are
    missing."""
    simulation = simulate(monkeypatch)
    monkeypatch.setattr(timing_process, "HEAT_S", 0.0)
    monkeypatch.setattr(timing_process, "_triton", lambda session, key: None)
    monkeypatch.setattr(timing_process, "_kernels", lambda session, key: None)
    monkeypatch.setattr(timing, "BuilderPool", functools.partial(BuilderPool, module=BUILDER))

    def run(command, input, **_):
        asked = json.loads(input)
        simulation.spec = pipeline("matmul").graph({"b": "1", "m": "16", "n": "16", "k": "16"})
        asked["graph"] = simulation.spec.model_dump(mode="json")  # small, for the host to compute
        for plan, us in zip(asked["plans"], (12.0, 3.0), strict=True):
            (bench.folder / plan["name"]).write_bytes(plan["name"].encode())
            plan["blob"] = str(bench.folder / plan["name"])
            simulation.plans[plan["name"]] = us
        lines = [json.dumps(line) + "\n" for line in timing_process.answers(asked, simulation.device)]
        said = "".join(lines[: run.most])
        return SimpleNamespace(stdout=said, stderr="no memory left", returncode=int(run.most < 3))

    run.most = 3
    monkeypatch.setattr(process, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))
    return run


def test_plans_are_timed_with_what_they_were_timed_on(timed):
    found = timing.time_pipeline("matmul", TARGET, 1, 2)
    assert found.environment.gpu == SIMULATED and [plan.plan for plan in found.plans] == ["eng0", "eng1"]
    assert [plan.hot_us for plan in found.plans] == pytest.approx([12.0, 3.0], rel=1e-3)
    assert [plan.executions for plan in found.plans] == [33, 100] and found.plans[0].sm_clock_mhz == 1980
    assert found.plans[0].triton_us is None and found.plans[0].agrees_with_triton is None


def test_what_was_timed_before_the_process_was_lost_is_kept(timed):
    timed.most = 2
    first, second = timing.time_pipeline("matmul", TARGET, 1, 2).plans
    assert first.hot_us == pytest.approx(12.0, rel=1e-3) and first.message is None
    assert (second.plan, second.hot_us) == ("eng1", None)
    assert second.message == "not timed: the process ended with status 1: no memory left"


@pytest.mark.parametrize("most", [0, 1])
def test_a_process_that_ends_early_is_told(timed, most):
    timed.most = most
    with pytest.raises(JobError, match="ended with status 1: no memory left"):
        timing.time_pipeline("matmul", TARGET, 1, 2)


def test_a_process_that_hangs_is_killed_and_told(machine):
    machine.script(worker={"start": "hang"})
    told = process.ask_process(WORKER, "", {}, 1.5)
    assert told.failed and told.ending == "did not end within 1.5 s and was killed" and told.objects == []
    ((pid, _, _),) = diary(machine.folder, "worker")
    assert is_gone(pid)


def test_what_a_process_wrote_before_it_was_killed_is_kept_line_by_line(tmp_path, monkeypatch):
    code = "import time; print('noise\\n{\"a\": 1}\\n{\"b\":', end='', flush=True); time.sleep(60)"
    (tmp_path / "slow_writer.py").write_text(code)
    told = process.ask_process("slow_writer", "", {"PYTHONPATH": str(tmp_path)}, 1.5)
    assert told.objects == [{"a": 1}] and told.failed


def test_what_is_no_object_is_left_out(machine):
    machine.script(worker={"start": "exit"})
    told = process.ask_process(WORKER, "", {}, 30.0)
    assert told.objects == [] and told.failed and told.ending == "ended with status 3: the device is gone"
