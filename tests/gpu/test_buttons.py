"""The Sweep and the Compare button, pressed through Streamlit's AppTest against the real builders and workers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.resources import resources
from engine.jobs.snapshots import JobState
from engine.records.plan import Status
from engine.records.run import RunKind, RunStatus
from tests.app.pages import fill, texts
from tests.app.pages import opened as page_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.gpu, pytest.mark.app]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PLANSCOPE_HOME", str(tmp_path))
    st.cache_resource.clear()
    st.cache_data.clear()
    yield tmp_path
    resources().close()
    st.cache_resource.clear()


def opened(pipeline: str) -> AppTest:
    """A browser session on the Explore page with a pipeline chosen, this machine's GPU being the target by itself."""
    page = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).run()
    page.selectbox(key="pipeline").set_value(pipeline).run()
    assert not page.exception
    assert not page.button(key="sweep").disabled
    return page


def sweeps():
    return [job for job in resources().manager.jobs() if job.kind is RunKind.SWEEP]


def wait_for(condition, within_s=120):
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, [(job.state, job.message) for job in sweeps()]
        time.sleep(0.05)


@pytest.mark.parametrize("pipeline", ["conv_relu", "matmul_epilogue"])
def test_a_pressed_button_ends_in_a_stored_run_that_the_page_opens(pipeline):
    page = opened(pipeline)
    page.button(key="sweep").click().run()
    wait_for(lambda: sweeps()[0].state.ended)
    (job,) = sweeps()
    assert job.state is JobState.DONE, job.message
    run = resources().library.get(job.run_id)
    assert run.status is RunStatus.DONE
    assert run.best is not None
    assert all(plan.status is Status.OK and plan.timings for plan in run.plans)
    assert run.baseline.timings is not None
    page.run()
    assert not page.exception
    page.selectbox(key="source").set_value(run.id).run()
    assert not page.exception
    assert any("measured here on" in str(element.value) for element in page.main if hasattr(element, "value"))


def test_a_second_client_waits_its_turn_and_cancel_frees_it():
    first, second = opened("conv_bias_relu"), opened("matmul")
    first.button(key="sweep").click().run()
    second.button(key="sweep").click().run()
    wait_for(lambda: sweeps()[0].state is JobState.RUNNING)
    running, waiting = sweeps()
    assert (running.pipeline, waiting.pipeline) == ("conv_bias_relu", "matmul")
    assert waiting.state is JobState.QUEUED
    assert waiting.position == 1
    wait_for(lambda: sum(p.timings is not None for p in resources().manager.snapshot(running.id).plans) >= 2)
    first.run()
    began = time.monotonic()
    first.button(key=f"cancel-{running.id}").click().run()
    wait_for(lambda: resources().manager.snapshot(running.id).state is JobState.CANCELLED, within_s=2)
    assert time.monotonic() - began < 4  # the press itself, a run of the page, is not part of the two seconds
    wait_for(lambda: resources().manager.snapshot(waiting.id).state.ended)
    assert resources().manager.snapshot(waiting.id).state is JobState.DONE
    kept = resources().library.get(resources().manager.snapshot(running.id).run_id)
    assert kept.status is RunStatus.CANCELLED
    assert sum(plan.timings is not None for plan in kept.plans) >= 2


def test_a_pressed_compare_button_ends_in_a_comparison_that_is_opened():
    page = fill(page_of("fusion", session={"fusion-choice": "", "fusion-pipeline": "matmul"}), m="128")
    assert not page.exception and not page.button(key="compare").disabled
    page.button(key="compare").click().run()
    (job,) = [job for job in resources().manager.jobs() if job.kind == "fusion"]
    wait_for(lambda: resources().manager.snapshot(job.id).state.ended)
    job = resources().manager.snapshot(job.id)
    assert job.state is JobState.DONE, job.message
    page.run()
    assert not page.exception
    assert page.query_params["comparison"] in (job.run_id, [job.run_id])
    assert "kept here, measured on NVIDIA" in texts(page)
