"""The plan doctor on a machine with one scripted GPU: what it says, and that nothing a bundle holds ends it."""

import os
import signal
import threading

import pytest

from engine.bundles.checkups import FINE, UNUSABLE, WORSE
from engine.bundles.export import Part, bundle_of, default_plan
from engine.jobs.contest import Measuring
from engine.jobs.examining import Means, examine
from engine.jobs.gpulock import GpuLock
from engine.jobs.protocol import JobCancelled
from engine.plans.targets import local_target
from engine.records.plan import Status
from tests.process.conftest import BUILDER, DEADLINES, GPU, WORKER, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def file(machine):
    """A bundle of a sweep on this machine, where three plans tie and eng0 wins."""
    run = machine.sweep()
    plan, why = default_plan(run)
    assert plan.plan_name == "eng0" and "3 plans that tie" in why
    path = machine.folder / "bundle.zip"
    path.write_bytes(bundle_of([Part(run, (plan,), {plan.blob_sha256: machine.store.get_blob(plan.blob_sha256)}, why)]))
    return path


def check(machine, file, trust=True, cancel=None, **means):
    measuring = Measuring(WORKER, DEADLINES, machine.folder)
    chosen = {"target": local_target(GPU), "builder_module": BUILDER, "measuring": measuring, **means}
    return examine(file, trust, cancel=cancel, means=Means(**chosen))


def test_a_plan_that_is_still_right_and_among_the_best_is_fine(machine, file):
    machine.script()
    found = check(machine, file)
    (plan,) = found.plans
    assert (found.exit_status, found.ran, plan.running.inside) == (FINE, True, True)
    assert plan.loading.ok and plan.rebuilding.ok and plan.running.status is Status.OK
    assert plan.running.rivals == ("eng1", "eng2") and plan.running.median_us == plan.running.then_us == 10.0
    assert "It is still among the best of 3 plans sampled in turns." in plan.sentences()
    assert machine.everybody_is_gone()


def test_a_plan_that_another_beats_is_worse(machine, file):
    machine.script(slower={"eng0": 0.3})
    found = check(machine, file)
    running = found.plans[0].running
    assert (found.exit_status, running.inside, running.best) == (WORSE, False, "eng1")
    assert running.median_us > running.best_us


def test_one_measuring_process_serves_every_graph(machine):
    parts = []
    for run in (machine.sweep(), machine.sweep(request=machine.ask(m=64))):
        plan, why = default_plan(run)
        parts.append(Part(run, (plan,), {plan.blob_sha256: machine.store.get_blob(plan.blob_sha256)}, why))
    both = machine.folder / "both.zip"
    both.write_bytes(bundle_of(parts))
    before = len(machine.pids("worker"))
    found = check(machine, both)
    assert [plan.running.status for plan in found.plans] == [Status.OK] * 2
    assert len({plan.graph for plan in found.plans}) == 2 and len(machine.pids("worker")) == before + 1


def test_a_wrong_plan_is_unusable_however_fast(machine, file):
    machine.script(worker={"admit eng0": "wrong"})
    found = check(machine, file)
    assert (found.exit_status, found.plans[0].running.status) == (UNUSABLE, Status.WRONG_RESULT)
    assert any("C is wrong" in sentence for sentence in found.plans[0].sentences())


@pytest.mark.parametrize(("act", "status"), [("crash", Status.CRASHED), ("hang", Status.TIMEOUT)])
def test_a_plan_that_takes_the_measuring_process_with_it_is_unusable(machine, file, act, status):
    machine.script(worker={"admit eng0": [act] * 3})
    found = check(machine, file)
    assert (found.exit_status, found.plans[0].running.status) == (UNUSABLE, status)
    assert machine.everybody_is_gone()


def test_a_form_that_crashes_who_loads_it_is_only_good_by_its_recipe(machine, file):
    machine.script(builder={"load": "crash"})
    found = check(machine, file)
    (plan,) = found.plans
    assert found.exit_status == WORSE and not plan.loading.ok and plan.rebuilding.ok
    assert "SIGABRT" in plan.loading.message and plan.running.status is Status.OK


def test_a_recipe_that_builds_no_more_is_worse_and_with_the_form_gone_nothing_is_left(machine, file):
    machine.script(builder={"build eng0": "fail"})
    found = check(machine, file)
    assert found.exit_status == WORSE and found.plans[0].loading.ok and not found.plans[0].rebuilding.ok
    machine.script(builder={"build eng0": "fail", "load": "crash"})
    found = check(machine, file)
    assert found.exit_status == UNUSABLE and found.plans[0].running is None
    assert any("heuristics' choice" in sentence for sentence in found.plans[0].sentences())


def test_builders_that_cannot_plan_at_all_are_the_machines_fault(machine, file):
    machine.script(builder={"environment": "fail"})
    found = check(machine, file)
    assert found.exit_status == UNUSABLE and "no kernel" in found.problem and found.plans == ()


def test_without_trust_nobody_but_the_opener_is_started(machine, file):
    before = (len(machine.pids("builder")), len(machine.pids("worker")))
    found = check(machine, file, trust=False)
    assert found.exit_status == FINE and found.plans == () and found.files == 7
    assert "Only its integrity was checked" in found.verdict
    assert (len(machine.pids("builder")), len(machine.pids("worker"))) == before


def test_a_damaged_file_is_refused_and_nobody_else_is_started(machine, file):
    before = (len(machine.pids("builder")), len(machine.pids("worker")))
    data = bytearray(file.read_bytes())
    data[data.index(b'"engine_id"') + 13] ^= 1
    file.write_bytes(bytes(data))
    found = check(machine, file)
    assert found.exit_status == UNUSABLE and "CRC" in found.refused and found.plans == ()
    assert (len(machine.pids("builder")), len(machine.pids("worker"))) == before
    assert check(machine, machine.folder / "nowhere.zip").exit_status == UNUSABLE


def test_an_opener_that_ends_over_a_file_is_a_refusal(machine, file):
    found = check(machine, file, opening_module="tests.process.no_such_module")
    assert found.exit_status == UNUSABLE and "the process that opened it ended" in found.refused


def test_a_check_waits_for_the_gpu_and_can_be_cancelled(machine, file):
    machine.script()
    cancel, ended = threading.Event(), threading.Event()

    def work():
        with pytest.raises(JobCancelled):
            check(machine, file, cancel=cancel)
        ended.set()

    with GpuLock(GPU.uuid, "another job", machine.folder).acquired(threading.Event()):
        built = len(machine.noted("builder", "build eng2"))
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: len(machine.noted("builder", "build eng2")) > built)
        assert not ended.is_set()
        cancel.set()
        wait_until(ended.is_set, 5)
        thread.join()


def test_a_killed_builder_costs_one_question(machine, file):
    machine.script(builder={"load": "hang"})
    before = set(machine.pids("builder"))

    def kill():
        wait_until(lambda: machine.noted("builder", "load") and set(machine.pids("builder")) - before, 20)
        wait_until(lambda: any(pid not in before for pid in machine.noted("builder", "load")), 20)
        os.kill(next(pid for pid in machine.noted("builder", "load") if pid not in before), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = check(machine, file)
    killer.join()
    assert found.exit_status == WORSE and "SIGKILL" in found.plans[0].loading.message
