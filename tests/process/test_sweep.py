"""A sweep whose processes crash, hang, lie and are killed: every plan ends in a record, nothing measured is lost."""

import os
import signal
import threading
import time

import pytest

from engine.jobs.gpulock import GpuLock
from engine.jobs.protocol import JobCancelled, JobError
from engine.records.plan import Stage, Status
from engine.records.run import RunStatus
from engine.runs.store import Store, StoreError
from tests.process.conftest import wait_until
from tests.process.scripted import diary

pytestmark = pytest.mark.process


def statuses(run):
    return [plan.status for plan in run.plans]


def test_a_sweep_measures_every_plan_and_the_store_has_it_all(machine):
    told = []
    run = machine.sweep(report=told.append)
    assert run.status is RunStatus.DONE and statuses(run) == [Status.OK] * 3
    assert all(plan.timings and plan.accuracy and plan.blob_sha256 and plan.build_ms for plan in run.plans)
    assert run.baseline.timings and run.environment.gpu.uuid == "GPU-test" and run.environment.torch == "2.13.0"
    stored = machine.store.get(run.id)
    assert stored.model_copy(update={"finished_at": None}) == run.model_copy(update={"finished_at": None})
    assert all(machine.store.get_blob(plan.blob_sha256) for plan in run.plans)
    assert told[-1].ended is RunStatus.DONE and told[-1].done == told[-1].total == 7
    assert [t.done for t in told] == sorted(t.done for t in told)
    assert all(t.eta_s is not None for t in told if 0 < t.done < t.total)
    assert len(machine.pids("worker")) == 1


def test_plans_are_measured_after_all_are_built(machine):
    machine.script(builder={"build eng2": 0.4})
    machine.sweep()
    builds = {what: began for _, began, what in diary(machine.folder, "builder") if what.startswith("build")}
    assert set(builds) == {"build eng0", "build eng1", "build eng2"}
    timed = [(what, when) for _, when, what in diary(machine.folder, "worker") if what not in ("start", "environment")]
    assert [what for what, _ in timed] == ["prepare", "baseline", "measure eng0", "measure eng1", "measure eng2"]
    (_, prepared_at), (_, baseline_at), *_ = timed
    assert prepared_at < builds["build eng2"] + 0.4 <= baseline_at > max(builds.values())


@pytest.mark.parametrize(
    ("act", "status", "says"),
    [
        ("crash", Status.CRASHED, "SIGABRT"),
        ("exit", Status.CRASHED, "the device is gone"),
        ("garbage", Status.CRASHED, "Warning: something"),
        ("hang", Status.TIMEOUT, "1.5 s in stage execute"),
        ("other plan", Status.CRASHED, "another plan"),
        ("wrong", Status.WRONG_RESULT, "C is wrong"),
        ("decline", Status.EXEC_FAILED, "the blob is damaged"),
    ],
)
def test_a_plan_that_goes_wrong_costs_that_plan(machine, act, status, says):
    machine.script(worker={"measure eng1": act})
    run = machine.sweep()
    assert run.status is RunStatus.DONE
    assert statuses(run) == [Status.OK, status, Status.OK]
    assert says in run.plans[1].message and run.plans[1].timings is None and run.plans[1].blob_sha256
    if status in (Status.CRASHED, Status.TIMEOUT):
        assert len(machine.pids("worker")) == 2 and len(machine.noted("worker", "prepare")) == 2
    if act in ("crash", "hang"):
        assert run.plans[1].stage is Stage.EXECUTE
    assert machine.store.get(run.id).plans == run.plans


@pytest.mark.parametrize("act", ["lost", "leave"])
def test_a_worker_that_ends_between_two_plans_costs_none(machine, act):
    machine.script(worker={"measure eng0": [act], "measure eng1": [act]})
    run = machine.sweep()
    assert statuses(run) == [Status.OK] * 3 and len(machine.pids("worker")) == 3


def test_a_worker_killed_from_outside_costs_the_plan_it_was_at(machine):
    machine.script(worker={"measure eng1": ["hang"]})

    def kill():
        wait_until(lambda: machine.noted("worker", "measure eng1"))
        os.kill(machine.noted("worker", "measure eng1")[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    run = machine.sweep()
    thread.join()
    assert statuses(run) == [Status.OK, Status.CRASHED, Status.OK]
    assert "killed by SIGKILL" in run.plans[1].message


@pytest.mark.parametrize("act", ["crash", "hang", "garbage"])
def test_a_baseline_that_fails_is_a_baseline_without_timings(machine, act):
    machine.script(worker={"baseline": act})
    run = machine.sweep()
    assert run.baseline.timings is None and run.baseline.message and statuses(run) == [Status.OK] * 3


def test_one_loss_while_preparing_is_made_good(machine):
    machine.script(worker={"prepare": ["crash"]})
    run = machine.sweep()
    assert run.status is RunStatus.DONE and statuses(run) == [Status.OK] * 3


@pytest.mark.parametrize(
    ("worker", "says"),
    [
        ({"prepare": "crash"}, "lost twice before it could measure; the second time it ended: killed by SIGABRT"),
        ({"start": "exit"}, "the device is gone"),
        ({"environment": "garbage"}, "broke the protocol"),
        ({"prepare": "decline"}, "only 3 GiB are free"),
        ({"environment": "no gpu"}, "does not see the GPU Test GPU"),
        ({"environment": "other cudnn"}, "built with cuDNN 9.28.1, but the measuring process has loaded 9.20.0"),
    ],
)
def test_a_worker_that_cannot_measure_fails_the_run_and_says_why(machine, worker, says):
    machine.script(worker=worker)
    run = machine.sweep()
    assert run.status is RunStatus.FAILED and says in run.message
    assert statuses(run) == [Status.CANCELLED] * 3
    assert all(plan.build_ms and plan.blob_sha256 and "the run failed" in plan.message for plan in run.plans)
    stored = machine.store.get(run.id)
    assert (stored.status, stored.message, stored.plans) == (RunStatus.FAILED, run.message, run.plans)


def test_plans_that_do_not_build_are_not_measured(machine):
    machine.script(plans=4, builder={"build eng0": "crash", "build eng1": "hang", "build eng2": "fail"})
    run = machine.sweep(deadline_s=3)
    assert statuses(run) == [Status.CRASHED, Status.TIMEOUT, Status.BUILD_FAILED, Status.OK]
    assert [what for _, _, what in diary(machine.folder, "worker") if what.startswith("measure")] == ["measure eng3"]


def test_a_run_without_any_plan_that_works_says_so(machine):
    machine.script(plans=1, builder={"build eng0": "fail"})
    run = machine.sweep()
    assert run.status is RunStatus.DONE and run.message == "no plan could be built and measured"


def test_a_refused_graph_ends_at_once_with_the_reason(machine):
    machine.script(builder={"list": "refuse"}, worker={"start": "hang"})
    began = time.monotonic()
    run = machine.sweep()
    assert time.monotonic() - began < 3
    assert run.status is RunStatus.DONE and run.plans == () and "head dim" in run.refusal.message
    assert machine.store.get(run.id).refusal == run.refusal


def test_a_refusal_says_what_is_taken_instead(machine):
    machine.script(builder={"list": ["refuse"] * 3})  # the three modes; the graphs near this one have plans
    run = machine.sweep(request=machine.ask(k=100))
    assert run.plans == () and "cuDNN takes k = 96 or 104" in run.refusal.message


class FullDisk(Store):
    """A store that cannot write from its n-th change on."""

    left = 0

    def _count(self):
        if self.left <= 0:
            raise StoreError("There is no space left.")
        self.left -= 1

    def create_run(self, run):
        self._count()
        super().create_run(run)

    def add_plans(self, run_id, plans):
        self._count()
        super().add_plans(run_id, plans)

    def set_baseline(self, run_id, baseline):
        self._count()
        super().set_baseline(run_id, baseline)

    def finish(self, *arguments, **named):
        self._count()
        super().finish(*arguments, **named)


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_a_store_that_fails_ends_the_run_and_keeps_what_was_written(machine, tmp_path, writes):
    with FullDisk(tmp_path / "full") as store:
        store.left = writes
        run = machine.sweep(store=store)
        assert run.status is RunStatus.FAILED and "no space left" in run.message
        assert all(plan.status in (Status.OK, Status.CANCELLED) for plan in run.plans)
        kept = store.get(run.id)
        assert kept.status is RunStatus.RUNNING
    with Store(tmp_path / "full") as store:
        assert store.get(run.id).status is RunStatus.INTERRUPTED
    assert GpuLock("GPU-test", "after", machine.folder).try_acquire() is None


def test_a_store_that_cannot_even_begin_is_an_error(machine, tmp_path):
    with FullDisk(tmp_path / "full") as store, pytest.raises(JobError, match="no space left"):
        machine.sweep(store=store)


def test_an_error_of_the_program_itself_leaves_nothing_behind(machine):
    def report(progress):
        if progress.message.startswith("measuring plan 2"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        machine.sweep(report=report)
    (summary,) = machine.store.summaries()
    assert summary.status is RunStatus.FAILED
    assert GpuLock("GPU-test", "after", machine.folder).try_acquire() is None


STAGES = {
    "environment": ({"builder": {"environment": "hang"}}, ("builder", "environment"), None),
    "listing": ({"builder": {"list": "hang"}}, ("builder", "list"), 0),
    "building": ({"builder": {"build eng1": "hang"}, "worker": {"start": "hang"}}, ("builder", "build eng1"), 0),
    "starting": ({"worker": {"start": "hang"}}, ("worker", "start"), 0),
    "preparing": ({"worker": {"prepare": "hang"}}, ("worker", "prepare"), 0),
    "baseline": ({"worker": {"baseline": "hang"}}, ("worker", "baseline"), 0),
    "measuring": ({"worker": {"measure eng1": "hang"}}, ("worker", "measure eng1"), 1),
}


@pytest.mark.parametrize("stage", STAGES)
def test_cancel_takes_effect_within_two_seconds_at_any_point(machine, stage):
    script, (role, what), measured = STAGES[stage]
    machine.script(**script)
    cancel, cancelled_at, ended_at = threading.Event(), [], []

    def cancel_there():
        wait_until(lambda: machine.noted(role, what))
        time.sleep(0.1)
        cancelled_at.append(time.monotonic())
        cancel.set()

    def report(progress):
        if progress.ended:
            ended_at.append(time.monotonic())

    thread = threading.Thread(target=cancel_there)
    thread.start()
    if measured is None:
        with pytest.raises(JobCancelled):
            machine.sweep(cancel=cancel, report=report)
        assert machine.store.summaries() == []
    else:
        run = machine.sweep(cancel=cancel, report=report)
        assert ended_at[0] - cancelled_at[0] < 2
        assert run.status is RunStatus.CANCELLED
        assert statuses(run) == [Status.OK] * measured + [Status.CANCELLED] * (len(run.plans) - measured)
        assert all(plan.timings for plan in run.plans[:measured])
        assert machine.store.get(run.id).plans == run.plans
    thread.join()
    assert time.monotonic() - cancelled_at[0] < 4  # also the pool is closed by now
    assert machine.everybody_is_gone(0.5)
    assert GpuLock("GPU-test", "after", machine.folder).try_acquire() is None


def test_cancel_while_another_process_has_the_gpu(machine):
    cancel, told = threading.Event(), []
    with GpuLock("GPU-test", "test of timings", machine.folder).acquired(threading.Event()):
        threading.Timer(0.3, cancel.set).start()
        began = time.monotonic()
        with pytest.raises(JobCancelled):
            machine.sweep(cancel=cancel, report=told.append)
        assert time.monotonic() - began < 2
    assert f"test of timings (process {os.getpid()}" in told[0].message
    assert machine.pids("worker") == []
