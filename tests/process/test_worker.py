"""The GPU worker's protocol, with the real process, as far as a machine without a GPU goes."""

from __future__ import annotations

import json
import os

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.protocol import Child
from engine.records.environment import Environment

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
