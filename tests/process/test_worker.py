"""The GPU worker's protocol, with the real process, as far as a machine without a GPU goes."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.protocol import Child
from engine.jobs.worker import Worker
from engine.records.environment import Environment
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def worker():
    """A worker that sees no GPU, whatever the machine has."""
    child = Child("engine.jobs.worker", environment={"CUDA_VISIBLE_DEVICES": ""})
    yield child
    child.close()


def ask(worker, op, **content):
    number = worker.send(op, **content)
    event = worker.receive(60)
    assert event is not None, worker.describe_end()
    assert event["id"] == number
    return event


def test_it_tells_its_versions_without_a_gpu(worker):
    event = ask(worker, "environment")
    found = Environment.model_validate_json(json.dumps(event["environment"]))
    assert found.gpu is None
    assert found.cudnn_backend.count(".") == 2
    assert found.torch
    assert found.python
    assert found.host == os.uname().nodename


@pytest.mark.parametrize("op", ["prepare", "properties"])
def test_what_needs_a_gpu_says_that_there_is_none(worker, op):
    graph = json.loads(pipeline("matmul").graph({}).model_dump_json())
    event = ask(worker, op, graph=graph, seed=0)
    assert event["event"] == "failed"
    assert "no usable GPU" in event["message"]
    assert "CUDA_VISIBLE_DEVICES" in event["message"]
    assert event["restart"] is False


@pytest.mark.parametrize(
    ("op", "content", "words"),
    [
        ("baseline", {}, "nothing is prepared"),
        ("juggle", {}, "no such op: 'juggle'"),
        ("prepare", {"seed": 0}, "lacks 'graph'"),
        ("prepare", {"graph": {"io_dtype": "bf16"}, "seed": 0}, "not a GraphSpec"),
        ("measure", {"plan": {"identity": 3}, "blob": "x"}, "not a PlanRecord"),
    ],
)
def test_a_request_it_cannot_follow_costs_an_answer_and_no_worker(worker, op, content, words):
    event = ask(worker, op, **content)
    assert event["event"] == "failed"
    assert words in event["message"]
    assert ask(worker, "environment")["event"] == "done"


class Sent(list):
    """A channel that keeps what is sent."""

    def send(self, request, event, **content):
        self.append({"id": request["id"], "event": event, **content})


@pytest.mark.parametrize("lost", [True, False])
def test_an_error_that_spoils_the_context_ends_the_worker_with_the_plan_s_record(lost, tmp_path):
    """What an illegal access does needs a GPU; that the worker tells and stops does not."""
    plan = PlanRecord(
        identity=PlanIdentity(engine_id=1), plan_name="eng1", modes={}, status=Status.LISTED, stage=Stage.BUILD
    )

    class Failing:
        def measure(self, plan, blob, on_stage):
            on_stage(Stage.EXECUTE)
            ending = {"status": Status.EXEC_FAILED, "stage": Stage.EXECUTE, "message": "an illegal memory access"}
            return plan.model_copy(update=ending)

    channel = Sent()
    worker = Worker(channel)
    worker._device = SimpleNamespace(is_lost=lambda: lost)
    worker._session = Failing()
    blob = tmp_path / "blob"
    blob.write_bytes(b"x")
    request = {"id": 7, "op": "measure", "plan": plan.model_dump(mode="json"), "blob": str(blob)}
    assert worker.answer(request) is not lost
    assert channel[0] == {"id": 7, "event": "stage", "stage": "execute"}
    assert channel[1]["event"] == "done"
    assert channel[1]["restart"] is lost
    assert channel[1]["plan"]["status"] == "exec_failed"
    assert len(channel) == 2


def test_a_blob_whose_checksum_is_not_the_record_s_never_reaches_cudnn(tmp_path):
    plan = PlanRecord(
        identity=PlanIdentity(engine_id=1),
        plan_name="eng1",
        modes={},
        status=Status.OK,
        stage=Stage.LOAD,
        blob_sha256="0" * 64,
        blob_bytes=1,
    )
    channel = Sent()
    worker = Worker(channel)
    worker._session = object()  # has no measure: asking it would raise
    (tmp_path / "blob").write_bytes(b"x")
    request = {"id": 1, "op": "measure", "plan": plan.model_dump(mode="json"), "blob": str(tmp_path / "blob")}
    assert worker.answer(request)
    assert channel[0]["event"] == "failed"
    assert "damaged" in channel[0]["message"]
