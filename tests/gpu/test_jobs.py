"""On a real GPU: the job manager with the real builders and the real measuring process."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from engine.graph.pipelines import CATALOGUE
from engine.jobs.gpulock import GpuLock
from engine.jobs.manager import JobManager
from engine.jobs.request import sweep_request
from engine.jobs.snapshots import JobState
from engine.records.options import SweepOptions
from engine.records.plan import Status
from engine.records.run import RunStatus
from engine.runs.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.process]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as store:
        yield store


@pytest.fixture
def manager(store):
    manager = JobManager(store)
    yield manager
    manager.shutdown()


def sweep(manager, target, name, client="a"):
    return manager.submit(
        sweep_request(name, {}, CATALOGUE[name].graph({}), target, SweepOptions(), manager.gpus()), client
    )


def wait_until(manager, job_id, condition, within_s=120):
    end = time.monotonic() + within_s
    while not condition(seen := manager.snapshot(job_id)):
        assert not seen.state.ended and time.monotonic() < end, seen.message
        time.sleep(0.02)
    return seen


def measured(seen):
    return sum(plan.timings is not None for plan in seen.plans)


def measuring_processes():
    """Children of this process that measure."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"engine.jobs.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


def test_two_clients_sweep_one_after_the_other(manager, store, target):
    first, second = sweep(manager, target, "conv_relu", "a"), sweep(manager, target, "matmul", "b")
    assert manager.snapshot(second).position == 1
    for job in (first, second):
        assert manager.wait(job, 180)
        end = manager.snapshot(job)
        assert end.state is JobState.DONE, end.message
        assert end.count(Status.OK) == len(end.plans) > 0 and end.baseline.timings
        run = store.get(end.run_id)
        assert run.plans == end.plans and run.best and run.environment.gpu.uuid == target.gpu_uuid
        assert run.best.timings.hot.count >= 100 and run.best.timings.host_ready and run.best.repeats
        assert run.phases.verdict_at_s < run.phases.total_s
    assert manager.snapshot(second).done == manager.snapshot(second).total
    assert all_measuring_processes_end()


def all_measuring_processes_end(within_s=5):
    """A job ends before its processes, which were killed, are gone."""
    end = time.monotonic() + within_s
    while measuring_processes() and time.monotonic() < end:
        time.sleep(0.05)
    return measuring_processes() == []


def test_a_killed_worker_costs_one_plan(manager, target):
    job = sweep(manager, target, "conv_bias_relu")
    wait_until(manager, job, lambda seen: measured(seen) >= 2)
    pid, *_ = measuring_processes()
    os.kill(pid, signal.SIGKILL)
    assert manager.wait(job, 180)
    end = manager.snapshot(job)
    assert end.state is JobState.DONE, end.message
    assert end.count(Status.CRASHED) <= 1 and measured(end) >= len(end.plans) - 1


@pytest.mark.parametrize("when", ["listing", "building", "receiving", "sampling", "following"])
def test_cancel_takes_effect_within_two_seconds(manager, store, target, when):
    job = sweep(manager, target, "conv_bias_relu")
    conditions = {
        "listing": lambda seen: seen.message.startswith("listing"),
        "building": lambda seen: seen.message.startswith("built"),
        "receiving": lambda seen: measured(seen) >= 2,
        "sampling": lambda seen: seen.message.startswith("sampling"),
        "following": lambda seen: seen.message.startswith("measuring what calls cost"),
    }
    before = measured(wait_until(manager, job, conditions[when]))
    began = time.monotonic()
    manager.cancel(job)
    assert manager.wait(job, 2), time.monotonic() - began
    end = manager.snapshot(job)
    assert end.state is JobState.CANCELLED and measured(end) >= before
    if end.run_id:
        run = store.get(end.run_id)
        assert run.status is RunStatus.CANCELLED and run.plans == end.plans
    with GpuLock(target.gpu_uuid, "after the cancelled sweep").acquired(threading.Event()):
        assert all_measuring_processes_end()
