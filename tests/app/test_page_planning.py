"""The Explore page with the real cuDNN, for GPUs that are not here: plans appear, are built, and can be downloaded."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from app import job_view, resources
from app.evidence import planned_run
from app.frames import plans_frame
from app.judged import judge
from app.plan_detail import Shown, plan_bundle
from engine.graph.pipelines import CATALOGUE
from engine.jobs.snapshots import JobState
from engine.records.constraints import Constraints
from engine.records.plan import Status
from engine.records.run import RunKind
from tests.app.pages import alerts, components, opened, tables, texts

pytestmark = [pytest.mark.app, pytest.mark.cudnn, pytest.mark.usefixtures("home")]


def planned(page, within_s=180):
    """The page once its plan job has ended."""
    manager = resources.resources().manager
    (job, *_) = (job for job in manager.jobs() if job.kind is RunKind.PLAN)
    assert manager.wait(job.id, within_s), manager.snapshot(job.id).message
    page.run()
    assert not page.exception
    return manager.snapshot(job.id)


def test_plans_are_built_and_handed_over_without_a_gpu():
    letters = {"b": "1", "hq": "1", "hkv": "1", "sq": "64", "skv": "64", "d": "64"}
    page = opened(pipeline="sdpa", **letters)
    assert not page.exception
    assert "Nearest measured, " in texts(page)
    assert page.selectbox(key="source").value == "here"
    job = planned(page)
    assert job.state is JobState.DONE, job.message
    assert job.count(Status.OK) > 0
    assert "planned, not measured" in texts(page)
    chart = components(page, "chart")[0]
    assert chart["x"]["title"] == "time (ms)", "built and loaded is all that can be known here"
    assert {row["key"] for row in chart["rows"]} == {plan.key for plan in job.plans if plan.status is Status.OK}
    assert f"loads in cuDNN {job.environment.cudnn_backend} only" in texts(page)
    assert not page.download_button(key="download-plan").disabled

    run = planned_run(job, letters, CATALOGUE["sdpa"].graph(letters))
    plan = next(plan for plan in run.plans if plan.status is Status.OK)
    judged, blobs = judge(run, Constraints()), resources.resources().library.store
    shown = Shown(run, job.version, judged, plans_frame(run), blobs.get_blob)
    with zipfile.ZipFile(io.BytesIO(plan_bundle(shown, plan))) as bundle:
        assert json.loads(bundle.read("plan-1.json"))["recipe"]["plan_key"] == plan.key
        assert {"plan-1.bin", "load_plan.py", "SHA256SUMS"} <= set(bundle.namelist())


def test_a_plan_is_handed_over_with_the_scalar_that_is_asked_for():
    """Plans do not depend on a scalar passed by value, so one job answers for all of them."""
    sizes = {"b": "1", "m": "64", "n": "64", "k": "64", "activation": "none", "amax": "off"}
    job = planned(opened(pipeline="matmul_epilogue", alpha="2", **sizes))
    page = opened(pipeline="matmul_epilogue", alpha="3", **sizes)
    assert planned(page).id == job.id
    letters = {**sizes, "alpha": "3"}
    run = planned_run(job, letters, CATALOGUE["matmul_epilogue"].graph(letters))
    plan = next(plan for plan in run.plans if plan.status is Status.OK)
    blobs = resources.resources().library.store
    shown = Shown(run, job.version, judge(run, Constraints()), plans_frame(run), blobs.get_blob)
    with zipfile.ZipFile(io.BytesIO(plan_bundle(shown, plan))) as bundle:
        (graph,) = json.loads(bundle.read("manifest.json"))["graphs"]
        assert graph["parameters"]["alpha"] == "3"
        tensors = {tensor["name"]: tensor for tensor in json.loads(bundle.read("graph-1.json"))["tensors"]}
    assert tensors["alpha"]["value"] == 3.0


def test_cancel_says_where_another_page_keeps_the_planning_going(monkeypatch):
    monkeypatch.setattr("engine.jobs.job.GONE_S", 60.0)  # nothing looks every second here
    sizes = {"b": "1", "m": "72", "n": "72", "k": "72"}
    pages = [opened(pipeline="matmul_epilogue", **sizes) for _ in range(2)]
    manager = resources.resources().manager
    (job,) = (job for job in manager.jobs() if not job.state.ended)
    key = f"cancel-{job.id}"
    pages[1].button(key=key).click().run()
    assert not pages[1].exception
    assert "Another page waits for the same plans" in texts(pages[1])
    assert not manager.snapshot(job.id).state.ended
    pages[0].run()
    pages[0].button(key=key).click().run()
    assert manager.wait(job.id, 5.0)
    assert "Planning cancelled" in texts(pages[1].run())


def test_a_head_dim_that_cudnn_refuses_is_answered_in_cudnns_words():
    page = opened(pipeline="sdpa", d="100")
    assert alerts(page) == [], "which head dims there are is cuDNN's to say"
    job = planned(page)
    assert job.state is JobState.DONE
    assert job.refusal is not None
    said = texts(page)
    assert "has no plan for this graph" in said
    assert any(reason in said for reason in job.refusal.reasons)


def test_beside_a_recording_plans_of_the_cudnn_at_hand_are_a_list_of_their_own():
    page = opened(pipeline="sdpa")
    recorded = tables(page)[0]
    page.session_state["here"] = True
    page.run()
    job = planned(page)
    assert job.environment.cudnn_backend != "9.19.0"
    measured, here = tables(page)
    assert measured == recorded
    assert len(here) == len(job.plans)
    assert "A list of its own" in texts(page)


def test_a_job_that_failed_is_not_asked_again_until_somebody_does():
    manager_before = resources.resources().manager
    page = opened(pipeline="matmul", b="1", m="32", n="32", k="32")
    (job,) = manager_before.jobs()
    manager_before.cancel(job.id)
    assert manager_before.wait(job.id, 10)
    for _ in range(3):
        page.run()
    assert not page.exception
    assert "Planning cancelled" in texts(page)
    assert "cancelled: cancelled" not in texts(page)
    assert len(manager_before.jobs()) == 1
    page.button(key="plan-again").click().run()
    assert len(manager_before.jobs()) == 2
    assert job_view.progress_text(manager_before.jobs()[0]).startswith("Planning")
