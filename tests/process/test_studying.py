"""A study of reuse on a scripted GPU: a process for every number, one after the other, and none costs another."""

import threading

import pytest

from engine.jobs.gpulock import GpuLock
from engine.jobs.protocol import JobCancelled
from engine.jobs.studying import Processes, Study, study
from engine.records.reuse import Way
from engine.records.run import RunKind
from tests.process.conftest import BUILDER, DEADLINES, WORKER, is_gone, wait_until
from tests.process.scripted import diary

pytestmark = pytest.mark.process
REUSER = "tests.process.scripted_reuser"


def studied(machine, cancel=None, report=None, sizes=(), **more):
    request = machine.request
    shapes = {size: machine.ask(m=size).graph for size in sizes}
    known = {"repeats": 2, "letter": "m" if sizes else "", "shapes": shapes, **more}
    asked = Study("matmul", {}, request.graph, request.target, request.options, **known)
    processes = Processes(BUILDER, REUSER, WORKER, DEADLINES, machine.folder, 2)
    return study(asked, machine.folder, cancel or threading.Event(), report, processes)[0]


def test_every_number_is_of_a_process_of_its_own_and_no_two_work_at_once(machine):
    told = []
    run = studied(machine, report=lambda *step: told.append(step))
    reuse = run.reuse
    assert run.kind is RunKind.PLAN and reuse.on_gpu and len(reuse.costs) == len(reuse.graphs) == 3
    for cost in reuse.costs:
        assert (cost.cold_ms.values_ms, cost.warm_ms.values_ms, cost.cache_bytes) == ((500.0,) * 2, (50.0,) * 2, 5)
        assert (cost.first_load_ms.values_ms, cost.load_ms.values_ms, cost.speedup) == ((20.0,) * 2, (1.0,) * 2, 2)
        assert not cost.compiled and cost.again_ms.values_ms == (2.0, 2.0)
        assert cost.execute_cold_ms.median_ms == 0.5 and cost.execute_load_ms.median_ms == 0.2
    noted = [(pid, what) for pid, _, what in diary(machine.folder, "reuser")]
    assert len({pid for pid, what in noted if what == "start"}) == 3 * (2 + 3 + 2) + 3
    assert all(noted[i][0] == noted[i + 1][0] for i in range(0, len(noted), 2)), "start and work, and then the next"
    assert [step[1] for step in told] == sorted(step[1] for step in told) and told[-1] == ("done", 6, 6)
    assert all(is_gone(pid) for pid, _ in noted)


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


def test_cancelling_ends_the_process_under_way(machine):
    machine.script(reuser={"build eng0": "hang"})
    cancel, failed = threading.Event(), []

    def work():
        try:
            studied(machine, cancel)
        except JobCancelled as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: machine.noted("reuser", "build eng0"), 20)
    cancel.set()
    thread.join(5)
    assert failed and is_gone(machine.pids("reuser")[-1])
