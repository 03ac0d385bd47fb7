"""Plans that no heuristics mode lists, asked of the real cuDNN for a GPU that is not here."""

import json
import subprocess
import sys
import threading

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs import unlisted
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.scores import Scores
from engine.jobs.unlisted import Beyond
from engine.plans.explicit import parse_plan
from engine.plans.knobs import KNOBS
from engine.plans.names import engine_label
from engine.plans.targets import resolve_target
from engine.records.plan import PlanOrigin, Stage, Status

pytestmark = [pytest.mark.cudnn, pytest.mark.process]

H200 = resolve_target("h200")
CONV = pipeline("conv_bias_relu").graph({})
MATMUL = pipeline("matmul").graph({})
SDPA = pipeline("sdpa").graph({})


@pytest.fixture
def plan(bench, tmp_path):
    """``plan(spec, mode, build=..., **what is asked beyond it)``: the outcome, and plans beyond the heuristics by
    key."""

    def call(spec, mode, build=False, pool=bench.pool, cancel=None, sink=None, **beyond):
        asked = Beyond(**beyond)
        outcome = plan_graph(
            spec, H200, [mode], pool=pool, blob_dir=tmp_path, build=build, beyond=asked, cancel=cancel, sink=sink
        )
        return outcome, {plan.key: plan for plan in outcome.plans if plan.origin is not PlanOrigin.HEURISTICS}

    return call


def test_an_explicit_plan_is_built_and_named(plan):
    """The plan that hangs an H200 under cuDNN 9.19: planning has no objection to it."""
    wanted = parse_plan("49;SPLIT_K_SLC=15;KERNEL_CFG=30")
    outcome, found = plan(CONV, "FALLBACK", build=True, explicit=(wanted,))
    built = found[wanted.key]
    assert (built.status, built.origin, built.modes) == (Status.OK, PlanOrigin.EXPLICIT, {})
    assert built.plan_name == "eng49_k17=15_k24=30"
    assert "_knob_30_" in built.engine_name and engine_label(built).startswith("cutlass_sm80 ")
    assert built.deserialize_ms > 0 and built.blob_bytes > 0
    assert outcome.refusal is None and len(outcome.plans) > 1


def test_what_cudnn_refuses_ends_with_its_words_and_what_is_listed_stays_the_heuristics(plan):
    outcome, found = plan(
        CONV, "FALLBACK", explicit=tuple(map(parse_plan, ["9999", "49;KERNEL_CFG=9999", "34;TILE_M=1", "11"]))
    )
    assert set(found) == {"9999", "49;KERNEL_CFG=9999", "34;TILE_M=1"}
    assert {(plan.status, plan.stage) for plan in found.values()} == {(Status.UNSUPPORTED, Stage.LIST)}
    assert found["9999"].message == "Invalid engine id."
    assert "knob choices" in found["49;KERNEL_CFG=9999"].message
    listed = {plan.key: plan for plan in outcome.plans}["11"]
    assert listed.modes == {"FALLBACK": 0}


def test_every_engine(plan):
    outcome, found = plan(CONV, "FALLBACK", every_engine=True)
    assert {plan.status for plan in found.values()} == {Status.LISTED}
    assert {plan.origin for plan in found.values()} == {PlanOrigin.ENGINE_LIST}
    engines = [plan.identity.engine_id for plan in found.values()]
    assert len(engines) == len(set(engines)) > 5
    listed = {plan.identity.engine_id for plan in outcome.plans if plan.modes}
    assert not listed & set(engines)
    assert {41, 49} <= set(engines), "mode A's engine, which was not asked here, is found by its id"
    (remark,) = (remark for remark in outcome.remarks if "Every engine" in remark)
    assert f"the heuristics list {len(listed)}; {len(engines)} of the others take this one" in remark


@pytest.mark.slow
def test_an_engine_that_refuses_its_default_knobs_is_offered_kernel_configurations(plan):
    """Attention: engine 11 takes none of its defaults, no mode lists it, and it has a kernel for this graph."""
    outcome, found = plan(SDPA, "A", every_engine=True)
    assert found and {plan.origin for plan in found.values()} == {PlanOrigin.ENGINE_LIST}
    listed = {plan.identity.engine_id for plan in outcome.plans if plan.modes}
    for found_plan in found.values():
        assert found_plan.identity.engine_id not in listed and list(found_plan.identity.knobs) == ["KERNEL_CFG"]


def test_a_graph_that_the_heuristics_refuse_can_be_asked_for_by_name(bench, plan):
    """FALLBACK has no plan for attention, mode A has."""
    if bench.version < (9, 28):
        pytest.skip("before cuDNN 9.28 FALLBACK has plans for attention")
    listed, _ = plan(SDPA, "A")
    wanted = listed.plans[0]
    outcome, found = plan(SDPA, "FALLBACK", explicit=(wanted.identity,))
    assert outcome.refusal is None and found[wanted.key].status is Status.LISTED
    assert any(remark.startswith("No heuristics mode lists a plan: ") for remark in outcome.remarks)
    refused, ended = plan(SDPA, "FALLBACK", explicit=(parse_plan("9999"),), knob_budget=3)
    assert refused.refusal is not None and [plan.status for plan in ended.values()] == [Status.UNSUPPORTED]


def test_a_knob_search_stays_in_its_budget_and_builds_what_cudnn_takes(plan):
    seen = []
    outcome, found = plan(
        MATMUL, "FALLBACK", build=True, knob_budget=3, seed=5, sink=lambda *progress: seen.append(progress)
    )
    assert len(found) == 3 and {plan.origin for plan in found.values()} == {PlanOrigin.KNOB_SEARCH}
    assert {plan.status for plan in found.values()} == {Status.OK}
    assert all(plan.blob_sha256 and plan.engine_name for plan in found.values())
    assert all(set(plan.identity.knobs) <= set(KNOBS) for plan in found.values())
    _, done, total = seen[-1]
    assert done == total == len(outcome.plans)
    assert any("Knob search" in remark for remark in outcome.remarks)
    assert any("without regard to the GPU" in remark for remark in outcome.remarks)


def test_the_same_seed_finds_the_same_choices_and_another_others(plan):
    first, again, other = (set(plan(MATMUL, "A", knob_budget=12, seed=seed)[1]) for seed in (1, 1, 2))
    assert first == again != other and len(first) == len(other) == 12


def test_an_engine_that_tells_no_knobs_without_its_gpu_is_searched_by_what_its_plans_show(plan):
    outcome, found = plan(CONV, "A", knob_budget=4)
    values = {}
    for listed in outcome.plans:
        if listed.modes and listed.identity.engine_id == 41:
            for name, value in listed.identity.knobs.items():
                values.setdefault(name, set()).add(value)
    of_41 = [plan for plan in found.values() if plan.identity.engine_id == 41]
    assert of_41 and any("Engine 41 tells no knob ranges here" in remark for remark in outcome.remarks)
    for plan_ in of_41:
        assert all(min(values[name]) <= value <= max(values[name]) for name, value in plan_.identity.knobs.items())


def test_the_search_goes_on_around_what_was_measured_to_be_fast(plan):
    """Engine 7 is told to be three times as fast as engine 4: nothing of engine 4 is tried."""
    scores = Scores()

    def measure(record, done, total):
        if record.status is Status.OK:
            scores.enter(record.key, 10.0 if record.identity.engine_id == 7 else 30.0)

    _, found = plan(MATMUL, "FALLBACK", build=True, knob_budget=2, scores=scores, sink=measure)
    assert [plan.identity.engine_id for plan in found.values()] == [7, 7]


def test_a_search_that_waits_for_measurements_can_be_cancelled(plan):
    cancel = threading.Event()

    def stop(record, done, total):
        if done == total:
            threading.Timer(0.3, cancel.set).start()

    outcome, found = plan(MATMUL, "FALLBACK", build=True, knob_budget=5, scores=Scores(), cancel=cancel, sink=stop)
    assert outcome.cancelled and found == {}


def test_a_crash_or_a_hang_in_a_check_costs_that_one(plan, monkeypatch):
    monkeypatch.setattr(unlisted, "CHECK_DEADLINE_S", 6.0)
    acts = {"engine 10": "abort", "49;KERNEL_CFG=2": "hang", "53": "abort"}
    rough = {"PLANSCOPE_TEST_ROUGH": json.dumps(acts)}
    with BuilderPool(2, module="tests.cudnn.rough_checker", environment=rough) as pool:
        explicit = tuple(map(parse_plan, ["49;KERNEL_CFG=2", "53", "49;KERNEL_CFG=5"]))
        outcome, found = plan(CONV, "FALLBACK", pool=pool, explicit=explicit, every_engine=True)
    assert found["49;KERNEL_CFG=2"].status is Status.TIMEOUT and "within 6 s" in found["49;KERNEL_CFG=2"].message
    assert found["53"].status is Status.CRASHED and "SIGABRT" in found["53"].message
    assert (found["10"].status, found["10"].origin) == (Status.CRASHED, PlanOrigin.ENGINE_LIST)
    others = [plan for key, plan in found.items() if key not in ("49;KERNEL_CFG=2", "53", "10")]
    assert len(others) > 5 and {plan.status for plan in others} == {Status.LISTED}
    assert {plan.status for plan in outcome.plans if plan.modes} == {Status.LISTED}


def test_known_knobs_are_those_the_frontend_can_set():
    """Asked in a process of its own: the builder's way to import cudnn shuts torch out."""
    code = (
        "import json\nfrom engine.jobs.builder import import_cudnn\n"
        "members = import_cudnn()[0].knob_type.__members__\n"
        "print(json.dumps([name for name, member in members.items() if 0 < int(member.value) < 1000]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == set(KNOBS)
