"""The zip: its members, its determinism, and what refuses to become one."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import pytest

from engine.bundles.export import bundle, default_plan, file_name
from engine.graph.errors import InvalidInput
from engine.records.plan import OutputAccuracy, PlanIdentity, Stage, Status, Timings
from engine.records.run import RunRecord
from engine.records.samples import Samples

pytestmark = pytest.mark.cudnn

MEMBERS = {
    "plan.bin", "recipe.json", "graph.json", "tensors.json", "manifest.json", "environment.json", "load_plan.py",
    "README.txt", "device_properties.json", "SHA256SUMS",
}  # fmt: skip


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def timed(plan, us):
    samples = Samples.of([us * 0.99, us, us * 1.01])
    right = OutputAccuracy(name="C", max_abs=0.1, max_rel=0.002, unwritten=0, nonfinite=0, elements=4, tolerance=0.02)
    timings = Timings(hot=samples, cold=samples, host=samples)
    return plan.model_copy(update={"timings": timings, "accuracy": (right,), "stage": Stage.TIME})


def test_members_and_checksums(made):
    m = made("matmul_epilogue")
    files = members(bundle(m.run, m.plan, m.blob))
    assert set(files) == MEMBERS
    sums = dict(reversed(line.split("  ")) for line in files["SHA256SUMS"].decode().splitlines())
    assert list(sums) == sorted(MEMBERS - {"SHA256SUMS"})
    assert all(hashlib.sha256(files[name]).hexdigest() == digest for name, digest in sums.items())
    assert files["plan.bin"] == m.blob


def test_contents_say_what_the_plan_is(made):
    m = made("matmul_epilogue")
    files = {name: json.loads(data) for name, data in members(bundle(m.run, m.plan, m.blob)).items() if ".json" in name}
    assert files["recipe.json"]["engine_id"] == m.plan.identity.engine_id
    assert files["recipe.json"]["knobs"] == m.plan.identity.knobs
    manifest = files["manifest.json"]
    assert (manifest["format"], manifest["version"], manifest["measured"]) == ("planscope-bundle", 1, "not measured")
    assert manifest["cudnn_backend"] == m.run.environment.cudnn_backend
    assert manifest["workspace_bytes"] == m.plan.workspace_bytes
    tensors = {t["name"]: t for t in files["tensors.json"]}
    assert list(tensors) == ["A", "B", "bias", "alpha", "C", "amax"]
    assert (tensors["alpha"]["role"], tensors["alpha"]["value"]) == ("scalar", 0.125)
    assert tensors["B"]["strides"] == [1024 * 512, 512, 1]
    assert type(m.run.graph).model_validate_json(json.dumps(files["graph.json"])).graph_id == m.run.graph_id
    assert files["environment.json"]["cudnn_frontend"] == m.run.environment.cudnn_frontend


def test_equal_bytes_each_time_and_after_a_round_trip(made):
    m = made("matmul_epilogue")
    again = RunRecord.model_validate_json(m.run.model_dump_json())
    assert bundle(m.run, m.plan, m.blob) == bundle(again, again.plans[0], m.blob)


def test_a_measured_plan_says_what_was_measured(made):
    m = made("matmul_epilogue")
    plan = timed(m.plan, 25.123456)
    files = members(bundle(m.run.model_copy(update={"plans": (plan,)}), plan, m.blob))
    measured = json.loads(files["manifest.json"])["measured"]
    assert measured["hot_us"] == {"median": 25.12, "p10": 24.92, "p90": 25.32, "samples": 3}
    assert measured["accuracy"][0]["max_rel"] == 0.002
    assert "25.12 us on NVIDIA H200" in files["README.txt"].decode()
    assert "Keep files of your own out of this folder" in files["README.txt"].decode(), "the loader refuses them"


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
    assert (chosen.plan_name, why) == ("eng3", "the fastest plan of the run")
    with pytest.raises(InvalidInput, match="no plan"):
        default_plan(m.run.model_copy(update={"plans": plans[2:]}))


def test_file_name_suits_every_file_system(made):
    m = made("matmul_epilogue")
    name = file_name(m.run.model_copy(update={"pipeline": "a/b c"}), m.plan)
    assert name == f"a_b_c-{m.plan.plan_name}-cudnn{m.run.environment.cudnn_backend}.zip"
