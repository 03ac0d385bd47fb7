"""Contention is told truthfully, to the work that was there first as well as to the one that came."""

import threading

from engine.jobs.activity import Activity
from engine.jobs.capacity import LARGEST, default_size


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


def test_at_least_one_builder_and_at_most_eight():
    assert 1 <= default_size() <= LARGEST == 8
