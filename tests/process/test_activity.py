"""Contention is told truthfully, to the work that was there first as well as to the one that came."""

import os
import threading

import pytest

from engine.jobs import capacity
from engine.jobs.activity import Activity
from engine.jobs.capacity import LARGEST
from engine.plans.targets import resolve_target


def test_work_alone_is_not_contended():
    activity = Activity()
    with activity.during() as first:
        pass
    with activity.during() as second:
        pass
    assert not first.contended and not second.contended


def test_both_of_two_that_overlap_are_contended_and_stay_so():
    activity = Activity()
    with activity.during() as first:
        with activity.during() as second:
            pass
        assert first.contended and second.contended
    with activity.during() as third:
        pass
    assert not third.contended


def test_work_that_fails_ends():
    activity = Activity()
    try:
        with activity.during():
            raise OSError
    except OSError:
        pass
    with activity.during() as after:
        pass
    assert not after.contended


def test_threads_see_each_other():
    activity, both, marks = Activity(), threading.Barrier(2), []

    def work():
        with activity.during() as mark:
            both.wait(10)
        marks.append(mark)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [mark.contended for mark in marks] == [True, True]


@pytest.mark.parametrize(
    ("cores", "free_gib", "gpu_gib", "size"),
    [
        (64, 512, None, LARGEST),
        (2, 512, None, 2),
        (16, 4, None, 5),  # 768 MiB each
        (16, 0, None, 1),
        (16, 512, 141, 16),
        (16, 512, 16, 4),  # contexts of 512 MiB in an eighth of it
    ],
)
def test_as_many_builders_as_cores_and_memory_carry(monkeypatch, cores, free_gib, gpu_gib, size):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(capacity, "_available_memory", lambda: free_gib << 30)
    target = resolve_target("h200")
    if gpu_gib is not None:
        target = target.model_copy(update={"info": target.info.model_copy(update={"memory_bytes": gpu_gib << 30})})
    assert capacity.default_size(None if gpu_gib is None else target) == size


def test_what_processes_hold_of_a_gpu_besides_their_context_is_counted(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    monkeypatch.setattr(capacity, "_available_memory", lambda: 512 << 30)
    target = resolve_target("h200")
    target = target.model_copy(update={"info": target.info.model_copy(update={"memory_bytes": 128 << 30})})
    assert [capacity.default_size(target, held << 29) for held in (0, 1, 3, 100)] == [16, 16, 8, 1]


def test_here_there_is_at_least_one_builder():
    assert 1 <= capacity.default_size() <= LARGEST
