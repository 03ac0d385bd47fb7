"""The zip: its members, its determinism, and what refuses to become one."""

from __future__ import annotations

import hashlib
import json

import pytest

from engine.bundles.export import Part, bundle, bundle_of, default_plan, file_name
from engine.graph.errors import InvalidInput
from engine.records.plan import OutputAccuracy, PlanIdentity, Stage, Status, Timings
from engine.records.run import RunRecord
from engine.records.samples import Samples
from engine.records.verdict import verdict
from tests.bundles.mutations import unpacked

pytestmark = pytest.mark.cudnn

MEMBERS = {
    "manifest.json", "graph-1.json", "run-1.json", "plan-1.json", "plan-1.bin", "load_plan.py", "README.txt",
    "device_properties.json", "SHA256SUMS",
}  # fmt: skip


def timed(plan, us):
    samples = Samples.of([us * 0.99, us, us * 1.01])
    right = OutputAccuracy(name="C", max_abs=0.1, max_rel=0.002, unwritten=0, nonfinite=0, elements=4, tolerance=0.02)
    timings = Timings(hot=samples, cold=samples, host=samples)
    return plan.model_copy(update={"timings": timings, "accuracy": (right,), "stage": Stage.TIME})


def test_members_and_checksums(made):
    m = made("matmul_epilogue")
    files = unpacked(bundle(m.run, m.plan, m.blob))
    assert set(files) == MEMBERS
    sums = dict(reversed(line.split("  ")) for line in files["SHA256SUMS"].decode().splitlines())
    assert list(sums) == sorted(MEMBERS - {"SHA256SUMS"})
    assert all(hashlib.sha256(files[name]).hexdigest() == digest for name, digest in sums.items())
    assert files["plan-1.bin"] == m.blob


def test_contents_say_what_the_plan_is(made):
    m = made("matmul_epilogue")
    files = {
        name: json.loads(data) for name, data in unpacked(bundle(m.run, m.plan, m.blob)).items() if ".json" in name
    }
    plan, graph, run = files["plan-1.json"], files["graph-1.json"], files["run-1.json"]
    assert plan["recipe"]["engine_id"] == m.plan.identity.engine_id
    assert plan["recipe"]["knobs"] == m.plan.identity.knobs
    assert (plan["measured"], plan["workspace_bytes"]) == (None, m.plan.workspace_bytes)
    manifest = files["manifest.json"]
    assert (manifest["format"], manifest["version"]) == ("planscope-bundle", 2)
    assert manifest["cudnn_backend"] == m.run.environment.cudnn_backend
    assert "planned and built without a GPU (its properties: read off a device), nothing was run" in manifest["label"]
    assert manifest["graphs"][0]["dims"]["A"] == [16, 512, 1024] and "alpha" not in manifest["graphs"][0]["dims"]
    tensors = {t["name"]: t for t in graph["tensors"]}
    assert list(tensors) == ["A", "B", "bias", "alpha", "C", "amax"]
    assert (tensors["alpha"]["role"], tensors["alpha"]["value"]) == ("scalar", 0.125)
    assert tensors["B"]["strides"] == [1024 * 512, 512, 1]
    assert type(m.run.graph).model_validate_json(json.dumps(graph["spec"])).graph_id == m.run.graph_id
    assert [call["method"] for call in graph["calls"]][-5:] == ["matmul", "mul", "bias", "gelu", "reduction"]
    assert run["environment"]["cudnn_frontend"] == m.run.environment.cudnn_frontend
    assert run["verdict"] is None


def test_equal_bytes_each_time_and_after_a_round_trip(made):
    m = made("matmul_epilogue")
    again = RunRecord.model_validate_json(m.run.model_dump_json())
    assert bundle(m.run, m.plan, m.blob) == bundle(again, again.plans[0], m.blob)


def test_a_measured_plan_says_what_was_measured(made):
    m = made("matmul_epilogue")
    plan = timed(m.plan, 25.123456)
    files = unpacked(bundle(m.run.model_copy(update={"plans": (plan,)}), plan, m.blob))
    told = json.loads(files["plan-1.json"])
    assert told["measured"]["hot_us"] == {"median": 25.12, "p10": 24.92, "p90": 25.32, "samples": 3}
    assert told["measured"]["accuracy"][0]["max_rel"] == 0.002
    assert told["record"]["timings"]["hot"] == plan.timings.hot.model_dump(mode="json")
    assert "25.12 us on NVIDIA H200" in files["README.txt"].decode()
    assert "Keep files of your own out of this folder" in files["README.txt"].decode(), "the loader refuses them"


def test_the_verdict_goes_along_with_the_samples_of_its_tie_set(recorded):
    run, blobs = recorded("matmul")
    plan, why = default_plan(run)
    assert why.startswith("the winner among 3 plans that tie, for the smallest workspace")
    assert plan.key != run.best.key, "the winner and not the smallest median"
    told = json.loads(unpacked(bundle_of([Part(run, (plan,), blobs, why)]))["run-1.json"])
    found = verdict(run)
    assert told["chosen"] == why
    assert (told["verdict"]["winner"], tuple(told["verdict"]["tie_set"])) == (plan.key, found.tie_set)
    contenders = {PlanIdentity.model_validate(c["identity"]).key: c["hot"] for c in told["verdict"]["contenders"]}
    assert set(contenders) == {*found.tie_set, run.first_pick.key}
    timings = {p.key: p.timings for p in run.plans}
    assert all(hot == timings[key].hot.model_dump(mode="json") for key, hot in contenders.items())


def test_plans_of_several_shapes_in_one_file(planned):
    parts = [planned("matmul", n=n) for n in (8, 16)]
    files = unpacked(bundle_of(parts))
    manifest = json.loads(files["manifest.json"])
    assert [graph["dims"]["B"] for graph in manifest["graphs"]] == [[8, 512, 8], [8, 512, 16]]
    assert len(manifest["plans"]) == sum(len(part.plans) for part in parts) > 2
    first = next(plan for plan in manifest["plans"] if plan["graph"] == 2)
    assert first["plan_key"] == parts[1].plans[0].key
    assert "load_plan(dims=" in files["README.txt"].decode()


def test_plans_that_a_loader_could_not_tell_apart_and_of_other_machines_are_refused(planned, made):
    one, relu = planned("matmul", n=8), made("conv_relu")
    with pytest.raises(InvalidInput, match="could not tell them apart"):
        bundle_of([one, one])
    other = relu.run.model_copy(
        update={"environment": relu.run.environment.model_copy(update={"cudnn_backend": "9.1"})}
    )
    with pytest.raises(InvalidInput, match=r"one cuDNN, and another run has"):
        bundle_of([one, Part(other, (relu.plan,), {relu.plan.blob_sha256: relu.blob})])


@pytest.mark.parametrize(
    "status", [Status.WRONG_RESULT, Status.EXEC_FAILED, Status.TIMEOUT, Status.CRASHED, Status.UNSUPPORTED]
)
def test_a_plan_that_went_wrong_is_not_handed_over(made, status):
    m = made("matmul_epilogue")
    plan = m.plan.model_copy(update={"status": status, "message": "it went wrong"})
    with pytest.raises(InvalidInput, match="it went wrong"):
        bundle(m.run, plan, m.blob)


def test_a_plan_that_was_not_built_and_a_foreign_blob_are_refused(made):
    m = made("matmul_epilogue")
    with pytest.raises(InvalidInput, match="not built"):
        bundle(m.run, m.plan.model_copy(update={"blob_sha256": None, "status": Status.LISTED}), m.blob)
    with pytest.raises(InvalidInput, match="serialized form"):
        bundle(m.run, m.plan, m.blob[:-1])


def test_default_plan(made):
    m = made("matmul_epilogue")

    def plan(engine, rank, **update):
        identity = PlanIdentity(engine_id=engine)
        return m.plan.model_copy(update={"identity": identity, "plan_name": f"eng{engine}", "modes": rank, **update})

    failed = {"status": Status.BUILD_FAILED, "message": "no", "blob_sha256": None}
    plans = (plan(3, {"B": 0}), plan(2, {"A": 1}), plan(1, {"A": 0}, **failed))
    chosen, why = default_plan(m.run.model_copy(update={"plans": plans}))
    assert chosen.plan_name == "eng2"
    assert "nothing was measured" in why
    chosen, why = default_plan(m.run.model_copy(update={"plans": (timed(plans[0], 9), timed(plans[1], 12))}))
    assert (chosen.plan_name, why) == ("eng3", "the winner of the run")
    tied = tuple(
        timed(plan, us).model_copy(update={"workspace_bytes": size})
        for plan, us, size in zip(plans, (9, 9.05), (64, 0), strict=False)
    )
    chosen, why = default_plan(m.run.model_copy(update={"plans": tied}))
    assert (chosen.plan_name, why) == ("eng2", "the winner among 2 plans that tie, for the smallest workspace")
    with pytest.raises(InvalidInput, match="no plan"):
        default_plan(m.run.model_copy(update={"plans": plans[2:]}))


def test_file_name_suits_every_file_system(made):
    m = made("matmul_epilogue")
    name = file_name(m.run.model_copy(update={"pipeline": "a/b c"}), m.plan)
    assert name == f"a_b_c-{m.plan.plan_name}-cudnn{m.run.environment.cudnn_backend}.zip"
