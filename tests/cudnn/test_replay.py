"""Identity, serialization and loading: what a plan is stored by gives the same plan again, in another process."""

import re

import pytest

from engine.graph.pipelines import CATALOGUE, pipeline
from engine.jobs.planning import plan_graph
from engine.jobs.replies import End
from engine.records.plan import Status
from tests.cudnn.conftest import H200

pytestmark = pytest.mark.cudnn

GID = re.compile(rb"i\x03gid(?:i.|U.|I..|l....)", re.DOTALL)
"""The frontend's graph counter, a UBJSON integer."""
PARAMETERS = re.compile(rb'"rawData":"([^"]*)"')
"""Launch parameters of a compiled kernel, base64. Unused words in it hold addresses of the building process
(0x7ff...)."""
CODE = re.compile(rb'"cubin":"([^"]*)"')
"""A compiled kernel, base64. Seldom (seen once on cuDNN 9.20, not in 4,340 builds on purpose) its instructions stand in
another order."""


def build(bench, name, plans, modes=True, **parameters):
    """Each plan once more, from its identity."""
    common = {"spec": pipeline(name).graph(parameters).model_dump_json(), "target": H200.model_dump_json()}
    tasks = [
        bench.pool.submit(
            "build",
            {
                **common,
                "identity": plan.identity.model_dump_json(),
                "plan_name": plan.plan_name,
                "modes": list(plan.modes) if modes else [],
                "blob_dir": str(bench.folder),
            },
        )
        for plan in plans
    ]
    return [task.result() for task in tasks]


def comparable(blob):
    """A serialized plan without what differs from build to build; of parameters and code, the length stays."""
    blob = GID.sub(b"", blob)
    for part in (PARAMETERS, CODE):
        blob = part.sub(lambda match: b"%d bytes" % len(match[1]), blob)
    return blob


def differences(first, second):
    """Where two serialized plans differ, each with what stands before it; empty where they are the same."""
    first, second = comparable(first), comparable(second)
    if len(first) != len(second):
        return [(len(first), len(second))]
    differ = [index for index in range(len(first)) if first[index] != second[index]]
    return [(index, first[max(0, index - 60) : index + 20], second[index]) for index in differ[:10]]


def load(bench, folder, sha256, name="sdpa"):
    content = {"spec": pipeline(name).graph({}).model_dump_json(), "target": H200.model_dump_json()}
    return bench.pool.submit("load", {**content, "blob_dir": str(folder), "sha256": sha256}).result()


def quickly_built(plans):
    """All that need no compiler, and the first of every engine that does."""
    compiled = {}
    for plan in plans:
        if plan.is_compiled:
            compiled.setdefault(plan.identity.engine_id, plan)
    return [plan for plan in plans if not plan.is_compiled or compiled[plan.identity.engine_id] is plan]


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_identity_replays_as_the_same_plan(bench, all_five, name):
    """FE 729: name, workspace, notes, and a serialized form that is equal but for the frontend's graph counter and, in
    compiled plans, words of the launch parameters that nothing sets and the order of instructions."""
    plans = quickly_built(all_five.outcomes[name].plans)
    for plan, reply in zip(plans, build(bench, name, plans, modes=False), strict=True):
        assert reply.end is End.DONE, reply.message
        again = reply.content
        assert again["remark"] is None
        assert again["workspace_bytes"] == plan.workspace_bytes
        assert tuple(again["behavior_notes"]) == plan.behavior_notes
        assert tuple(again["numerical_notes"]) == plan.numerical_notes
        first, second = all_five.blob(plan), (bench.folder / again["blob_sha256"]).read_bytes()
        assert len(GID.findall(first)) == 1
        compiled = "RUNTIME_COMPILATION" in plan.behavior_notes
        assert len(PARAMETERS.findall(first)) == len(CODE.findall(first)) == compiled
        assert differences(first, second) == [], plan.plan_name


def test_listed_and_built_plans_agree(bench, all_five):
    listed = {plan.key: plan for plan in bench.plan("conv_bias_relu", build=False).plans}
    for plan in all_five.outcomes["conv_bias_relu"].plans:
        assert listed[plan.key].plan_name == plan.plan_name
        assert listed[plan.key].modes == plan.modes
        assert listed[plan.key].behavior_notes == plan.behavior_notes


def test_an_identity_that_replays_as_another_plan_is_told(bench, all_five):
    """The name is what the heuristics said; where the replay has another, there is no pretending."""
    plan = all_five.outcomes["conv_bias_relu"].plans[0].model_copy(update={"plan_name": "eng0"})
    (reply,) = build(bench, "conv_bias_relu", [plan])
    assert (reply.end, reply.content["status"]) == (End.FAILED, Status.UNSUPPORTED)
    assert "eng0" in reply.message


def test_knobs_that_the_frontend_cannot_name_keep_plans_apart(bench):
    """3 channels bring engines with deprecated knobs. By name alone two of their plans would be one, and would not
    replay."""
    outcome = bench.plan("conv_bias_relu", c="3")
    assert {plan.status for plan in outcome.plans} == {Status.OK}
    assert len({plan.plan_name for plan in outcome.plans}) == len(outcome.plans)
    odd = [plan for plan in outcome.plans if {"LDGA", "LDGC", "USE_TEX"} & set(plan.identity.knobs)]
    assert odd and all("cannot be rebuilt" in plan.message for plan in odd)
    assert all(plan.message is None for plan in outcome.plans if plan not in odd)
    (reply, *_) = build(bench, "conv_bias_relu", odd, modes=False, c="3")
    assert (reply.end, reply.content["status"]) == (End.FAILED, Status.UNSUPPORTED)


def test_a_plan_loads_in_a_process_that_did_not_build_it(bench, all_five):
    plan = all_five.outcomes["sdpa"].plans[0]
    builders = {reply.pid for reply in build(bench, "sdpa", [plan, plan])}
    reply = load(bench, all_five.blobs, plan.blob_sha256)
    assert reply.end is End.DONE and reply.pid not in builders


def test_a_plan_of_another_graph_is_noticed_by_its_tensors(bench, all_five):
    reply = load(bench, all_five.blobs, all_five.outcomes["sdpa"].plans[0].blob_sha256, "matmul")
    assert (reply.end, reply.content["status"]) == (End.FAILED, Status.BUILD_FAILED)
    assert "uid" in reply.message


@pytest.mark.parametrize("harm", ["cut", "flipped", "foreign", "gone"])
def test_a_serialized_plan_that_was_harmed_does_not_load(bench, all_five, harm, tmp_path):
    plan = all_five.outcomes["sdpa"].plans[0]
    blob = bytearray(all_five.blob(plan))
    if harm == "cut":
        del blob[-20:]
    elif harm == "flipped":
        blob[len(blob) // 2] ^= 1
    elif harm == "foreign":
        blob = bytearray(b"PK\x03\x04")
    if harm != "gone":
        (tmp_path / plan.blob_sha256).write_bytes(blob)
    reply = load(bench, tmp_path, plan.blob_sha256)
    assert reply.end is End.FAILED and reply.message
    assert load(bench, all_five.blobs, plan.blob_sha256).end is End.DONE


def test_float32_runs_on_tensor_cores_and_says_so(bench):
    """FE 70: where fp32 runs on tensor cores it is TF32, which only the numerical note tells."""
    spec = pipeline("matmul").graph({"dtype": "fp32"})
    plans = plan_graph(spec, H200, ["FALLBACK"], pool=bench.pool, blob_dir=bench.folder).plans
    assert plans and all("TENSOR_CORE" in plan.numerical_notes for plan in plans)
    spec = pipeline("conv_bias_relu").graph({"dtype": "fp32"})
    plans = plan_graph(spec, H200, ["FALLBACK"], pool=bench.pool, blob_dir=bench.folder).plans
    assert {"TENSOR_CORE" in plan.numerical_notes for plan in plans} == {True, False}
