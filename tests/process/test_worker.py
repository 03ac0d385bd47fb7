"""The GPU worker's protocol, with the real process, as far as a machine without a GPU goes."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.protocol import EVENT_LIMIT, REQUEST_LIMIT, Child
from engine.jobs.questions import Questions, rounds_part
from engine.jobs.sampling import HotSampling
from engine.jobs.worker import Worker
from engine.measure import sampling
from engine.measure.sampling import Round
from engine.measure.screening import MOST_SURVIVORS, RULES, Rule
from engine.records.environment import Environment
from engine.records.gpu_state import GpuState
from engine.records.plan import PlanIdentity
from engine.records.samples import Samples
from tests.measure.simulated_gpu import simulate

pytestmark = pytest.mark.process


@pytest.fixture
def simulation(monkeypatch):
    """A simulated GPU."""
    return simulate(monkeypatch)


@pytest.fixture(scope="module")
def worker():
    """A worker that sees no GPU, whatever the machine has."""
    child = Child("engine.jobs.worker", environment={"CUDA_VISIBLE_DEVICES": ""})
    yield child
    child.close()


def values_of(kept):
    return Samples(data=kept["data"], executions=kept["executions"]).values


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
    event = ask(worker, op, graph=graph, options={})
    assert event["event"] == "failed"
    assert "no usable GPU" in event["message"]
    assert "CUDA_VISIBLE_DEVICES" in event["message"]
    assert event["restart"] is False


@pytest.mark.parametrize(
    ("op", "content", "words"),
    [
        ("baseline", {}, "nothing is prepared"),
        ("rounds", {}, "nothing is prepared"),
        ("juggle", {}, "no such op: 'juggle'"),
        ("__init__", {}, "no such op: '__init__'"),
        ("prepare", {"options": {}}, "lacks 'graph'"),
        ("prepare", {"graph": {"io_dtype": "bf16"}, "options": {}}, "not a GraphSpec"),
    ],
)
def test_a_request_it_cannot_follow_costs_an_answer_and_no_worker(op, content, words):
    channel = Sent()
    worker = Worker(channel)
    worker._device = SimpleNamespace(is_lost=lambda: False)
    assert worker.answer({"id": 1, "op": op, **content})
    assert channel[0]["event"] == "failed" and words in channel[0]["message"]
    assert not channel[0]["restart"]


class Sent(list):
    """A channel that keeps what is sent."""

    def send(self, request, event, **content):
        self.append({"id": request["id"], "event": event, **content})


def on_simulation(simulation, lost=False):
    """A worker with a session on the simulated GPU, and what it sends."""
    channel = Sent()
    worker = Worker(channel)
    worker._device = SimpleNamespace(is_lost=lambda: lost)
    session = simulation.make(pipeline("matmul").graph({"b": "1", "m": "16", "n": "16", "k": "16"}))
    worker._questions = Questions(session, channel)
    return worker, channel


def request(op, **content):
    return {"id": 7, "op": op, **content}


def blob_request(folder, op, name, **content):
    (folder / name).write_bytes(name.encode())
    known = {"key": name, "blob": str(folder / name), "sha256": None, "workspace_bytes": 0}
    return request(op, **{**known, **content})


def rounds_request(keys, **content):
    wanted = {"executions": dict.fromkeys(keys), "rule": asdict(Rule(least=20)), "seed": 0, "keep": [], "before": {}}
    return request("rounds", **{**wanted, "spent_s": 0.0, "careful": False, **content})


def test_a_plan_is_received_sampled_and_timed_in_every_regime(simulation, tmp_path):
    simulation.plans = {"a": 25.0, "b": 26.0}
    worker, sent = on_simulation(simulation)
    for name in simulation.plans:
        assert worker.answer(blob_request(tmp_path, "admit", name, best_us=None))
    assert [event.get("stage") for event in sent[:5]] == ["load", "execute", "check", "time", None]
    assert sent[4]["finding"]["status"] == "ok" and sent[4]["restart"] is False
    sent.clear()
    assert worker.answer(rounds_request(["a", "b"]))
    parts, done = sent[:-1], sent[-1]
    assert done["stopped"] == {"a": "precise", "b": "precise"} and {part["event"] for part in parts} == {"part"}
    for key, us in simulation.plans.items():
        values = [value for part in parts for value in values_of(part["kept"][key])]
        assert values == pytest.approx([us] * 20)
    assert all(state["sm_clock_mhz"] == 1980 for part in parts for state in part["states"])
    sent.clear()
    assert worker.answer(request("regimes", keys=["a", "b"], regimes=["host", "cold"], seed=1))
    found = {event["key"]: event["samples"] for event in sent if event["event"] == "part"}
    assert set(found) == {"a", "b"} and set(found["a"]) == {"host", "cold"}
    assert {event["key"] for event in sent if event["event"] == "stage"} == {"a", "b"}
    sent.clear()
    assert worker.answer(request("repeat", keys=["a"]))
    assert sent[1]["repeats"]["differing"] == 0
    assert worker.answer(request("baseline", rule=asdict(Rule(least=5)), seed=0))


def test_a_plan_that_hangs_in_a_round_is_named_and_ends_the_worker(simulation, tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "PATIENCE_S", 0.05)
    simulation.plans = {"a": 25.0, "b": 26.0}
    worker, sent = on_simulation(simulation)
    for name in simulation.plans:
        assert worker.answer(blob_request(tmp_path, "admit", name, best_us=None))
    simulation.stuck_at = "b"
    assert not worker.answer(rounds_request(["a", "b"]))
    last = sent[-1]
    assert (last["event"], last["key"], last["hung"], last["restart"]) == ("failed", "b", True, True)


def test_every_plan_is_announced_where_care_is_asked_for(simulation, tmp_path):
    simulation.plans = {"a": 25.0, "b": 26.0}
    worker, sent = on_simulation(simulation)
    for name in simulation.plans:
        worker.answer(blob_request(tmp_path, "reload", name, executions=4))
    sent.clear()
    assert worker.answer(rounds_request(["a", "b"], careful=True))
    assert [event["key"] for event in sent if event["event"] == "stage"].count("a") == 22  # captured, warm, 20 samples


def test_what_is_told_of_rounds_is_what_was_seen_and_fits_a_line():
    keys = [f"41;IDX_MODE=0;TILEK=1;TILE_CGA_M=1;TILE_CGA_N=2;TILE_SIZE={n};WORKSPACE=12345678901" for n in range(200)]
    state = GpuState(sm_clock_mhz=1980, memory_clock_mhz=3201, temperature_c=64, power_w=698.123, throttle_reasons=())
    told = [Round(state, tuple((key, 84.0 + n, n % 7 != 0) for key in keys)) for n in range(50)]
    part = rounds_part(told, dict.fromkeys(keys, 4))
    assert len(json.dumps(part, separators=(",", ":"))) < EVENT_LIMIT / 10
    assert list(part["kept"]) == keys and set(part["set_aside"].values()) == {8} and len(part["states"]) == 50
    kept = part["kept"][keys[0]]
    assert values_of(kept).size == len(kept["rounds"]) == 42


def test_what_is_asked_again_of_as_many_plans_as_there_can_be_fits_a_line():
    knobs = {f"A_KNOB_WITH_A_LONG_NAME_{n}": 12 for n in range(4)}
    keys = [PlanIdentity(engine_id=1000 + n, knobs=knobs).key for n in range(MOST_SURVIVORS)]
    field = SimpleNamespace(keys=tuple(keys), executions=dict.fromkeys(keys, 100))
    asked = HotSampling(field, RULES["thorough"], 2**63 - 1, keys[:3], lambda fraction: None)
    for one in asked.sampled.values():
        one.values, one.set_aside = [84.1234 + n / 7 for n in range(400)], 99
    line = json.dumps({"id": 99, "op": "rounds", **asked._content(tuple(keys), True)}, separators=(",", ":"))
    assert len(keys[0]) > 100 and len(line) < REQUEST_LIMIT


def test_a_plan_that_is_not_loaded_is_a_request_that_fails(simulation):
    worker, sent = on_simulation(simulation)
    assert worker.answer(request("repeat", keys=["a"]))
    assert sent[-1]["event"] == "failed" and "not loaded" in sent[-1]["message"]


def test_a_plan_that_cannot_be_loaded_again_is_to_blame(simulation, tmp_path):
    worker, sent = on_simulation(simulation)
    assert worker.answer(blob_request(tmp_path, "reload", "junk", executions=None))
    assert (sent[-1]["event"], sent[-1]["key"], sent[-1]["hung"]) == ("failed", "junk", False)


@pytest.mark.parametrize("lost", [True, False])
def test_an_error_that_spoils_the_context_ends_the_worker_with_the_plan_s_finding(simulation, tmp_path, lost):
    """What an illegal access does needs a GPU; that the worker tells and stops does not."""
    simulation.plans = {"bad": {"fails": "an illegal memory access"}}
    worker, sent = on_simulation(simulation, lost)
    assert worker.answer(blob_request(tmp_path, "admit", "bad", best_us=None)) is not lost
    assert sent[-1]["event"] == "done" and sent[-1]["restart"] is lost
    assert sent[-1]["finding"]["status"] == "exec_failed" and "illegal" in sent[-1]["finding"]["message"]


def test_a_blob_whose_checksum_is_not_the_record_s_never_reaches_cudnn(simulation, tmp_path):
    worker, sent = on_simulation(simulation)
    assert worker.answer(blob_request(tmp_path, "admit", "x", sha256="0" * 64, best_us=None))
    assert [event["event"] for event in sent] == ["failed"] and "damaged" in sent[0]["message"]
