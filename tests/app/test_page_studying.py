"""The Study button with scripted processes in the GPU's place: fields, progress, cancel, messages, and the study that
is opened."""

from __future__ import annotations

import pytest

from app import resources
from engine.jobs.snapshots import JobState
from engine.runs.archive_reading import read_run_file
from engine.runs.recordings import SHIPPED
from tests.app.pages import fill, opened, texts
from tests.process.conftest import GPU, wait_until

pytestmark = [pytest.mark.app, pytest.mark.process]
GRAPH = {"reuse-choice": "", "reuse-pipeline": "matmul"}
"""What a session has picked that looks at a graph of its own."""


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    """What the driver of the scripted GPU says."""
    monkeypatch.setattr("engine.jobs.planning.list_gpus", lambda: (GPU,))


def looking(**sizes):
    return fill(opened("reuse", session=GRAPH), **sizes)


def pressed(page):
    page.button(key="study").click().run()
    assert not page.exception
    return page


def jobs():
    return [job for job in resources.resources().manager.jobs() if job.kind == "reuse"]


def ended(state):
    wait_until(lambda: jobs() and all(job.state.ended for job in jobs()), within_s=60)
    assert [job.state for job in jobs()] == [state]
    return jobs()[0]


def test_a_pressed_button_ends_in_a_study_that_is_opened_and_in_the_address(machine):
    page = looking(m="128")
    page.selectbox(key="study-letter-matmul").select("m")
    page.text_input(key="study-sizes").input("8, 16").run()
    command = "python -m engine reuse matmul -p m=128 --target local --sizes m=8,16"
    assert page.code[0].value == command
    assert "The latest study of matmul, on NVIDIA H200, took " in texts(page)
    pressed(page)
    job = ended(JobState.DONE)
    page.run()
    assert not page.exception
    assert page.query_params["study"] in (job.run_id, [job.run_id])
    run = machine.store.get(job.run_id)
    assert run.parameters["m"] == "128" and [size.size for size in run.reuse.shapes.series[0].sizes] == [8, 16]
    assert "measured here on Test GPU" in texts(page) and "Dynamic shapes" in texts(page)
    # From now on it is the one to go by.
    assert "The latest study of matmul, on Test GPU, took " in texts(looking(m="64"))


def test_one_shape_alone_has_no_sizes(machine):
    page = looking()
    page.selectbox(key="study-letter-matmul").select("").run()
    assert page.text_input(key="study-sizes").disabled and "--sizes" not in page.code[0].value
    pressed(page)
    assert machine.store.get(ended(JobState.DONE).run_id).reuse.shapes is None


def test_progress_is_shown_to_whoever_looks_and_cancel_ends_it(machine):
    machine.script(reuser={"load": ["hang"] * 9})
    page = pressed(looking())
    wait_until(lambda: machine.noted("reuser", "load"), within_s=60)
    said = texts(opened("reuse"))
    assert "Study: " in said and " steps" in said and "s left" in said
    page.run()
    (button,) = [button for button in page.button if button.label == "Cancel"]
    button.click().run()
    assert not page.exception
    wait_until(lambda: all(job.state is JobState.CANCELLED for job in jobs()), within_s=2)
    page.run()
    page.run()
    assert any("The study of matmul was cancelled" in warning.value for warning in page.warning)


def test_a_refused_graph_is_told_with_cudnns_reason(machine):
    machine.script(builder={"list": "refuse"})
    page = pressed(looking())
    job = ended(JobState.FAILED)
    page.run()
    page.run()
    assert any(job.message in warning.value for warning in page.warning)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [("8, x", "whole numbers"), ("", "1 to 64 sizes"), ("8, 8", "given twice"), ("0", "from 1 to")],
)
def test_bad_sizes_are_told_and_the_button_is_off(machine, sizes, says):
    page = looking()
    page.text_input(key="study-sizes").input(sizes).run()
    assert page.button(key="study").disabled and says in texts(page) and not page.exception


def test_sizes_that_do_not_fit_the_gpu_are_told_when_pressed(machine):
    page = looking()
    page.text_input(key="study-sizes").input("8, 1000000").run()
    pressed(page)
    assert "b = 1,000,000: the tensors of this graph take" in texts(page) and not jobs()


def test_the_address_names_a_study_or_a_graph(home):
    page = opened("reuse")
    first = page.query_params["study"]
    other = read_run_file((SHIPPED / "reuse" / "sdpa.zip").read_bytes()).run.id
    page.selectbox(key="reuse-choice").select(other).run()
    assert page.query_params["study"] in (other, [other]) and other != first
    page.selectbox(key="reuse-choice").select("").run()
    assert "study" not in page.query_params and page.selectbox(key="reuse-choice").value == ""
    page.query_params["study"] = "nonsense"
    page.run()
    assert "There is no study nonsense here." in texts(page) and not page.exception


def test_without_a_gpu_it_says_what_is_done(home):
    page = opened("reuse", session=GRAPH)
    assert not page.button(key="study").disabled
    assert "Without a GPU everything is built and loaded for the target, and nothing executed." in texts(page)
