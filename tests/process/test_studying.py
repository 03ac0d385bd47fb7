"""A study of reuse on a scripted GPU: a process for every number, asked one after the other, and none costs another."""

import itertools
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.jobs.gpulock import GpuLock
from engine.jobs.protocol import JobCancelled
from engine.jobs.request import Study
from engine.jobs.studying import Processes, study
from engine.records.reuse import Way
from engine.records.run import RunKind
from tests.process.conftest import BUILDER, DEADLINES, WORKER, is_gone, wait_until
from tests.process.scripted import diary

pytestmark = pytest.mark.process
REUSER = "tests.process.scripted_reuser"


def studied(machine, cancel=None, report=None, sizes=(), builders=2, **more):
    request = machine.request
    shapes = {size: machine.ask(m=size).graph for size in sizes}
    known = {"repeats": 2, "letter": "m" if sizes else "", "shapes": shapes, **more}
    asked = Study("matmul", {}, request.graph, request.target, request.options, **known)
    processes = Processes(BUILDER, REUSER, WORKER, DEADLINES, machine.folder, builders)
    return study(asked, machine.folder, cancel or threading.Event(), report, processes)[0]


def test_every_number_is_of_a_process_of_its_own(machine):
    told = []
    run = studied(machine, report=lambda *step: told.append(step))
    reuse = run.reuse
    assert run.kind is RunKind.PLAN and reuse.on_gpu and len(reuse.costs) == len(reuse.graphs) == 3
    for cost in reuse.costs:
        assert (cost.cold_ms.values_ms, cost.warm_ms.values_ms, cost.cache_bytes) == ((500.0,) * 2, (50.0,) * 2, 5)
        assert (cost.first_load_ms.values_ms, cost.load_ms.values_ms, cost.speedup) == ((20.0,) * 2, (1.0,) * 2, 2)
        assert not cost.compiled and cost.again_ms.values_ms == (2.0, 2.0)
        assert cost.execute_cold_ms.median_ms == 0.5 and cost.execute_load_ms.median_ms == 0.2
    noted = diary(machine.folder, "reuser")
    assert len(machine.noted("reuser", "start")) == 3 * (2 + 3 + 2) + 3
    assert [step[1] for step in told] == sorted(step[1] for step in told) and told[-1] == ("done", 48, 48, 0.0)
    assert all(is_gone(pid) for pid, _, _ in noted)


def spans(machine):
    """(begin, end, what, pid) of everything that processes did, their starts with it."""
    begun, found = {}, []
    for pid, when, what in diary(machine.folder, "reuser"):
        if what == "over":
            began, act = begun.pop(pid)
            found.append((began, when, act, pid))
        elif what in ("ready", "imports"):
            assert begun[pid][1] == "start", "it gets ready once, first of all"
        else:
            assert pid not in begun
            begun[pid] = (when, what)
    return sorted(found)


def test_a_batch_starts_together_and_is_asked_one_by_one(machine):
    builds = {f"build eng{n}": [0.05] * 5 for n in range(3)}
    machine.script(reuser={"ready": [0.5] * 100, "imports": [0.5] * 100, "load": [0.05] * 6, **builds})
    studied(machine, builders=3)
    done = spans(machine)
    asked = [one for one in done if one[2] != "start"]
    starts = [one for one in done if one[2] == "start"]
    assert len(asked) == len(starts) == len({pid for *_, pid in asked}) == 24
    for (_, end, _, _), (begin, _, _, _) in itertools.pairwise(asked):
        assert end < begin, "two were busy at a time"
    for begin, end, _, _ in asked:
        assert all(over < begin or start > end for start, over, _, _ in starts), "one started while another was asked"
    together = [sum(start < middle < over for start, over, _, _ in starts) for middle in midpoints(starts)]
    assert max(together) == 3 and sum(count > 1 for count in together) >= 12


def midpoints(done):
    return [(begin + end) / 2 for begin, end, _, _ in done]


def test_one_process_at_a_time_where_the_machine_carries_no_more(machine):
    studied(machine, builders=1, plans=1, graphs=False)
    done = spans(machine)
    assert len(done) == 2 * (2 + 3 + 2)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(done))
    assert [one[3] for one in done[::2]] == [one[3] for one in done[1::2]], "start and work, and then the next"


def test_who_stands_by_takes_no_time_of_a_core(machine):
    machine.script(reuser={"build eng0": "hang"})
    with under_way(machine, builders=3):
        wait_until(lambda: machine.noted("reuser", "build eng0"), 20)
        waiting = machine.pids("reuser")
        before = [ticks(pid) for pid in waiting]
        time.sleep(0.5)
        assert len(waiting) == 3 and [ticks(pid) for pid in waiting] == before


def ticks(pid):
    """Of user and system time (proc_pid_stat(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@contextmanager
def under_way(machine, **more):
    """A study, cancelled at the end: it is over soon then, and so is every process."""
    cancel, ended = threading.Event(), []

    def work():
        try:
            studied(machine, cancel, **more)
        except JobCancelled as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        cancel.set()
        thread.join(2)
    assert ended and all(is_gone(pid, 0.5) for pid in machine.pids("reuser"))


@pytest.mark.parametrize("moment", ["ready", "build eng0", "build eng2", "imports", "load", "graphs eng1"])
def test_cancelling_ends_all_that_were_started(machine, moment):
    machine.script(reuser={moment: ["hang"] * 9})
    with under_way(machine, builders=3):
        wait_until(lambda: machine.noted("reuser", moment), 20)


def test_one_that_does_not_come_to_readiness_costs_its_own_group(machine):
    machine.script(reuser={"ready": [None, "crash"]})
    costs = studied(machine, graphs=False, builders=2).reuse.costs
    (lost,) = [cost for cost in costs if cost.message]
    assert lost.cold_ms is None and lost.warm_ms and lost.load_ms
    assert lost.message.startswith("cold build: the process ended: killed by SIGABRT")


def test_what_fails_is_told_in_the_record_and_costs_nothing_else(machine):
    machine.script(reuser={"build eng1": "crash", "graphs eng2": "crash", "load": [None, "crash"]})
    reuse = studied(machine).reuse
    by_name = {cost.plan_name: cost for cost in reuse.costs}
    assert by_name["eng1"].cold_ms is None and by_name["eng1"].load_ms and "SIGABRT" in by_name["eng1"].message
    crashed = [cost for cost in reuse.costs if cost.load_ms is None]
    assert len(crashed) == 1 and "load: the process ended" in crashed[0].message and crashed[0].cold_ms
    uses = {use.plan_name: use for use in reuse.graphs}
    assert not uses["eng2"].captured and "SIGABRT" in uses["eng2"].capture_message and uses["eng0"].captured


def test_a_refusal_is_told_as_such(machine):
    machine.script(reuser={"build eng0": "fail"})
    cost = next(cost for cost in studied(machine, graphs=False).reuse.costs if cost.plan_name == "eng0")
    assert cost.message == "cold build: no kernel warm build: no kernel" and cost.load_ms


def test_sizes_are_built_in_every_way_and_measured(machine):
    machine.script(reuser={"shapes override shape": "crash"})
    reuse = studied(machine, sizes=(8, 16), plans=1, graphs=False).reuse
    shapes = reuse.shapes
    assert len(reuse.costs) == 1 and reuse.graphs == ()
    assert [size.build_ms for size in shapes.of(Way.CACHE).sizes] == [5.0, 5.0]
    assert (shapes.of(Way.CACHE).cache_bytes, shapes.of(Way.CACHE).reloaded_ms) == (9, 5.0)
    assert all("SIGABRT" in size.refused for size in shapes.of(Way.OVERRIDE).sizes)
    assert all(size.right and size.hot for size in shapes.of(Way.STATIC).sizes)
    assert len(shapes.matrix) == 4 and all(one.right for one in shapes.matrix)


def test_a_study_waits_for_the_gpu_and_ends_when_cancelled(machine):
    cancel, ended, told = threading.Event(), threading.Event(), []

    def work():
        with pytest.raises(JobCancelled):
            studied(machine, cancel)
        ended.set()

    with GpuLock(machine.request.gpu.uuid, "another job", machine.folder).acquired(threading.Event()):
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: len(machine.noted("builder", "load")) == 3, 20)
        assert not ended.is_set() and not machine.pids("reuser") and not told
        cancel.set()
        wait_until(ended.is_set, 5)
        thread.join()
