"""A study of reuse with real cuDNN and no GPU: builds and loads are real, and nothing is executed."""

from __future__ import annotations

import threading

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.many_shapes import ManyShapes
from engine.jobs.protocol import JobCancelled
from engine.jobs.request import Study
from engine.jobs.standby import Standby
from engine.jobs.studying import study
from engine.machine.gpus import list_gpus
from engine.plans.calls import record_calls
from engine.plans.targets import resolve_target
from engine.records.options import SweepOptions
from engine.records.payoff import sentences
from engine.records.plan import PlanIdentity
from engine.records.reuse import Way
from engine.runs.archive_reading import read_run_file

pytestmark = [
    pytest.mark.cudnn,
    pytest.mark.slow,
    pytest.mark.skipif(bool(list_gpus()), reason="says what it does without a GPU"),
]
SMALL = {"c": 16, "k": 16, "h": 8, "w": 8}
H200 = resolve_target("h200")


def conv(n):
    return pipeline("conv_relu").graph({**SMALL, "n": n})


@pytest.fixture(scope="module")
def reuse(studied):
    return read_run_file(studied.file.read_bytes()).run.reuse


def test_builds_and_loads_are_each_of_a_process_of_its_own(reuse):
    assert (reuse.on_gpu, reuse.repeats, len(reuse.costs)) == (False, 1, 2)
    for cost in reuse.costs:
        assert cost.message is None
        assert len(cost.cold_ms.values_ms) == len(cost.warm_ms.values_ms) == len(cost.load_ms.values_ms) == 1
        assert cost.execute_cold_ms is cost.execute_load_ms is None
        assert cost.precompiled is True and cost.blob_bytes > 1000
        assert (cost.again_ms is None) is cost.compiled
    compiled = [cost for cost in reuse.costs if cost.compiled]
    assert compiled and all(cost.speedup > 10 for cost in compiled)


def test_a_kernel_cache_serves_many_sizes_and_can_be_saved(reuse):
    shapes = reuse.shapes
    static, cached, override = (shapes.of(way) for way in Way)
    assert all(size.build_ms and size.plan_name for size in (*static.sizes, *cached.sizes))
    assert cached.sizes[1].build_ms < cached.sizes[0].build_ms / 5
    assert cached.cache_bytes > 1000 and cached.reloaded_ms < cached.sizes[0].build_ms / 5
    assert all("override shape" in size.refused.lower() for size in override.sizes)


def test_a_recipe_of_one_size_is_built_at_every_other(reuse):
    matrix = reuse.shapes.matrix
    assert {(one.tuned_at, one.run_at) for one in matrix} == {(a, b) for a in (8, 16) for b in (8, 16)}
    assert all(one.builds and one.hot is None for one in matrix)


def test_what_it_says_claims_no_speed_of_execution(reuse):
    text = " ".join(sentences(reuse))
    assert "Loading is" in text and "nothing was executed" in text and "No override shape for 2 of 2 sizes" in text


def test_attention_takes_no_kernel_cache_but_overridden_shapes(bench, tmp_path):
    """Since cuDNN 9.28; 9.20 takes the cache, and knows no overridden shapes."""
    specs = {s: pipeline("sdpa").graph({"b": 1, "hq": 1, "hkv": 1, "sq": s, "skv": s, "d": 64}) for s in (256, 128)}
    standby = Standby(specs[256].model_dump_json(), H200, threading.Event(), False, 2)
    many = ManyShapes(standby, specs, ("A",), tmp_path)
    cached, override = many.series((Way.CACHE, Way.OVERRIDE))
    if bench.version < (9, 21):
        assert all(size.plan_name and size.build_ms for size in cached.sizes)
        assert all("requires cudnn 9.21.0" in size.refused for size in override.sizes)
        return
    assert all("does not support dynamic shape" in size.refused for size in cached.sizes)
    assert [size.build_ms > 1 for size in override.sizes] == [True, False], "built for the largest"
    assert override.sizes[0].plan_name == override.sizes[1].plan_name


def test_a_recipe_that_cudnn_does_not_take_at_a_size_says_why(tmp_path):
    standby = Standby(conv(8).model_dump_json(), H200, threading.Event(), False, 2)
    many = ManyShapes(standby, {8: conv(8), 16: conv(16)}, ("A",), tmp_path)
    nowhere = PlanIdentity(engine_id=9999)
    refused = [one for one in many.transplants({8: (nowhere, "eng9999")}) if one.run_at == 16]
    assert [one.builds for one in refused] == [False] and refused[0].message


def test_a_study_that_is_cancelled_ends_without_a_run(tmp_path):
    cancel = threading.Event()
    cancel.set()
    asked = Study("conv_relu", {}, conv(8), H200, SweepOptions(modes=("A",)))
    with pytest.raises(JobCancelled):
        study(asked, tmp_path, cancel)


def test_calls_are_recorded_for_every_operation():
    """Each result of a method that gives more than one has its place, or the loader would lose count."""
    calls = record_calls(pipeline("sdpa").graph({}))["calls"]
    assert [len(call["results"]) for call in calls] == [1, 1, 1, 2]
    assert calls[-1]["results"][1] == {}
    epilogue = record_calls(pipeline("matmul_epilogue").graph({}))["calls"]
    assert epilogue[4]["arguments"]["A"] == {"tensor": 0}
    assert epilogue[-1]["arguments"]["mode"] == {"enum": "reduction_mode.AMAX"}
