"""FE 729, flashinfer 3449 and 3566: a plan is named by engine id and knobs, which give the same plan again, never by an
index in a list."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from engine.bundles.export import bundle
from engine.graph.pipelines import CATALOGUE
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import ROOT
from engine.jobs.replies import End
from engine.plans.targets import resolve_target
from engine.records.plan import PlanIdentity, Status
from engine.runs.archive import pack
from tests.cases.conftest import members

H200 = resolve_target("h200")
GRAPH_COUNTER = re.compile(rb"i\x03gid(?:i.|U.|I..|l....)", re.DOTALL)
"""The frontend's, a UBJSON integer."""
KERNEL_PARAMETERS = re.compile(rb'"rawData":"[^"]*"')
"""Of a compiled kernel: cuDNN keeps the memory they lay in, with whatever stood between them (addresses of the process
that built it, mostly)."""
FACTS = ("workspace_bytes", "behavior_notes", "numerical_notes", "blob_bytes", "remark")
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


@pytest.fixture(scope="module")
def built_twice(tmp_path_factory):
    """By pipeline: pairs of answers, each plan built twice from its recipe. All plans that need no compiler, and the
    first of every engine that does."""
    folder, tasks = tmp_path_factory.mktemp("blobs"), {}
    with BuilderPool(2) as pool:
        for name, pipeline in CATALOGUE.items():
            spec, engines = pipeline.graph({}), set()
            listed = plan_graph(spec, H200, pool=pool, blob_dir=folder, build=False).plans
            for plan in listed:
                compiled = "RUNTIME_COMPILATION" in plan.behavior_notes
                if compiled and plan.identity.engine_id in engines:
                    continue
                engines |= {plan.identity.engine_id} if compiled else set()
                content = {
                    "spec": spec.model_dump_json(),
                    "target": H200.model_dump_json(),
                    "identity": plan.identity.model_dump_json(),
                    "plan_name": plan.plan_name,
                    "modes": [],
                    "blob_dir": str(folder),
                }
                tasks.setdefault(name, []).append((plan, [pool.submit("build", content) for _ in range(2)]))
        return folder, {name: [(p, [t.result() for t in twice]) for p, twice in of] for name, of in tasks.items()}


@pytest.mark.cudnn
@pytest.mark.parametrize("name", CATALOGUE)
def test_fe_729_built_twice_it_is_the_same_plan_to_the_byte_but_for_a_counter_and_stray_bytes(built_twice, name):
    folder, answers = built_twice
    for plan, twice in answers[name]:
        assert [reply.end for reply in twice] == [End.DONE] * 2, [reply.message for reply in twice]
        first, second = ({fact: reply.content[fact] for fact in FACTS} for reply in twice)
        assert first == second
        assert first["behavior_notes"] == list(plan.behavior_notes) and first["remark"] is None
        blobs = [(folder / reply.content["blob_sha256"]).read_bytes() for reply in twice]
        assert [len(GRAPH_COUNTER.findall(blob)) for blob in blobs] == [1, 1]
        blobs = [GRAPH_COUNTER.sub(b"", blob) for blob in blobs]
        if "RUNTIME_COMPILATION" in plan.behavior_notes:
            # Everything else, the code above all, is the same.
            assert [len(KERNEL_PARAMETERS.findall(blob)) for blob in blobs] == [1, 1]
            blobs = [KERNEL_PARAMETERS.sub(b"", blob) for blob in blobs]
        assert blobs[0] == blobs[1], plan.plan_name


def keys(content):
    """Every key at any depth of a JSON document."""
    if isinstance(content, dict):
        yield from content
        content = list(content.values())
    if isinstance(content, list):
        for inner in content:
            yield from keys(inner)


@pytest.mark.cudnn
def test_flashinfer_3449_a_run_file_names_plans_by_engine_and_knobs(planned):
    run = json.loads(members(planned.read_bytes())["run.json"])
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
