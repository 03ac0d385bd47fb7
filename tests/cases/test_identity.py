"""FE 729, flashinfer 3449 and 3566: a plan is named by engine id and knobs, which give the same plan again, never by an
index in a list."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine.bundles.export import bundle
from engine.graph.pipelines import CATALOGUE
from engine.jobs.protocol import ROOT
from engine.records.plan import PlanIdentity, Status
from engine.runs.archive import pack
from tests.cases.conftest import members

REPLAY = """
import json
from engine.machine.driver import load_libcuda
assert load_libcuda() is not None, "no libcuda.so.1: run make"
import cudnn
from engine.graph.pipelines import CATALOGUE
from engine.plans.candidates import list_candidates
from engine.plans.context import open_context
from engine.plans.sources import Replay
from engine.plans.targets import resolve_target
from engine.records.plan import PlanIdentity

context = open_context(cudnn, resolve_target("h200"))
for name, pipeline in CATALOGUE.items():
    spec = pipeline.graph({})
    plans, _ = list_candidates(cudnn, spec, context)
    for plan in plans:
        stored = PlanIdentity.model_validate_json(plan.identity.model_dump_json())
        print(json.dumps([name, plan.plan_name, Replay(cudnn, spec, context, stored).plan_name]))
"""


@pytest.mark.cudnn
def test_fe_729_every_candidate_of_every_pipeline_replays_under_its_name():
    done = subprocess.run([sys.executable, "-c", REPLAY], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    replayed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert {name for name, _, _ in replayed} == set(CATALOGUE) and len(replayed) >= 50
    assert [names for names in replayed if names[1] != names[2]] == []


def keys(content):
    """Every key at any depth of a JSON document."""
    if isinstance(content, dict):
        yield from content
        content = list(content.values())
    if isinstance(content, list):
        for inner in content:
            yield from keys(inner)


@pytest.mark.cudnn
def test_flashinfer_3449_a_run_file_names_plans_by_engine_and_knobs(run_file):
    run = json.loads(members(run_file.read_bytes())["run.json"])
    assert not [key for key in keys(run) if "index" in key.lower()]
    for plan in run["plans"]:
        assert set(plan["identity"]) == {"engine_id", "knobs"}
        PlanIdentity.model_validate(plan["identity"])


def test_flashinfer_3449_a_bundle_names_its_plan_by_engine_and_knobs(recordings, recorded):
    run = recorded("matmul_epilogue", activation="gelu")
    inside = members(bundle(run, run.best, recordings.blob(run.id, run.best.blob_sha256)))
    documents = {name: json.loads(data) for name, data in inside.items() if name.endswith(".json")}
    assert {"plan-1.json", "manifest.json"} <= set(documents)
    assert not [key for content in documents.values() for key in keys(content) if "index" in key.lower()]
    recipe = documents["plan-1.json"]["recipe"]
    assert recipe["engine_id"] == run.best.identity.engine_id and recipe["knobs"] == run.best.identity.knobs
    assert recipe["cudnn_backend"] == run.environment.cudnn_backend, "an engine id means nothing without it"


def test_flashinfer_3566_the_order_of_plans_in_a_file_does_not_decide_which_is_taken(
    recordings, recorded, invoke, tmp_path
):
    run = recorded("matmul_epilogue", activation="gelu")
    blobs = {plan.blob_sha256: recordings.blob(run.id, plan.blob_sha256) for plan in run.plans}
    chosen = run.plans[2]
    bundles = []
    for number, plans in enumerate((run.plans, run.plans[::-1])):
        file, out = tmp_path / f"run{number}.zip", tmp_path / f"bundle{number}.zip"
        file.write_bytes(pack(run.model_copy(update={"plans": plans}), blobs))
        assert invoke("bundle", "export", file, "--plan", chosen.key, "--out", out).exit_code == 0
        bundles.append(out.read_bytes())
    assert bundles[0] == bundles[1]
    assert members(bundles[0])["plan-1.bin"] == blobs[chosen.blob_sha256]


def test_flashinfer_3566_an_index_is_not_taken_for_a_plan(recorded, invoke, tmp_path):
    run = recorded("matmul_epilogue", activation="gelu")
    index = next(i for i in range(len(run.plans)) if all(plan.key != str(i) for plan in run.plans))
    done = invoke("bundle", "export", run.id, "--plan", index, "--out", tmp_path / "bundle.zip")
    assert done.exit_code == 2 and "--plan" in done.stderr
    assert not (tmp_path / "bundle.zip").exists()
    assert run.plans[index].status is Status.OK
