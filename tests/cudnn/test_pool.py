"""Builders that abort, hang, exit or babble cost their plan and nothing else; cancelling and closing leave nobody
behind."""

import ctypes
import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.capacity import LARGEST, default_size
from engine.jobs.planning import CannotPlan, plan_graph
from engine.jobs.pool import DEADLINE_S, BuilderPool
from engine.jobs.replies import End
from engine.records.plan import Stage, Status
from tests.cudnn.conftest import H200

pytestmark = [pytest.mark.cudnn, pytest.mark.process]

SPEC = pipeline("conv_bias_relu").graph({})
MODULE = "tests.cudnn.rough_builder"


@pytest.fixture(scope="module")
def names(bench):
    """Names of plans that build in a millisecond."""
    return [plan.plan_name for plan in bench.plan("conv_bias_relu", build=False).plans[:20]]


def rough(acts, size=2, **more):
    return BuilderPool(size, module=MODULE, environment={"PLANSCOPE_TEST_ROUGH": json.dumps(acts)}, **more)


def children():
    """Processes started by this one that still run."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == int(Path("/proc/self/stat").read_text().split()[0]) and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


def test_each_mishap_costs_one_plan(names, tmp_path):
    acts = dict(zip(names, ["abort", "chatter", "exit", "garbage", "flood"], strict=False))
    with rough(acts) as pool:
        outcome = plan_graph(SPEC, H200, ["A"], pool=pool, blob_dir=tmp_path)
    ended = {plan.plan_name: plan for plan in outcome.plans}
    by_act = {act: ended[name] for name, act in acts.items()}
    assert by_act["abort"].status is Status.CRASHED
    assert "SIGABRT" in by_act["abort"].message and "cublasLtGetVersion" in by_act["abort"].message
    assert by_act["exit"].status is Status.CRASHED and "status 3" in by_act["exit"].message
    assert by_act["garbage"].status is Status.CRASHED and "cuBLAS says hello" in by_act["garbage"].message
    assert by_act["chatter"].status is by_act["flood"].status is Status.OK
    assert {by_act[act].stage for act in ("abort", "exit", "garbage")} == {Stage.BUILD}
    others = [plan for name, plan in ended.items() if name not in acts]
    assert others and {plan.status for plan in others} == {Status.OK}


def test_a_builder_that_hangs_is_killed_at_the_deadline(names, tmp_path):
    content = {"spec": SPEC.model_dump_json(), "target": H200.model_dump_json(), "blob_dir": str(tmp_path)}
    content |= {"identity": '{"engine_id": 0, "knobs": {}}', "plan_name": names[0], "modes": ["A"]}
    with rough({names[0]: "hang"}, 1) as pool:
        first = pool.submit("environment", {}).result()
        reply = pool.submit("build", content, deadline_s=1.5).result()
        assert reply.end is End.TIMEOUT and "within 1.5 s" in reply.message
        assert reply.pid == first.pid not in children()
        assert pool.submit("environment", {}).result().end is End.DONE


@pytest.mark.parametrize("size", [1, 2])
def test_cancel_ends_everything_within_a_second(names, tmp_path, size):
    cancel = threading.Event()
    with rough(dict.fromkeys(names, "hang"), size) as pool:
        before = {}

        def watch(plan, done, total):
            before[plan.key] = plan.status

        def stop():
            while len(before) < 20:
                time.sleep(0.01)
            time.sleep(0.3)
            before["cancelled"] = time.monotonic()
            cancel.set()

        threading.Thread(target=stop, daemon=True).start()
        outcome = plan_graph(SPEC, H200, ["A"], pool=pool, blob_dir=tmp_path, sink=watch, cancel=cancel)
        assert time.monotonic() - before["cancelled"] < 1.0
        assert outcome.cancelled and outcome.environment is not None
        assert Counter(plan.status for plan in outcome.plans)[Status.CANCELLED] >= 18
        # The pool serves on.
        assert pool.submit("environment", {}).result().end is End.DONE


def test_cancelled_before_it_began_it_asks_for_nothing(bench):
    cancel = threading.Event()
    cancel.set()
    outcome = plan_graph(SPEC, H200, pool=bench.pool, blob_dir=bench.folder, cancel=cancel)
    assert outcome.cancelled and outcome.plans == () and outcome.environment is None


def test_closing_leaves_no_process_and_no_future_behind(names, tmp_path):
    before = children()
    pool = rough(dict.fromkeys(names, "hang")).start()
    content = {"spec": SPEC.model_dump_json(), "target": H200.model_dump_json(), "blob_dir": str(tmp_path)}
    identity = {"engine_id": 0, "knobs": {}}
    tasks = [
        pool.submit("build", {**content, "identity": json.dumps(identity), "plan_name": name, "modes": []})
        for name in names
    ]
    time.sleep(0.2)
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 2.0
    assert {task.result(timeout=0).end for task in tasks} == {End.CANCELLED}
    assert pool.submit("environment", {}).result(timeout=0).end is End.CANCELLED
    assert children() <= before
    pool.close()


def test_a_builder_that_cannot_start_is_an_error_of_the_machine_not_of_a_plan(tmp_path):
    with BuilderPool(1, module="tests.cudnn.no_such_builder") as pool, pytest.raises(CannotPlan) as raised:
        plan_graph(SPEC, H200, pool=pool, blob_dir=tmp_path)
    assert "no_such_builder" in raised.value.message and raised.value.remedy


def test_without_cudnn_it_says_so(tmp_path):
    """A folder named cudnn that is not cuDNN, found first."""
    (tmp_path / "cudnn").mkdir()
    (tmp_path / "cudnn" / "__init__.py").write_text(
        "raise ImportError('libcudnn.so.9: cannot open shared object file')"
    )
    with (
        BuilderPool(1, environment={"PYTHONPATH": str(tmp_path)}) as pool,
        pytest.raises(CannotPlan, match=r"cudnn cannot be imported: libcudnn\.so\.9"),
    ):
        plan_graph(SPEC, H200, pool=pool, blob_dir=tmp_path)


def test_without_the_driver_library_it_says_what_mends_it(tmp_path):
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a driver library of its own")
    with BuilderPool(1, module="tests.cudnn.driverless_builder") as pool, pytest.raises(CannotPlan) as raised:
        plan_graph(SPEC, H200, pool=pool, blob_dir=tmp_path)
    assert "libcuda.so.1" in raised.value.message and raised.value.remedy


def test_a_folder_that_cannot_be_written_costs_the_plans_not_the_pool(bench, tmp_path):
    blocked = tmp_path / "blobs"
    blocked.write_text("a file where a folder should be")
    outcome = plan_graph(SPEC, H200, ["FALLBACK"], pool=bench.pool, blob_dir=blocked)
    assert {plan.status for plan in outcome.plans} == {Status.BUILD_FAILED}
    assert all("blobs" in plan.message for plan in outcome.plans)
    assert bench.pool.submit("environment", {}).result().end is End.DONE


def test_the_compute_cache_is_off_unless_asked_for():
    assert BuilderPool(1)._environment["CUDA_CACHE_DISABLE"] == "1"
    assert BuilderPool(1, compute_cache=True)._environment["CUDA_CACHE_DISABLE"] == "0"


def test_sizes_and_deadlines():
    assert DEADLINE_S >= 120
    assert 1 <= default_size() <= LARGEST


def test_a_lost_idle_builder_is_replaced_without_a_word():
    with BuilderPool(1) as pool:
        first = pool.submit("environment", {}).result()
        os.kill(first.pid, signal.SIGKILL)
        time.sleep(0.2)
        second = pool.submit("environment", {}).result()
    assert second.end is End.DONE and second.pid != first.pid
