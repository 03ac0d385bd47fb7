"""`sweep` without a GPU: what the command makes of a run, however that ended. The rest is in test_on_gpu.py."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime

import pytest

from engine.cli.shapes import run_json
from engine.graph.pipelines import CATALOGUE
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.request import Progress
from engine.records.environment import Environment, GpuInfo
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status, Timings
from engine.records.run import Refusal, RunRecord, RunStatus
from engine.records.samples import Samples
from tests.app.full_run import full_run
from tests.cli.verdicts import check_best

GPU = GpuInfo(
    name="NVIDIA H200", uuid="GPU-1", compute_capability="9.0", sm_count=132, memory_bytes=150_000_000_000, driver="580"
)
MEASURED = "measured"
FAILED = "failed"


def plan(engine_id, outcome, blob):
    samples = Samples.of([9.0 + engine_id, 10.0 + engine_id])
    ok = outcome == MEASURED
    return PlanRecord(
        identity=PlanIdentity(engine_id=engine_id),
        plan_name=f"eng{engine_id}",
        modes={"A": engine_id - 1},
        status=Status.OK if ok else Status.EXEC_FAILED,
        stage=Stage.TIME if ok else Stage.EXECUTE,
        message=None if ok else "it broke",
        timings=Timings(hot=samples, cold=samples, host=samples) if ok else None,
        blob_sha256=blob,
        blob_bytes=3,
        workspace_bytes=0,
    )


@pytest.fixture
def swept(monkeypatch, invoke):
    """``swept(status, outcomes, *arguments)``: the command, with a sweep that ends so."""
    monkeypatch.setattr("engine.machine.gpus.list_gpus", lambda *_: (GPU,))
    monkeypatch.setattr("engine.plans.targets.list_gpus", lambda *_: (GPU,))

    def call(status, outcomes, *arguments, refusal=None, error=None):
        def run_sweep(request, *, store, pool, cancel, report):
            if error is not None:
                raise error
            assert request.gpu == GPU
            assert request.graph.graph_id == CATALOGUE[request.pipeline].graph(request.parameters).graph_id
            blob = store.put_blob(b"abc")
            run = RunRecord(
                id=uuid.uuid4().hex,
                kind=request.kind,
                status=RunStatus.RUNNING,
                pipeline=request.pipeline,
                parameters=dict(request.parameters),
                graph=request.graph,
                target=request.target.info,
                environment=Environment(
                    gpu=GPU, cudnn_backend="9.19.0", cudnn_frontend="1.32.0", python="3.11", host="h", os="Linux"
                ),
                options=request.options,
                started_at=datetime.now(UTC),
                plans=tuple(plan(number, outcome, blob) for number, outcome in enumerate(outcomes, 1)),
            )
            store.create_run(run)
            report(Progress(done=1, total=3, message="measuring", remarks=("a word",)))
            store.finish(run.id, status, "as told", refusal)
            return store.get(run.id)

        monkeypatch.setattr("engine.jobs.sweep.run_sweep", run_sweep)
        return invoke("sweep", "matmul", "-p", "m=64", "--seed", "7", *arguments, "--json")

    return call


def test_done_also_when_some_plans_failed(swept, invoke, tmp_path):
    result = swept(RunStatus.DONE, [MEASURED, FAILED, MEASURED], "--out", tmp_path / "run.zip")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["best"], told["options"]["seed"], told["parameters"]["m"]) == ("1", 7, "64")
    assert [p["status"] for p in told["plans"]] == ["ok", "exec_failed", "ok"]
    assert told["plans"][0]["hot_us"]["median"] == 10.5 and told["plans"][1]["hot_us"] is None
    assert told["plans"][1]["error"] == "it broke"
    hot = told["verdict"]
    assert (hot["winner"], hot["tie_set"], hot["reason"]) == ("1", ["1"], None)
    assert hot["intervals"]["3"] == {"median": 12.5, "low": 12.0, "high": 13.0, "effective_samples": 2}
    assert told["first_picks"] == {"A": {"key": "1", "regret": 1.0, "ties": True, "close_after": 1, "listed": 3}}
    assert set(told["regimes"]) == {"hot", "cold", "host"} and told["confirmation"] is None
    assert told["plans"][0]["host_us"]["median"] == 10.5
    assert told["plans"][0]["host_ready_us"] is told["plans"][0]["end_to_end_us"] is None
    assert {said["topic"] for said in told["sentences"]} >= {"winner", "heuristics", "circumstances"}
    listed = {run["id"] for run in json.loads(invoke("runs", "list", "--json").stdout)["runs"]}
    assert told["run_id"] in listed
    from_file = json.loads(invoke("runs", "show", tmp_path / "run.zip", "--json").stdout)
    assert from_file["plans"] == told["plans"]
    assert "note: a word" in result.stderr
    assert re.search(r"^expect about \d+ s for some 30 plans, preset standard$", result.stderr, re.MULTILINE)
    people = invoke("runs", "show", told["run_id"]).stdout
    assert "eng1" in people and "first pick" in people and "1 exec_failed" in people
    bundled = json.loads(invoke("bundle", "export", told["run_id"], "--out", tmp_path / "b.zip", "--json").stdout)
    assert (bundled["plan"], bundled["chosen"], bundled["measured"]) == ("1", "the winner of the run", True)


@pytest.mark.parametrize(
    ("status", "outcomes", "refusal", "exit_code"),
    [
        (RunStatus.DONE, [FAILED], None, 1),
        (RunStatus.DONE, [], Refusal(message="hidden_dim should be multiple of 8"), 1),
        (RunStatus.FAILED, [MEASURED], None, 1),
        (RunStatus.CANCELLED, [MEASURED, FAILED], None, 130),
    ],
)
def test_other_ends(swept, invoke, tmp_path, status, outcomes, refusal, exit_code):
    result = swept(status, outcomes, "--out", tmp_path / "run.zip", refusal=refusal)
    assert result.exit_code == exit_code
    told = json.loads(result.stdout)
    assert told["status"] == status
    assert (tmp_path / "run.zip").exists(), "what was measured is kept"
    assert json.loads(invoke("runs", "show", told["run_id"], "--json").stdout)["plans"] == told["plans"]
    if refusal:
        assert told["refusal"]["message"] == refusal.message and refusal.message in result.stderr


def test_ends_before_anything_was_recorded(swept):
    cancelled = swept(None, [], error=JobCancelled())
    assert cancelled.exit_code == 130 and json.loads(cancelled.stdout)["error"]["message"] == "cancelled"
    failed = swept(None, [], error=JobError("the measuring process is gone"))
    assert failed.exit_code == 1 and "is gone" in json.loads(failed.stdout)["error"]["message"]


def test_a_target_that_is_elsewhere_is_a_wrong_argument_where_there_is_a_gpu(swept):
    result = swept(RunStatus.DONE, [], "--target", "b200")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["fields"][0]["field"] == "target"


def test_the_best_is_the_winner_among_the_plans_that_tie():
    told = json.loads(json.dumps(run_json(full_run())))
    verdict, winner = told["verdict"], "41;STAGES=4;TILE_SIZE=3"
    assert (told["best"], verdict["tie_set"]) == (winner, [winner, "4", "7"])
    check_best(told)
    for other in ("4", "7", "10", None):  # of a larger workspace, of one that ties no more, and none
        with pytest.raises(AssertionError):
            check_best({**told, "best": other, "verdict": {**verdict, "winner": other}})
    for tied in ([winner], [winner, "4", "7", "10"], ["7", "4", winner]):
        with pytest.raises(AssertionError):
            check_best({**told, "verdict": {**verdict, "tie_set": tied}})


def test_so_it_is_in_every_recorded_sweep(invoke):
    runs = json.loads(invoke("runs", "list", "--json").stdout)["runs"]
    swept = [run["id"] for run in runs if run["recorded"] and run["best_name"]]
    assert len(swept) >= 17
    for run_id in swept:
        check_best(json.loads(invoke("runs", "show", run_id, "--json").stdout))
