"""What the measuring process of a comparison answers, on a simulated GPU: what its parent reads, and lines that fit."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch

from engine.graph.cutting import cut
from engine.graph.pipelines import pipeline
from engine.jobs import fusion_questions
from engine.jobs.fusion_questions import BadRequest, Blamed, FusionQuestions
from engine.jobs.protocol import EVENT_LIMIT
from engine.measure import timing
from engine.measure.fusion import ceilings as ceilings_module
from engine.measure.fusion import contest as contest_module
from engine.measure.fusion import lineup as lineup_module
from engine.measure.fusion.torch_versions import compiled
from engine.measure.fusion_kinds import kinds_for
from engine.measure.sampling import Hung
from engine.measure.screening import Rule
from engine.plans.building import PlanFailure
from engine.records.fusion import MeasuredCeilings, Version, VersionKind
from engine.records.plan import Stage, Status
from engine.records.samples import Samples
from tests.measure.simulated_gpu import simulate
from tests.measure.test_fusion import PiecePlan

pytestmark = pytest.mark.process
SMALL = {"b": 2, "m": 16, "n": 24, "k": 32}
RULE = asdict(Rule(least=12, error=1.0, budget_s=5.0))


class Told:
    """A channel that keeps what it is told, as the pipe carries it."""

    def __init__(self):
        self.stages, self.parts = [], []

    def send(self, request, event, **content):
        line = json.dumps({"id": request["id"], "event": event, **content})
        assert len(line) < EVENT_LIMIT
        (self.stages if event == "stage" else self.parts).append(json.loads(line))


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Questions about a small epilogue, with plans in files: whole ones named "fast" and "slow", pieces by number."""
    simulated = simulate(monkeypatch)
    spec = pipeline("matmul_epilogue").graph(SMALL)
    made = cut(spec)

    def load(cudnn, context, blob):
        if not blob.decode().startswith("piece "):
            raise PlanFailure(Status.BUILD_FAILED, Stage.LOAD, "not a plan")
        return PiecePlan(made.pieces[int(blob.decode().split()[1])].spec), 1.0

    monkeypatch.setattr(fusion_questions, "load", load)
    monkeypatch.setattr(contest_module, "count_launches", lambda call: None)
    monkeypatch.setattr(timing, "EXECUTIONS", 2)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # put back afterwards
    monkeypatch.setattr(
        lineup_module, "compiled", lambda spec, values, mode: compiled(spec, values, backend="aot_eager")
    )
    simulated.plans.update({"slow": 40.0, "fast": 20.0})
    channel = Told()
    questions = FusionQuestions(simulated.make(spec), channel)

    def plan(text):
        path = tmp_path / text.replace(" ", "-")
        path.write_text(text)
        return {"blob": str(path), "sha256": hashlib.sha256(text.encode()).hexdigest(), "workspace_bytes": 0}

    for key in ("slow", "fast"):
        questions.admit({"id": 1, "key": key, "best_us": None, **plan(key)})
    return SimpleNamespace(
        questions=questions, channel=channel, plan=plan, spec=spec, simulated=simulated, tmp_path=tmp_path
    )


def pieces(asked, *places, **more):
    return asked.questions.pieces({"id": 2, "plans": {str(i): asked.plan(f"piece {i}") for i in places} | more})


def versions(asked, kinds):
    fused = {"first_pick": ("slow", "eng1"), "tuned": ("fast", "eng2")}
    plans = {kind: {"key": key, "name": name, "workspace_bytes": 0} for kind, (key, name) in fused.items()}
    asked.channel.parts.clear()
    content = {"kinds": list(kinds), "fused": plans, "rule": RULE, "seed": 0, "scratch": str(asked.tmp_path)}
    asked.questions.versions({"id": 3, **content})
    return [Version.model_validate_json(json.dumps(part["version"])) for part in asked.channel.parts]


def test_all_versions_are_told_whole(asked):
    assert pieces(asked, 0, 1, 2, 3) == {"failed": {}}
    kinds = kinds_for(asked.spec)
    found = versions(asked, kinds)
    assert [version.kind for version in found] == list(kinds)
    assert all(version.timings for version in found), found
    assert {stage["key"] for stage in asked.channel.stages if stage["stage"] == "version"} >= set(kinds)


def test_a_piece_that_does_not_load_is_told_and_runs_in_torch(asked):
    assert pieces(asked, 0, 1, 2, **{"3": asked.plan("nonsense")}) == {"failed": {"3": "not a plan"}}
    (unfused,) = versions(asked, [VersionKind.UNFUSED])
    assert unfused.timings


def test_a_damaged_piece_is_refused(asked):
    with pytest.raises(BadRequest, match="damaged"):
        pieces(asked, **{"0": {**asked.plan("piece 0"), "sha256": "0" * 64}})


def test_pieces_come_before_versions(asked):
    with pytest.raises(BadRequest, match="not loaded"):
        versions(asked, [VersionKind.UNFUSED])


def test_what_does_not_fit_is_an_end_of_its_own(asked, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("tried to allocate 80 GiB")

    monkeypatch.setattr(fusion_questions, "Unfused", full)
    pieces(asked, 0)
    unfused, tuned = versions(asked, [VersionKind.UNFUSED, VersionKind.TUNED])
    assert "do not fit: tried to allocate 80 GiB" in unfused.message and tuned.timings
    assert asked.questions.alone({"id": 4, "rule": RULE, "seed": 0}) == {}


def test_pieces_alone(asked):
    pieces(asked, 0, 1, 2, 3)
    asked.channel.parts.clear()
    asked.questions.alone({"id": 4, "rule": RULE, "seed": 0})
    assert sorted(part["place"] for part in asked.channel.parts) == [0, 1, 2, 3, 4]
    assert all(Samples.model_validate(part["hot"]).count >= 12 for part in asked.channel.parts)


def test_a_hang_blames_its_version(asked, monkeypatch):
    pieces(asked, 0, 1, 2, 3)

    def hung(*_):
        raise Hung("tuned", "never ended")

    monkeypatch.setattr(fusion_questions, "contest", hung)
    with pytest.raises(Blamed) as caught:
        versions(asked, [VersionKind.TUNED])
    assert caught.value.key == "tuned" and caught.value.hung


def test_ceilings(asked, monkeypatch):
    monkeypatch.setattr(ceilings_module, "COPY_ELEMENTS", 1 << 12)
    monkeypatch.setattr(ceilings_module, "SIDE", 32)
    answer = asked.questions.ceilings({"id": 5, "seed": 0})
    found = MeasuredCeilings.model_validate_json(json.dumps(answer["ceilings"]))
    assert found.copy_bytes == 2 * 4 * (1 << 12) and found.matmul_flops == 2 * 32**3
