"""The job manager: queues, shared and superseded questions, cancelling, and an end without orphans."""

import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from engine.graph.errors import InvalidInput
from engine.jobs.gpulock import GpuLock
from engine.jobs.manager import JobManager
from engine.jobs.protocol import ROOT, JobError
from engine.jobs.request import sweep_request
from engine.jobs.snapshots import JobState
from engine.machine.gpus import list_gpus
from engine.plans.targets import local_target, resolve_target
from engine.records.plan import Status
from engine.records.run import RunKind, RunStatus, SweepOptions
from tests.process.conftest import GPU, is_gone, wait_until
from tests.process.scripted import VARIABLE

pytestmark = pytest.mark.process
H200 = resolve_target("h200")


@pytest.fixture
def make(machine):
    made = []

    def make(gpus=(GPU,), store=None, **settings):
        manager = JobManager(store or machine.store, machine.settings(**settings), lambda: gpus)
        made.append(manager)
        return manager

    yield make
    for manager in made:
        manager.shutdown()


@pytest.fixture
def manager(make):
    return make()


def plan(manager, machine, client="a", target=H200, name="matmul", build=True, options=None, **parameters):
    request = machine.ask(name, **parameters)
    return manager.submit_plan(
        name, request.parameters, request.graph, target, client=client, build=build, options=options
    )


def sweep(manager, machine, client="a", target=None, **parameters):
    request = machine.ask(**parameters)
    target = target or local_target(GPU)
    return manager.submit(
        sweep_request("matmul", request.parameters, request.graph, target, SweepOptions(), manager.gpus()), client
    )


def finished(manager, job_id, within_s=20):
    assert manager.wait(job_id, within_s)
    return manager.snapshot(job_id)


def test_a_sweep_goes_from_the_queue_to_the_store(manager, machine):
    seen = manager.snapshot(job_id := sweep(manager, machine, m=128))
    assert seen.kind is RunKind.SWEEP and seen.pipeline == "matmul" and seen.parameters == {"m": "128"}
    end = finished(manager, job_id)
    assert (end.state, end.message) == (JobState.DONE, "3 of 3 plans measured")
    assert end.count(Status.OK) == 3 and end.baseline.timings and end.environment.gpu.name == "Test GPU"
    assert end.fraction == 1 and end.eta_s is None and end.elapsed_s > 0 and end.version > seen.version
    run = machine.store.get(end.run_id)
    assert run.plans == end.plans and run.parameters == {"m": "128"} and run.status is RunStatus.DONE


def test_two_clients_and_one_gpu_the_second_waits_and_sees_its_place(manager, machine):
    machine.script(worker={"admit eng1": ["hang"]})
    first, second, third = (sweep(manager, machine, client, m=m) for client, m in (("a", 64), ("b", 128), ("c", 256)))
    wait_until(lambda: machine.noted("worker", "admit eng1"))
    assert [manager.snapshot(job).position for job in (first, second, third)] == [0, 1, 2]
    assert manager.snapshot(second).state is JobState.QUEUED and manager.snapshot(second).elapsed_s == 0
    assert [job.id for job in manager.jobs()] == [first, second, third]
    manager.cancel(second)
    assert manager.snapshot(second).state is JobState.CANCELLED
    assert manager.snapshot(third).position == 1
    assert finished(manager, first).count(Status.TIMEOUT) == 1
    assert finished(manager, third).count(Status.OK) == 3
    assert [job.id for job in manager.jobs()] == [third, second, first]
    assert len(machine.store.summaries()) == 2


def test_two_gpus_work_side_by_side(make, machine):
    machine.script(worker={"admit eng1": "hang"})
    other = GPU.model_copy(update={"uuid": "GPU-other"})
    manager = make(gpus=(GPU, other))
    jobs = [sweep(manager, machine, target=local_target(gpu)) for gpu in (GPU, other)]
    wait_until(lambda: len(machine.noted("worker", "admit eng1")) == 2)
    assert [manager.snapshot(job).state for job in jobs] == [JobState.RUNNING] * 2
    for job in jobs:
        manager.cancel(job)
        finished(manager, job, 2)


def test_another_process_with_the_gpu_is_waited_for_by_name(manager, machine):
    with GpuLock("GPU-test", "sweep of sdpa", machine.folder).acquired(threading.Event()):
        job = sweep(manager, machine)
        wait_until(lambda: "sweep of sdpa" in manager.snapshot(job).message)
    assert finished(manager, job).state is JobState.DONE


def test_a_running_sweep_is_cancelled_within_two_seconds_and_kept(manager, machine):
    machine.script(worker={"rounds": [None, "hang"]})
    job = sweep(manager, machine)
    wait_until(lambda: len(machine.noted("worker", "rounds")) == 2)
    time.sleep(0.2)  # for what it told before to arrive
    began = time.monotonic()
    manager.cancel(job)
    end = finished(manager, job, 2)
    assert time.monotonic() - began < 2
    assert end.state is JobState.CANCELLED
    assert [p.status for p in end.plans] == [Status.OK] * 3
    assert [p.timings.hot.count for p in end.plans] == [25] * 3  # what the rounds had given by then
    assert machine.store.get(end.run_id).status is RunStatus.CANCELLED
    manager.cancel(job)
    assert manager.snapshot(job) == end


def test_a_sweep_is_cancelled_while_the_builders_are_getting_ready(manager, machine):
    machine.script(builder={"ready": 30})
    job = sweep(manager, machine)
    wait_until(lambda: len(machine.noted("builder", "ready")) == 2)
    began = time.monotonic()
    manager.cancel(job)
    assert finished(manager, job, 2).state is JobState.CANCELLED
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("gpus", "target", "parameters", "says"),
    [
        ((), local_target(GPU), {}, "no NVIDIA GPU in this machine. Open a recorded run, or plan for a named GPU."),
        ((GPU,), H200, {}, "a sweep measures"),
        ((GPU,), local_target(GPU.model_copy(update={"uuid": "GPU-gone"})), {}, "no longer in this machine"),
        ((GPU,), local_target(GPU.model_copy(update={"memory_bytes": 1 << 20})), {}, "or less fits"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_at_once(make, machine, gpus, target, parameters, says):
    manager = make(gpus=gpus)
    with pytest.raises(InvalidInput, match=says):
        sweep(manager, machine, target=target, **parameters)
    assert manager.jobs() == ()


def test_the_same_question_is_worked_on_once_and_its_answer_kept(manager, machine):
    first = plan(manager, machine, "a")
    assert plan(manager, machine, "b") == first
    end = finished(manager, first)
    assert end.state is JobState.DONE and end.message == "3 of 3 plans built" and end.run_id is None
    assert all(machine.store.get_blob(p.blob_sha256) and p.deserialize_ms for p in end.plans)
    assert plan(manager, machine, "c") == first
    assert len(machine.noted("builder", "build eng0")) == 1
    others = [
        plan(manager, machine, "d", build=False),
        plan(manager, machine, "e", target=resolve_target("b200")),
        plan(manager, machine, "f", options=SweepOptions(modes=("A",))),
        plan(manager, machine, "g", m=128),
    ]
    assert len({first, *others}) == 5
    assert all(finished(manager, other).state is JobState.DONE for other in others)  # they write the same files
    (machine.store.blob_dir / end.plans[1].blob_sha256).unlink()  # as the store does with what no run refers to
    assert plan(manager, machine, "h") != first
    assert finished(manager, others[0]).message == "3 plans listed"
    assert machine.store.summaries() == []


def test_a_failed_or_cancelled_answer_is_not_kept(manager, machine):
    machine.script(builder={"environment": ["fail"], "build eng1": ["hang"]})
    failed = plan(manager, machine)
    assert finished(manager, failed).state is JobState.FAILED and "no kernel" in manager.snapshot(failed).message
    cancelled = plan(manager, machine)
    wait_until(lambda: machine.noted("builder", "build eng1"))
    manager.cancel(cancelled)
    assert plan(manager, machine) != cancelled  # also while the cancelled one has not quite ended
    assert finished(manager, cancelled).state is JobState.CANCELLED
    assert finished(manager, plan(manager, machine)).state is JobState.DONE


def test_a_newer_question_takes_the_place_of_the_clients_older_one(manager, machine):
    machine.script(builder={"list": ["hang"]})
    running = plan(manager, machine, m=64)
    wait_until(lambda: machine.noted("builder", "list"))
    queued = plan(manager, machine, m=128)
    began = time.monotonic()
    newest = plan(manager, machine, m=256)
    assert manager.snapshot(queued).state is JobState.CANCELLED
    assert finished(manager, running).state is JobState.CANCELLED
    assert finished(manager, newest).state is JobState.DONE
    assert time.monotonic() - began < 5


def test_a_question_shared_with_somebody_else_goes_on(manager, machine):
    machine.script(builder={"build eng1": [0.5, None, "hang"]})
    shared = plan(manager, machine, "a")
    plan(manager, machine, "b")
    other = plan(manager, machine, "a", m=64)
    manager.cancel(shared, client="nobody")
    assert finished(manager, shared).state is JobState.DONE
    assert finished(manager, other).state is JobState.DONE
    shared = plan(manager, machine, "a", m=512)
    plan(manager, machine, "b", m=512)
    manager.cancel(shared, client="a")
    time.sleep(0.3)
    assert not manager.snapshot(shared).state.ended
    manager.cancel(shared, client="b")
    assert finished(manager, shared, 2).state is JobState.CANCELLED


def test_a_client_that_is_gone_keeps_nothing_going(manager, machine, monkeypatch):
    """A page that was closed or loaded anew never says so: it only looks no more."""
    monkeypatch.setattr("engine.jobs.job.GONE_S", 0.5)
    machine.script(builder={"build eng1": ["hang", "hang", "hang"]})

    def hung(times):
        wait_until(lambda: len(machine.noted("builder", "build eng1")) == times)

    shared = plan(manager, machine, "before the reload")
    hung(1)
    time.sleep(0.7)
    assert plan(manager, machine, "after it") == shared
    manager.cancel(shared, client="after it")
    assert finished(manager, shared, 2).state is JobState.CANCELLED

    shared = plan(manager, machine, "closed soon", m=64)
    plan(manager, machine, "here", m=64)
    assert manager.attend(shared, "here") and not manager.attend(shared, "nobody")
    manager.cancel(shared, client="here")
    assert not manager.attend(shared, "here"), "left, while the other may still be there"
    assert not manager.snapshot(shared).state.ended
    hung(2)
    time.sleep(0.7)
    assert not manager.attend(shared, "here")
    assert finished(manager, shared, 2).state is JobState.CANCELLED

    abandoned = plan(manager, machine, "before the reload", m=128)
    hung(3)
    time.sleep(0.7)
    plan(manager, machine, "after it", m=128)
    newest = plan(manager, machine, "after it", m=256)
    assert finished(manager, abandoned, 2).state is JobState.CANCELLED
    assert finished(manager, newest).state is JobState.DONE


def test_planning_does_not_wait_for_a_sweep_and_a_sweep_is_not_superseded(manager, machine):
    machine.script(worker={"admit eng1": "hang"})
    measuring = sweep(manager, machine, "a")
    wait_until(lambda: machine.noted("worker", "admit eng1"))
    assert finished(manager, plan(manager, machine, "a")).state is JobState.DONE
    local = plan(manager, machine, "a", target=local_target(GPU))
    assert manager.snapshot(local).position == 1
    manager.cancel(measuring)
    assert finished(manager, local).state is JobState.DONE


def test_a_refused_graph_is_an_answer(manager, machine):
    machine.script(builder={"list": "refuse"})
    end = finished(manager, plan(manager, machine))
    assert end.state is JobState.DONE and "head dim" in end.refusal.message
    end = finished(manager, sweep(manager, machine))
    assert end.state is JobState.DONE and "head dim" in end.refusal.message


def test_a_refused_plan_job_says_what_is_taken_instead(manager, machine):
    machine.script(builder={"list": ["refuse"] * 3})  # the three modes; the graphs near this one have plans
    end = finished(manager, plan(manager, machine))
    assert end.state is JobState.DONE and end.plans == () and "cuDNN takes" in end.refusal.message


def test_no_error_of_a_job_ends_its_dispatcher(make, machine, monkeypatch, caplog):
    manager = make()
    monkeypatch.setattr(machine.store, "create_run", lambda run: 1 / 0)
    end = finished(manager, sweep(manager, machine))
    assert end.state is JobState.FAILED and "ZeroDivisionError" in end.message
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    monkeypatch.setenv(VARIABLE, str(machine.folder))
    assert finished(manager, sweep(manager, machine)).state is JobState.DONE


def test_builders_are_kept_ready_then_given_back(make, machine):
    manager = make(idle_s=0.5)
    for m in (64, 128, 256):
        assert finished(manager, plan(manager, machine, m=m)).state is JobState.DONE
    assert len(machine.noted("builder", "start")) <= 3  # two builders and a loader
    wait_until(machine.everybody_is_gone, 5)
    assert finished(manager, plan(manager, machine, m=512)).state is JobState.DONE


def test_threads_and_descriptors_stay_bounded_and_old_jobs_are_forgotten(manager, machine):
    jobs = [plan(manager, machine, "first", build=False)]
    finished(manager, jobs[0])
    threads = threading.active_count()
    for m in range(1, 130):
        jobs.append(plan(manager, machine, "a", build=False, m=m))
        finished(manager, jobs[-1])
    # A builder that had not been needed yet brings a few; one thread a job would be 129 more.
    assert threading.active_count() <= threads + 6
    assert len(manager.jobs()) <= 101
    assert manager.snapshot(jobs[0]) is None and manager.snapshot("nonsense") is None
    manager.cancel("nonsense")


def test_shutdown_ends_everything_and_takes_no_more(make, machine):
    machine.script(worker={"regimes eng1": "hang"}, builder={"build eng1": ["hang", None]})
    manager = make()
    planning = plan(manager, machine)
    wait_until(lambda: machine.noted("builder", "build eng1"))
    measuring, waiting = sweep(manager, machine), sweep(manager, machine, m=64)
    wait_until(lambda: machine.noted("worker", "admit eng1"))
    began = time.monotonic()
    manager.shutdown()
    assert time.monotonic() - began < 4 and machine.everybody_is_gone(0.1)
    states = {job: manager.snapshot(job).state for job in (planning, measuring, waiting)}
    assert set(states.values()) == {JobState.CANCELLED}
    with pytest.raises(JobError, match="shut down"):
        plan(manager, machine, m=512)
    manager.shutdown()


SERVER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs this in the background has it ignored
from pathlib import Path
from engine.jobs.manager import JobManager
from tests.process.conftest import GPU, Machine
from tests.process.test_manager import plan, sweep
machine = Machine(Path(sys.argv[1]))
machine.script(worker={"regimes eng1": "hang"}, builder={"build eng1": ["hang", None]})
manager = JobManager(machine.store, machine.settings(), lambda: (GPU,))
plan(manager, machine)
while not machine.noted("builder", "build eng1"):
    time.sleep(0.01)
sweep(manager, machine)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_and_no_builder_outlives_the_server(machine, number):
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(machine.folder)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: machine.noted("worker", "regimes eng1"), 60)
        assert not is_gone(machine.pids("worker")[0], 0)
        server.send_signal(number)
        server.wait(5)
        assert machine.everybody_is_gone(2)
    finally:
        server.kill()
        server.wait()
    assert GpuLock("GPU-test", "after", machine.folder).try_acquire() is None
    machine.store.interrupt_abandoned()
    (summary,) = machine.store.summaries()
    run = machine.store.get(summary.id)
    assert run.status is RunStatus.INTERRUPTED and run.plans[0].timings and run.baseline


REAL = """
import json, sys
from pathlib import Path
from engine.graph.pipelines import CATALOGUE
from engine.jobs.manager import JobManager
from engine.plans.targets import resolve_target
from engine.runs.store import Store
with Store(Path(sys.argv[1])) as store:
    manager = JobManager(store)
    pipeline = CATALOGUE["conv_relu"]
    job = manager.submit_plan(
        "conv_relu", {}, pipeline.graph({}), resolve_target("h200"), client="a", build=False
    )
    assert manager.wait(job, 120)
    end = manager.snapshot(job)
    manager.gpus()
    manager.shutdown()
loaded = ["torch" in sys.modules, "cudnn" in sys.modules]
plans = [plan.plan_name for plan in end.plans]
print(json.dumps([end.state, plans, end.environment.cudnn_backend, end.remarks, loaded]))
"""


@pytest.mark.cudnn
def test_the_serving_process_loads_neither_torch_nor_cudnn(tmp_path):
    command = [sys.executable, "-c", REAL, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    state, plans, cudnn, remarks, loaded = json.loads(done.stdout)
    assert state == "done" and len(plans) >= 6 and cudnn.startswith("9."), (plans, remarks)
    assert loaded == [False, False]


@pytest.mark.skipif(bool(list_gpus()), reason="this machine has a GPU")
def test_without_a_gpu_there_is_none(machine):
    manager = JobManager(machine.store)
    assert manager.gpus() == ()
    with pytest.raises(InvalidInput, match="no NVIDIA GPU in this machine"):
        sweep(manager, machine)
