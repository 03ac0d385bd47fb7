"""Every catalogue pipeline, planned and built by real cuDNN for GPUs that are not in the machine."""

import hashlib
import os
import re
from collections import Counter

import pytest

from engine.graph.pipelines import CATALOGUE, pipeline
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.plans.candidates import MODES
from engine.plans.targets import target_from_properties
from engine.records.plan import Stage, Status
from engine.records.run import Source
from tests.cudnn.conftest import H200

pytestmark = pytest.mark.cudnn

LEAST = {"conv_bias_relu": 36, "conv_relu": 12, "matmul": 10, "matmul_epilogue": 10, "sdpa": 4}
OLDER = {"conv_bias_relu": 33, "conv_relu": 6, "matmul": 3, "matmul_epilogue": 3, "sdpa": 6}
"""Without a GPU, cuDNN up to 9.20 lists incompletely: seen with 9.19 and 9.20."""


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_plan_of_every_pipeline_builds_for_the_h200(bench, all_five, name):
    outcome = all_five.outcomes[name]
    assert outcome.refusal is None and not outcome.cancelled and not outcome.remarks
    assert Counter(plan.status for plan in outcome.plans) == {Status.OK: len(outcome.plans)}
    least = LEAST if bench.version >= (9, 28) else OLDER
    assert len(outcome.plans) >= least[name]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_built_plan_has_all_there_is_to_know(all_five, name):
    plans = all_five.outcomes[name].plans
    for plan in plans:
        blob = all_five.blob(plan)
        assert hashlib.sha256(blob).hexdigest() == plan.blob_sha256 and len(blob) == plan.blob_bytes
        assert plan.stage is Stage.LOAD and plan.message is None
        assert plan.build_ms > 0 and plan.deserialize_ms > 0 and plan.build_contended is not None
        assert plan.workspace_bytes is not None
        assert "NOT_SET" not in plan.identity.knobs
        choices = re.findall(r"_k\d+=(-?\d+)", plan.plan_name)
        assert sorted(map(int, choices)) == sorted(plan.identity.knobs.values())
        assert plan.plan_name.split("_")[0] == f"eng{plan.identity.engine_id}"
    assert len({plan.key for plan in plans}) == len({plan.plan_name for plan in plans}) == len(plans)


@pytest.mark.parametrize("name", CATALOGUE)
def test_ranks_of_a_mode_count_from_its_first_pick_without_gaps(all_five, name):
    plans = all_five.outcomes[name].plans
    for mode in MODES:
        ranks = [plan.modes[mode] for plan in plans if mode in plan.modes]
        assert sorted(ranks) == list(range(len(ranks)))
    assert plans[0].modes["A"] == 0


def test_a_mode_without_plans_is_no_refusal_while_another_has_some(bench, all_five):
    """Attention has none in FALLBACK on 9.28; asked for alone, that mode refuses with a reason."""
    fallback = [plan for plan in all_five.outcomes["sdpa"].plans if "FALLBACK" in plan.modes]
    if bench.version >= (9, 28):
        assert not fallback
        alone = plan_graph(pipeline("sdpa").graph({}), H200, ["FALLBACK"], pool=bench.pool, blob_dir=bench.folder)
        assert alone.plans == () and alone.refusal.reasons


def test_compilation_is_told_apart_from_ready_kernels(all_five):
    plans = all_five.outcomes["conv_bias_relu"].plans
    compiled = [plan for plan in plans if "RUNTIME_COMPILATION" in plan.behavior_notes]
    ready = [plan for plan in plans if "RUNTIME_COMPILATION" not in plan.behavior_notes]
    assert compiled and len(ready) > 20
    assert min(plan.blob_bytes for plan in compiled) > max(plan.blob_bytes for plan in ready)
    assert min(plan.build_ms for plan in compiled) > sorted(plan.build_ms for plan in ready)[len(ready) // 2]


def test_loading_compiles_nothing(all_five):
    """FE 254."""
    plans = [plan for outcome in all_five.outcomes.values() for plan in outcome.plans]
    compiled = [plan for plan in plans if "RUNTIME_COMPILATION" in plan.behavior_notes]
    share = sorted(plan.deserialize_ms / plan.build_ms for plan in compiled)
    assert share[len(share) // 2] < 0.05


def test_what_a_layout_costs_in_workspace(bench):
    """PT 128936: gigabytes to transpose in NCHW, next to nothing in NHWC."""
    shape = {"n": "64", "c": "128", "h": "513", "w": "513", "k": "128", "stride": "2"}
    most = {}
    for layout in ("nhwc", "nchw"):
        spec = pipeline("conv_bias_relu").graph({**shape, "layout": layout})
        plans = plan_graph(spec, H200, ["A"], pool=bench.pool, blob_dir=bench.folder).plans
        most[layout] = {plan.workspace_bytes for plan in plans}
    assert max(most["nhwc"]) < 1 << 20 and min(most["nchw"]) > 4 << 30


def test_b200_gets_plans_of_its_own(bench, all_five):
    outcome = bench.plan("conv_bias_relu", "b200")
    assert Counter(plan.status for plan in outcome.plans) == {Status.OK: len(outcome.plans)}
    own = {plan.key for plan in outcome.plans} - {plan.key for plan in all_five.outcomes["conv_bias_relu"].plans}
    assert own
    if bench.version >= (9, 28):
        assert len(outcome.plans) >= 40


@pytest.mark.parametrize("target", ["a100", "l4", "rtx5090", "b200"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_shipped_gpu_has_plans_for_every_pipeline(bench, target, name):
    outcome = bench.plan(name, target, build=False)
    assert outcome.refusal is None and outcome.plans
    assert {plan.status for plan in outcome.plans} == {Status.LISTED}


def test_a_properties_file_plans_as_the_gpu_it_was_written_on(bench):
    unknown = target_from_properties({**H200.properties, "deviceName": "NVIDIA Mystery"}, "file")
    assert unknown.info.source is Source.FILE
    outcome = bench.plan("conv_bias_relu", unknown, build=False)
    shipped = bench.plan("conv_bias_relu", build=False)
    assert [(plan.key, plan.modes) for plan in outcome.plans] == [(plan.key, plan.modes) for plan in shipped.plans]
    if bench.version >= (9, 28):
        (remark,) = outcome.remarks
        assert "NVIDIA Mystery" in remark and "memoryBusWidth" in remark


def test_modes_are_asked_for_as_wanted(bench):
    spec = pipeline("conv_relu").graph({})
    only_b = plan_graph(spec, H200, ["B"], pool=bench.pool, blob_dir=bench.folder, build=False)
    assert only_b.plans and {tuple(plan.modes) for plan in only_b.plans} == {("B",)}


def test_builders_never_load_torch(bench):
    reply = bench.pool.submit("environment", {}).result()
    assert reply.content["modules"] == []
    assert bench.environment.gpu is None and bench.environment.torch is None
    assert re.fullmatch(r"9\.\d+\.\d+", bench.environment.cudnn_backend)


def test_records_stream_as_they_come(bench):
    seen = []
    outcome = plan_graph(
        pipeline("conv_bias_relu").graph({"k": "64"}),
        H200,
        ["FALLBACK"],
        pool=bench.pool,
        blob_dir=bench.folder,
        sink=lambda plan, done, total: seen.append((plan.key, plan.status, done, total)),
    )
    total = len(outcome.plans)
    assert [entry[1:] for entry in seen[:total]] == [(Status.LISTED, 0, total)] * total
    assert [entry[1:] for entry in seen[total:]] == [(Status.OK, n, total) for n in range(1, total + 1)]
    assert {entry[0] for entry in seen[total:]} == {plan.key for plan in outcome.plans}


@pytest.mark.timing
def test_all_five_build_in_time_with_two_builders(all_five):
    """14.6 s were seen on two idle cores."""
    if all_five.seconds >= 25 and os.getloadavg()[0] > 2 * len(os.sched_getaffinity(0)):
        pytest.skip(f"took {all_five.seconds:.0f} s, but on a machine that is busy with other things")
    assert all_five.seconds < 25


def test_one_builder_alone_is_never_contended(bench):
    spec = pipeline("conv_bias_relu").graph({"c": "3"})
    with BuilderPool(1) as pool:
        outcome = plan_graph(spec, H200, ["A"], pool=pool, blob_dir=bench.folder)
    assert outcome.plans and not any(plan.build_contended for plan in outcome.plans)


def test_two_builders_at_work_say_so(all_five):
    assert any(plan.build_contended for plan in all_five.outcomes["matmul"].plans)
