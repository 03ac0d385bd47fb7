"""What a page shows of a graph: which run is opened, and how a link's run is looked up."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.evidence import HERE, choose, nearest_text, other_scalars, run_label, run_words, settle_run
from app.links import ExploreState
from engine.graph.pipelines import CATALOGUE
from engine.records.run import RunStatus, Source, TargetInfo
from engine.runs.nearest import Nearest
from engine.runs.summary import Origin, brief, summarize
from tests.app.sample_reuse import studied_run
from tests.app.sample_runs import ok_plan, run_of

H200 = TargetInfo(name="h200", gpu_name="NVIDIA H200", sm=90, memory_bytes=1, source=Source.READ_OFF)
B200 = TargetInfo(name="b200", gpu_name="NVIDIA B200", sm=100, memory_bytes=1, source=Source.SPECIFICATION)


def summary(run_id="1" * 32, origin=Origin.RECORDING, **more):
    run = run_of([ok_plan(1, 10.0)], id=run_id, **more)
    return summarize(run, map(brief, run.plans), origin)


def test_the_best_run_on_the_targets_gpu_is_opened():
    assert choose([summary()], "", H200) == "1" * 32


def test_a_run_on_another_gpu_is_offered_and_not_opened():
    assert choose([summary()], "", B200) == HERE
    assert choose([summary()], "1" * 32, B200) == "1" * 32


def test_a_run_under_way_is_offered_and_not_opened():
    running = summary(status=RunStatus.RUNNING)
    assert choose([running], "", H200) == HERE
    assert choose([running], running.id, H200) == running.id


def test_planning_here_can_be_asked_for_although_a_run_matches():
    assert choose([summary()], HERE, H200) == HERE


def test_without_any_run_plans_are_made_here():
    assert choose([], "1" * 32, H200) == HERE


@pytest.mark.parametrize(
    ("origin", "label"),
    [
        (Origin.RECORDING, "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-01-02"),
        (Origin.OWN, "measured here on NVIDIA H200, cuDNN 9.19.0, 2026-01-02"),
        (Origin.IMPORTED, "imported, measured on NVIDIA H200, cuDNN 9.19.0, 2026-01-02"),
    ],
)
def test_a_label_never_calls_a_recording_this_machines(origin, label):
    assert run_label(summary(origin=origin)) == label
    assert "\u202e" not in run_label(summary(origin=origin, title="\u202e"))


def test_a_study_of_reuse_is_told_apart_from_a_sweep():
    run = studied_run()
    studied = summarize(run, map(brief, run.plans), Origin.RECORDING)
    assert run_label(studied) == "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-01-02, a study of reuse"


def test_runs_that_read_the_same_are_told_apart_by_when_and_what_they_came_to():
    at = datetime(2026, 1, 2, 13, 58, tzinfo=UTC)
    measured = summary(started_at=at)
    planned = summary("2" * 32, started_at=at.replace(hour=14)).model_copy(update={"best_us": None})
    label, own = run_label(measured), summary("3" * 32, Origin.OWN)
    assert run_words([measured, planned, own]) == {
        measured.id: f"{label} · 13:58 UTC, winner 10.0 µs",
        planned.id: f"{label} · 14:58 UTC",
        own.id: run_label(own),
    }


def test_a_bare_link_to_a_run_brings_the_runs_graph():
    run = summary(name="matmul", parameters={"m": "16", "b": "8"}, started_at=datetime(2026, 1, 2, tzinfo=UTC))
    state, message = settle_run(ExploreState(run=run.id), run, "another", bare=True)
    assert (state.pipeline, state.parameters, state.run, message) == ("matmul", {"m": "16"}, run.id, "")


def test_a_link_whose_run_is_of_another_graph_says_so():
    run = summary()
    state, message = settle_run(ExploreState(run=run.id, plan="1"), run, "another", bare=False)
    assert (state.run, state.plan) == ("", "")
    assert "another graph" in message


def test_a_link_whose_run_is_not_here_says_how_to_get_it():
    state, message = settle_run(ExploreState(run="2" * 32), None, "any", bare=False)
    assert state.run == ""
    assert "import it on the Runs page" in message


def test_the_nearest_shape_is_told_by_its_differences():
    near = Nearest(summary(), {"n": ("16", "8"), "scale": ("0.5", "")}, 1.0)
    assert nearest_text(near) == "n = 8 instead of 16, scale = default instead of 0.5"


def test_a_run_that_passes_another_scalar_says_so():
    epilogue = CATALOGUE["matmul_epilogue"]
    asked, run = epilogue.graph({"alpha": "5"}), epilogue.graph({})
    assert asked.graph_id == run.graph_id
    assert other_scalars(asked, run) == "alpha = 0.125 instead of 5"
    assert other_scalars(run, run) == ""
