"""Plans for many sizes on a scripted GPU: who is the best at each, and what the dynamic plan costs."""

import hashlib
import threading

import pytest

from engine.graph.pipelines import CATALOGUE
from engine.jobs import shape_speeds
from engine.jobs.protocol import JobCancelled
from engine.jobs.shape_speeds import with_speeds
from engine.plans.targets import local_target
from engine.records.plan import PlanIdentity
from engine.records.reuse import DynamicShapes, Series, SizePlan, Way
from tests.process.conftest import BUILDER, DEADLINES, GPU, WORKER

pytestmark = pytest.mark.process
SPECS = {size: CATALOGUE["matmul"].graph({"m": size}) for size in (8, 16)}


def shapes():
    def size(number, engine):
        identity = PlanIdentity(engine_id=engine)
        return SizePlan(size=number, build_ms=5.0, identity=identity, plan_name=f"eng{engine}", plans=3)

    return DynamicShapes(
        letter="m",
        sizes=tuple(SPECS),
        series=tuple(
            Series(way=way, sizes=tuple(size(number, engine) for number in SPECS))
            for way, engine in ((Way.STATIC, 0), (Way.CACHE, 1))
        ),
    )


def measured(machine, cancel=None):
    blob = b"a dynamic plan"
    digest = hashlib.sha256(blob).hexdigest()
    (machine.folder / digest).write_bytes(blob)
    blobs = {(Way.CACHE, size): digest for size in SPECS}
    arguments = (shapes(), SPECS, blobs, local_target(GPU), machine.folder, cancel or threading.Event())
    return with_speeds(*arguments, worker_module=WORKER, builder_module=BUILDER, deadlines=DEADLINES)


def test_the_best_static_plan_and_the_dynamic_one_at_each_size(machine):
    machine.script(slower={"eng0": 0.5, "eng1": 0.2})
    found = measured(machine)
    static, cached = found.of(Way.STATIC), found.of(Way.CACHE)
    for own, shared in zip(static.sizes, cached.sizes, strict=True):
        assert (own.plan_name, own.best_name, own.right) == ("eng0", "eng2", True)
        assert own.build_ms == 5.0 and own.hot.median_us < shared.hot.median_us
        assert (shared.plan_name, shared.best_name, shared.right) == ("eng1", None, True)
        assert own.allowed == 0.01
    assert [(one.tuned_at, one.run_at, one.plan_name, one.builds, one.right) for one in found.matrix] == [
        (at, size, "eng2", True, True) for at in SPECS for size in SPECS
    ]
    assert machine.everybody_is_gone()


def test_a_dynamic_plan_that_is_wrong_is_told_as_wrong_however_fast(machine):
    machine.script(worker={"admit eng1": "wrong"})
    found = measured(machine)
    wrong = [size.right for size in found.of(Way.CACHE).sizes]
    assert wrong == [False, False] and found.of(Way.CACHE).sizes[0].complaint == "C is wrong"
    assert all(size.right for size in found.of(Way.STATIC).sizes)


def test_it_ends_soon_after_it_is_cancelled(machine):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(JobCancelled):
        measured(machine, cancel)


def test_a_plan_tuned_at_one_size_is_built_and_run_at_another_that_does_not_list_it(machine, monkeypatch):
    """At one size a plan is listed that the others lack: there it is built by its engine and knobs."""
    listed = shape_speeds._Speeds._built

    def fewer(self, size):
        plans = listed(self, size)
        return {key: plan for key, plan in plans.items() if size == 8 or plan.plan_name != "eng2"}

    sessions = []
    measure = shape_speeds._measure

    def kept(worker, spec, options, plans, *more):
        sessions.append((spec, measure(worker, spec, options, plans, *more)))
        return sessions[-1][1]

    monkeypatch.setattr(shape_speeds._Speeds, "_built", fewer)
    monkeypatch.setattr(shape_speeds, "_measure", kept)
    machine.script(slower={"eng0": 0.5, "eng1": 0.4})
    found = measured(machine)
    cells = {(one.tuned_at, one.run_at): one for one in found.matrix}
    assert (cells[8, 8].plan_name, cells[16, 16].plan_name) == ("eng2", "eng1")
    assert cells[8, 16].builds and cells[8, 16].right
    assert cells[8, 16].hot.median_us < cells[16, 16].hot.median_us, "what is tuned elsewhere may be better"
    spec, seen = sessions[-1]
    assert spec == SPECS[16] and {cells[8, 16].hot, cells[16, 16].hot} == {one.hot for one in seen.values()}, "in turns"
    machine.script(slower={"eng0": 0.5, "eng1": 0.4}, builder={"build None": "fail"})
    cell = next(one for one in measured(machine).matrix if (one.tuned_at, one.run_at) == (8, 16))
    assert not cell.builds and cell.hot is None
