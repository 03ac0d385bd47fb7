"""A sweep whose processes crash, hang, lie and are killed: every plan ends in a record, nothing measured is lost."""

import os
import signal
import sqlite3
import threading
import time
from dataclasses import replace

import pytest

from engine.jobs.gpulock import GpuLock
from engine.jobs.protocol import JobCancelled, JobError
from engine.records.options import SweepOptions
from engine.records.plan import Stage, Status
from engine.records.run import RunStatus
from engine.records.verdict import verdict
from engine.runs.store import Store, StoreError
from tests.process.conftest import wait_until
from tests.process.scripted import diary
from tests.process.scripted_worker import encode

pytestmark = pytest.mark.process


def statuses(run):
    return [plan.status for plan in run.plans]


def test_a_sweep_measures_every_plan_and_the_store_has_it_all(machine):
    told = []
    run = machine.sweep(report=told.append)
    assert run.status is RunStatus.DONE and statuses(run) == [Status.OK] * 3
    assert all(plan.accuracy and plan.blob_sha256 and plan.build_ms and plan.repeats.bitwise for plan in run.plans)
    for timings in (plan.timings for plan in run.plans):
        assert (timings.hot.count, timings.hot.executions, timings.stopped) == (100, 4, "precise")
        assert timings.cold and timings.host and timings.host_ready and timings.end_to_end
        assert timings.gpu.sm_clock_mhz == 1980 and len(timings.states) == 100
    assert run.baseline.timings and run.environment.gpu.uuid == "GPU-test" and run.environment.torch == "2.13.0"
    assert 0 < run.phases.list_s < run.phases.verdict_at_s < run.phases.total_s
    stored = machine.store.get(run.id)
    assert stored.model_copy(update={"finished_at": None}) == run.model_copy(update={"finished_at": None})
    assert all(machine.store.get_blob(plan.blob_sha256) for plan in run.plans)
    assert told[-1].ended is RunStatus.DONE and told[-1].done == told[-1].total == 20
    assert [t.done for t in told] == sorted(t.done for t in told)
    assert all(t.eta_s is not None for t in told if 0 < t.done < t.total)
    assert run.confirmation is None and len(machine.pids("worker")) == 1  # the winner is the first pick


def test_plans_are_received_while_others_are_built_and_ranked_when_all_are(machine):
    machine.script(builder={"build eng2": 1.0})
    machine.sweep()
    builds = {what: began for _, began, what in diary(machine.folder, "builder") if what.startswith("build")}
    noted = diary(machine.folder, "worker")
    first = noted[0][0]
    timed = [(what, when) for pid, when, what in noted if pid == first and what not in ("start", "environment")]
    assert timed[0][0] == "prepare"
    assert {what for what, _ in timed[1:4]} == {"admit eng0", "admit eng1", "admit eng2"}
    assert [what for what, _ in timed[4:9]] == ["rounds"] * 4 + ["baseline"]
    last_build_ended = builds["build eng2"] + 1.0
    assert max(when for what, when in timed[:3]) < last_build_ended <= timed[3][1]


def test_the_winner_is_confirmed_against_the_first_pick_in_a_fresh_process(machine):
    machine.script(slower={"eng0": 0.3, "eng1": 0.5})
    run = machine.sweep()
    assert run.confirmation.winner == run.plans[2].key and run.confirmation.first_pick == run.plans[0].key
    assert run.confirmation.winner_us.count == run.confirmation.first_pick_us.count == 100
    assert run.confirmation.winner_us.median_us < run.confirmation.first_pick_us.median_us
    _, confirmed = machine.pids("worker")
    assert {pid for pid, _, what in diary(machine.folder, "worker") if what.startswith("reload")} == {confirmed}
    assert machine.store.get(run.id).confirmation == run.confirmation


def test_a_confirmation_that_fails_says_so_and_costs_nothing_else(machine):
    machine.script(slower={"eng0": 0.3}, worker={"reload eng0": "crash"})
    run = machine.sweep()
    assert run.status is RunStatus.DONE and statuses(run) == [Status.OK] * 3
    assert run.confirmation.winner_us is None and "SIGABRT" in run.confirmation.message


def test_a_plan_far_from_the_best_keeps_its_screening_samples_and_gets_no_more(machine):
    machine.script(slower={"eng1": 1.0, "eng2": 0.0})
    run = machine.sweep()
    assert statuses(run) == [Status.OK] * 3
    assert [plan.timings.stopped for plan in run.plans] == ["precise", "screened", "precise"]
    assert run.plans[1].timings.hot.count == 4 and run.plans[1].timings.cold is None and run.plans[1].repeats


def constrained(machine, **options):
    return replace(machine.request, options=SweepOptions(**options))


def test_who_meets_the_constraints_is_sampled_to_the_end_however_far_from_the_best(machine):
    machine.script(4, slower={"eng1": 9.0, "eng2": 11.0, "eng3": 30.0}, workspace={"eng0": 1 << 20})
    run = machine.sweep(request=constrained(machine, workspace_limit_bytes=0))
    assert [plan.timings.stopped for plan in run.plans] == ["precise", "precise", "precise", "screened"]
    found = verdict(run)
    assert (found.winner, found.intervals[found.winner].samples) == (run.plans[1].key, 100)
    assert run.plans[1].timings.cold and run.confirmation.winner == found.winner


def test_a_winner_that_turns_out_not_to_repeat_is_not_the_one_that_is_confirmed(machine):
    machine.script(slower={"eng0": 0.6, "eng1": 0.3}, worker={"repeat eng2": "differ"})
    for options, winner in (({"deterministic_only": True}, 1), ({}, 2)):
        run = machine.sweep(request=constrained(machine, **options))
        assert run.plans[2].repeats.differing == 1
        assert verdict(run).winner == run.confirmation.winner == run.plans[winner].key


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
    machine.script(worker={"admit eng1": act})
    run = machine.sweep()
    assert run.status is RunStatus.DONE
    assert statuses(run) == [Status.OK, status, Status.OK]
    assert says in run.plans[1].message and run.plans[1].timings is None and run.plans[1].blob_sha256
    assert [plan.timings.stopped for plan in run.plans if plan.timings] == ["precise"] * 2
    if status in (Status.CRASHED, Status.TIMEOUT):
        assert len(machine.noted("worker", "prepare")) == 2
    if act in ("crash", "hang"):
        assert run.plans[1].stage is Stage.EXECUTE
    assert machine.store.get(run.id).plans == run.plans


@pytest.mark.parametrize(
    ("worker", "status", "says"),
    [
        ({"rounds": [None, None, "hung eng1"]}, Status.TIMEOUT, "never ended"),
        ({"rounds": [None, "crash"], "rounds eng1": "crash"}, Status.CRASHED, "SIGABRT"),
        ({"rounds": [None, "crash"], "rounds eng1": "hang"}, Status.TIMEOUT, "1.5 s in stage time"),
        ({"regimes eng1": "crash"}, Status.CRASHED, "SIGABRT"),
        ({"regimes eng1": "hang"}, Status.TIMEOUT, "1.5 s in stage time"),
        ({"repeat eng1": "crash"}, Status.CRASHED, "SIGABRT"),
    ],
)
def test_a_plan_that_goes_wrong_after_screening_costs_that_plan_and_the_others_keep_their_samples(
    machine, worker, status, says
):
    machine.script(worker=worker)
    run = machine.sweep()
    assert run.status is RunStatus.DONE
    assert statuses(run) == [Status.OK, status, Status.OK]
    assert says in run.plans[1].message and run.plans[1].timings is None
    for plan in (run.plans[0], run.plans[2]):
        assert plan.timings.hot.count == 100 and plan.timings.cold and plan.repeats
    assert machine.store.get(run.id).plans == run.plans


def test_a_crash_in_the_rounds_that_no_plan_is_to_blame_for_costs_none(machine):
    machine.script(worker={"rounds": [None, None, "crash"]})
    run = machine.sweep()
    assert statuses(run) == [Status.OK] * 3 and all(plan.timings.hot.count == 100 for plan in run.plans)
    assert len(machine.noted("worker", "rounds")) == 3 + 4
    assert machine.noted("worker", "rounds eng1")  # announced, the second time


@pytest.mark.parametrize("stopped", [5, ["0"], {"0;KERNEL_CFG=0": "bored"}, {"0;KERNEL_CFG=0": {}}])
def test_reasons_for_stopping_that_are_none_fail_the_run_and_not_the_program(machine, stopped):
    machine.script(worker={"rounds": "nonsense"}, stopped=stopped)
    run = machine.sweep()
    assert run.status is RunStatus.FAILED and "the measuring process sent" in run.message
    assert statuses(run) == [Status.OK] * 3


@pytest.mark.parametrize(
    "odd",
    [
        {"kept": {"data": encode(10.0, 0.0)}},
        {"kept": {"data": encode(10.0, float("nan"))}},
        {"kept": {"data": "AAAA"}},
        {"kept": {"executions": 0}},
        {"kept": {"rounds": [0]}},
        {"part": {"set_aside": {"0;KERNEL_CFG=0": -1}}},
        {"part": {"fraction": float("nan")}},
        {"part": {"fraction": float("inf")}},
    ],
)
def test_samples_that_are_none_cost_the_process_and_no_plan(machine, odd):
    machine.script(worker={"rounds": [None, "odd"]}, odd=odd)
    run = machine.sweep()
    assert run.status is RunStatus.DONE and statuses(run) == [Status.OK] * 3
    assert all(plan.timings.hot.count == 100 for plan in run.plans)
    assert len(machine.noted("worker", "prepare")) == 2


def test_a_machine_that_loses_the_process_again_and_again_fails_the_run(machine):
    machine.script(worker={"rounds": "crash"})
    run = machine.sweep()
    assert run.status is RunStatus.FAILED and "was lost 3 times" in run.message
    assert statuses(run) == [Status.OK] * 3 and all(plan.timings.hot.count == 4 for plan in run.plans)


@pytest.mark.parametrize("act", ["lost", "leave"])
def test_a_worker_that_ends_between_two_plans_costs_none(machine, act):
    machine.script(worker={"admit eng0": [act], "admit eng1": [act]})
    run = machine.sweep()
    assert statuses(run) == [Status.OK] * 3 and len(machine.noted("worker", "prepare")) >= 3


def test_a_worker_killed_from_outside_costs_the_plan_it_was_at(machine):
    machine.script(worker={"admit eng1": ["hang"]})

    def kill():
        wait_until(lambda: machine.noted("worker", "admit eng1"))
        os.kill(machine.noted("worker", "admit eng1")[0], signal.SIGKILL)

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
    assert all(plan.timings.cold for plan in run.plans)


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
    assert set(statuses(run)) <= {Status.CANCELLED}
    assert all("the run failed" in plan.message for plan in run.plans)
    stored = machine.store.get(run.id)
    assert (stored.status, stored.message, stored.plans) == (RunStatus.FAILED, run.message, run.plans)


def test_plans_that_do_not_build_are_not_measured(machine):
    machine.script(plans=4, builder={"build eng0": "crash", "build eng1": "hang", "build eng2": "fail"})
    run = machine.sweep(deadline_s=3)
    assert statuses(run) == [Status.CRASHED, Status.TIMEOUT, Status.BUILD_FAILED, Status.OK]
    assert [what for _, _, what in diary(machine.folder, "worker") if what.startswith("admit")] == ["admit eng3"]


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
        assert store.get(run.id).status is RunStatus.RUNNING
        assert store.interrupt_abandoned() == 1
        kept = store.get(run.id)
        assert kept.status is RunStatus.INTERRUPTED and "could not be stored" in kept.message
    with Store(tmp_path / "full") as store:
        assert store.get(run.id).status is RunStatus.INTERRUPTED
    assert GpuLock("GPU-test", "after", machine.folder).try_acquire() is None


@pytest.fixture
def locking(machine):
    """Makes a listener to progress that locks the database as another process does, once sampling begins."""
    other = sqlite3.connect(machine.folder / "home" / "planscope.db", isolation_level=None, check_same_thread=False)
    begun = threading.Event()

    def make(held_s=None):
        def report(progress):
            if progress.message.startswith("sampling") and not begun.is_set():
                begun.set()
                other.execute("BEGIN IMMEDIATE")
                if held_s is not None:
                    threading.Timer(held_s, other.rollback).start()

        return report

    make.other = other
    yield make
    assert begun.is_set()
    other.close()


def test_a_store_that_stays_locked_ends_the_run_which_then_counts_as_interrupted(machine, locking):
    run = machine.sweep(report=locking())
    assert run.status is RunStatus.FAILED and "locked by another process" in run.message
    assert all(plan.timings and plan.timings.hot.count == 100 for plan in run.plans)
    kept = machine.store.get(run.id)
    assert kept.status is RunStatus.RUNNING
    locking.other.rollback()
    assert machine.store.interrupt_abandoned() == 1 and machine.store.interrupt_abandoned() == 0
    kept = machine.store.get(run.id)
    assert kept.status is RunStatus.INTERRUPTED and "could not be stored" in kept.message
    assert machine.everybody_is_gone(0.5)
    assert GpuLock("GPU-test", "after", machine.folder).try_acquire() is None


def test_a_store_that_is_locked_for_a_moment_costs_nothing(machine, locking):
    run = machine.sweep(report=locking(held_s=0.25))
    assert run.status is RunStatus.DONE and statuses(run) == [Status.OK] * 3
    assert machine.store.get(run.id).plans == run.plans


def test_a_store_that_cannot_even_begin_is_an_error(machine, tmp_path):
    with FullDisk(tmp_path / "full") as store, pytest.raises(JobError, match="no space left"):
        machine.sweep(store=store)


def test_an_error_of_the_program_itself_leaves_nothing_behind(machine):
    def report(progress):
        if progress.message.startswith("sampling"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        machine.sweep(report=report)
    (summary,) = machine.store.summaries()
    assert summary.status is RunStatus.FAILED
    assert GpuLock("GPU-test", "after", machine.folder).try_acquire() is None


STAGES = {
    "environment": ({"builder": {"environment": "hang"}}, ("builder", "environment"), None),
    "listing": ({"builder": {"list": "hang"}}, ("builder", "list"), None),
    "building": ({"builder": {"build eng1": "hang"}, "worker": {"start": "hang"}}, ("builder", "build eng1"), 0),
    "starting": ({"worker": {"start": "hang"}}, ("worker", "start"), None),
    "preparing": ({"worker": {"prepare": "hang"}}, ("worker", "prepare"), None),
    "receiving": ({"worker": {"admit eng1": "hang"}}, ("worker", "admit eng1"), None),
    "sampling": ({"worker": {"rounds": [None, "hang"]}}, ("worker", "rounds"), 3),
    "baseline": ({"worker": {"baseline": "hang"}}, ("worker", "baseline"), 3),
    "regimes": ({"worker": {"regimes eng1": "hang"}}, ("worker", "regimes eng1"), 3),
    "repeating": ({"worker": {"repeat eng1": "hang"}}, ("worker", "repeat eng1"), 3),
    "confirming": ({"slower": {"eng0": 0.3}, "worker": {"reload eng0": "hang"}}, ("worker", "reload eng0"), 3),
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
    try:
        run = machine.sweep(cancel=cancel, report=report)
    except JobCancelled:
        assert measured is None and machine.store.summaries() == []
    else:
        assert ended_at[0] - cancelled_at[0] < 2
        assert run.status is RunStatus.CANCELLED
        assert all(bool(plan.timings) == (plan.status is Status.OK) for plan in run.plans)
        assert set(statuses(run)) <= {Status.OK, Status.CANCELLED}
        assert measured is None or statuses(run).count(Status.OK) == measured
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
