"""The Compare button with scripted processes in the GPU's place: progress, queue, cancel, messages, and the comparison
that is opened."""

from __future__ import annotations

import pytest

from app import resources
from engine.jobs.snapshots import JobState
from tests.app.pages import components, fill, opened, texts
from tests.process.conftest import wait_until

pytestmark = [pytest.mark.app, pytest.mark.process]
GRAPH = {"fusion-choice": "", "fusion-pipeline": "matmul_epilogue"}
"""What a session has picked that looks at a graph which nobody has compared."""


def looking(**sizes):
    return fill(opened("fusion", session=GRAPH), **sizes)


def jobs():
    return [job for job in resources.resources().manager.jobs() if job.kind == "fusion"]


def ended(state):
    wait_until(lambda: all(job.state.ended for job in jobs()), within_s=60)
    assert [job.state for job in jobs()] == [state]
    return jobs()[0]


def test_a_pressed_button_ends_in_a_comparison_that_is_opened_and_in_the_address(machine):
    page = looking(m="128")
    assert "About 50 s" in texts(page) and not page.button(key="compare").disabled
    page.button(key="compare").click().run()
    assert not page.exception
    job = ended(JobState.DONE)
    page.run()
    assert not page.exception
    assert page.query_params["comparison"] in (job.run_id, [job.run_id])
    assert "kept here, measured on Test GPU" in texts(page)
    assert "is 3.33x faster than torch eager" in texts(page)
    assert not page.button(key="compare").disabled, "it can be compared again"


def test_progress_and_the_queue_are_shown_to_whoever_looks(machine):
    machine.script(worker={"version eager": "hang"})
    first, other = looking(m="128"), looking(m="64")
    first.button(key="compare").click().run()
    other.button(key="compare").click().run()
    wait_until(lambda: machine.noted("worker", "version eager"), within_s=60)
    said = texts(looking(m="128"))
    assert "Comparison: measuring the graph in all versions" in said
    assert "6 of 12 steps" in said and "s left" in said
    waiting = texts(looking(m="64"))
    assert "Comparison of matmul" in waiting and "waits in the queue, 1 before it" in waiting
    for page in (other, first):
        page.run()
        (button,) = [button for button in page.button if button.label == "Cancel"]
        button.click().run()
        assert not page.exception
    wait_until(lambda: all(job.state is JobState.CANCELLED for job in jobs()), within_s=2)
    first.run()
    first.run()
    assert any("was cancelled" in warning.value for warning in first.warning)


def test_a_comparison_that_fails_says_why(machine):
    machine.script(worker={"start": "crash"})
    page = looking(m="128")
    page.button(key="compare").click().run()
    ended(JobState.FAILED)
    page.run()
    page.run()
    assert not page.exception and any("lost twice" in warning.value for warning in page.warning)


def test_without_a_gpu_the_button_is_off_and_says_why(home):
    page = looking(m="128")
    assert page.button(key="compare").disabled
    assert "it needs an NVIDIA GPU in this machine, and none is visible here." in texts(page)
    assert len(components(page, "fusion")) == 1


def test_a_recording_has_no_button_where_nothing_can_be_measured(home):
    page = opened("fusion")
    assert page.query_params["comparison"] and not [button for button in page.button if button.key == "compare"]
