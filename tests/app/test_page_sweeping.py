"""The Sweep button with scripted processes in the GPU's place: progress, queue, cancel, and the run that is opened."""

from __future__ import annotations

import pytest

from app import resources
from engine.jobs.snapshots import JobState
from engine.records.run import RunKind
from tests.app.pages import alerts, fill, opened, tables, texts
from tests.process.conftest import wait_until

pytestmark = [pytest.mark.app, pytest.mark.process]


def sweeps():
    return [job for job in resources.resources().manager.jobs() if job.kind is RunKind.SWEEP]


def ended(state):
    wait_until(lambda: all(job.state.ended for job in sweeps()), within_s=30)
    assert [job.state for job in sweeps()] == [state]
    return sweeps()[0]


def test_a_pressed_button_ends_in_a_run_that_is_opened_and_in_the_address(machine):
    page = opened(pipeline="matmul", m="128", session={"sweep-options": True})
    assert page.selectbox(key="target").value == "local", "this machine's GPU is the target by itself"
    assert not page.button(key="sweep").disabled
    page.text_input(key="sweep-seed").set_value("7").run()
    page.button(key="sweep").click().run()
    assert not page.exception
    job = ended(JobState.DONE)
    page.run()
    page.run()
    assert not page.exception
    assert page.query_params["run"] == job.run_id
    assert "measured here on Test GPU, cuDNN 9.28.1" in texts(page)
    assert len(tables(page)[0]) == 3
    assert resources.resources().library.get(job.run_id).options.seed == 7


def test_progress_failures_and_the_queue_are_shown_to_whoever_looks(machine):
    machine.script(builder={"build eng0": "crash"}, worker={"admit eng1": "hang"})
    first, other = opened(pipeline="matmul", m="128"), opened(pipeline="matmul", m="64")
    first.button(key="sweep").click().run()
    other.button(key="sweep").click().run()
    wait_until(lambda: machine.noted("worker", "admit eng1"), within_s=30)
    looking = opened(pipeline="matmul", m="128")
    said = texts(looking)
    assert "Sweep: " in said
    assert "of 20 steps" in said
    assert any("↯ crashed" in row for table in tables(looking) for row in table)
    waiting = opened(pipeline="matmul", m="64")
    assert "waits in the queue, 1 before it" in texts(waiting)
    for job in sweeps():
        resources.resources().manager.cancel(job.id)


def test_cancel_keeps_what_was_measured(machine):
    machine.script(worker={"regimes eng2": "hang"})
    page = opened(pipeline="matmul", m="128")
    page.button(key="sweep").click().run()
    wait_until(lambda: machine.noted("worker", "regimes eng2"), within_s=30)
    (job,) = sweeps()
    page.run()
    page.button(key=f"cancel-{job.id}").click().run()
    job = ended(JobState.CANCELLED)
    page.run()
    page.run()
    assert not page.exception
    assert page.query_params["run"] == job.run_id
    assert "(cancelled)" in page.selectbox(key="source").options[0]
    assert sum("✓ ok" in row for row in tables(page)[0]) == 3
    assert "tie hot at" in texts(page), "the hot verdict was there when it was cancelled"
    assert "GPU, cold not measured" in " ".join(texts(page).split())


@pytest.mark.parametrize("seed", ["-1", "abc", str(2**63)])
def test_a_wrong_seed_is_answered_and_nothing_is_queued(machine, seed):
    page = opened(pipeline="matmul", m="128", session={"sweep-options": True})
    page.text_input(key="sweep-seed").set_value(seed).run()
    page.button(key="sweep").click().run()
    assert not page.exception
    assert alerts(page) == [
        f"seed = {seed}: a seed is a whole number from 0 to 9,223,372,036,854,775,807. The default is 0."
    ]
    assert sweeps() == []


def test_a_named_gpu_cannot_be_swept_here_and_the_button_says_so(machine):
    page = opened(pipeline="matmul", target="h200")
    assert page.button(key="sweep").disabled
    assert "pick this machine's GPU as target" in texts(page)


def test_a_wrong_field_has_to_be_mended_before_a_sweep(machine):
    page = opened(pipeline="matmul", m="128")
    fill(page, k="0")
    assert page.button(key="sweep").disabled
    assert "First mend the field above." in texts(page)
