"""Jobs as they go on: fragments that look at the job manager's snapshots every second, and the buttons beside them."""

from __future__ import annotations

import math

import streamlit as st

from app import resources, session
from app.frames import plans_frame
from app.inputs import Asked
from app.notices import escaped
from app.plan_table import plan_table
from app.table_view import render_table
from engine.jobs.manager import JobManager
from engine.jobs.request import Request
from engine.jobs.snapshots import JobKind, JobSnapshot, JobState
from engine.records.plan import Status
from engine.records.run import RunKind

EVERY_S = 0.7
_PLAN_JOB, _MINE = "plan.job", "jobs.mine"
_WORDS: dict[str, str] = {RunKind.SWEEP: "Sweep", RunKind.PLAN: "Planning", "fusion": "Comparison", "reuse": "Study"}


def plan_job(manager: JobManager, asked: Asked) -> JobSnapshot | None:
    """This session's question for the plans of the graph, asked when it is new; raises InvalidInput.

    A job that failed is not asked again by itself: that would go on for ever.
    """
    key = (asked.spec.graph_id, asked.target.info, resources.cudnn_version())
    known = st.session_state.get(_PLAN_JOB)
    snapshot = manager.snapshot(known[1]) if known and known[0] == key else None
    if snapshot is None:
        job = manager.submit_plan(asked.pipeline, asked.parameters, asked.spec, asked.target, client=session.client())
        st.session_state[_PLAN_JOB] = (key, job)
        snapshot = manager.snapshot(job)
    return snapshot


def leave_plan_job(manager: JobManager) -> None:
    """Take back this session's question for plans."""
    if known := st.session_state.pop(_PLAN_JOB, None):
        manager.cancel(known[1], session.client())


def plan_again() -> None:
    """Ask anew at the next run."""
    st.session_state.pop(_PLAN_JOB, None)


@st.fragment(run_every=EVERY_S)
def watch(job_id: str) -> None:
    """Draw a job until it ends, then run the page again, which shows its outcome."""
    manager = resources.resources().manager
    job = manager.snapshot(job_id) if manager else None
    if manager is None or job is None or job.state.ended:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(job.fraction, text=progress_text(job), width="stretch")
        # Others may share a plan job: they are not left without it.
        who = session.client() if job.kind is RunKind.PLAN else None
        if who is None or manager.attend(job.id, who):
            st.button(
                "Cancel", icon=":material/close:", key=f"cancel-{job.id}", on_click=manager.cancel, args=(job.id, who)
            )
        else:
            st.caption("Cancelled here. Another page waits for the same plans, so it goes on while that is open.")
    if job.plans:
        render_table(plan_table(plans_frame(job.plans)).prepared(), key=f"live-{job.id}")


def render_running(kind: JobKind, graph_id: str | None = None) -> bool:
    """Draw the jobs of a kind, of one graph or of all, that run or wait, whoever asked for them: they outlive the
    browser session. Says whether there are any."""
    manager = resources.resources().manager
    running = [
        job
        for job in (manager.jobs() if manager else ())
        if job.kind == kind and graph_id in (None, job.graph_id) and not job.state.ended
    ]
    for job in running:
        watch(job.id)
    return bool(running)


def submit(manager: JobManager, request: Request) -> None:
    """Queue what this session asks for. Its question for plans is taken back: it would keep the queue from it."""
    leave_plan_job(manager)
    st.session_state.setdefault(_MINE, []).append(manager.submit(request, session.client()))


def finished(kind: JobKind) -> list[JobSnapshot]:
    """What this session asked for and has ended since this was called last."""
    manager, mine = resources.resources().manager, st.session_state.get(_MINE, [])
    ended = []
    for job_id in list(mine):
        job = manager.snapshot(job_id) if manager else None
        if job is None:
            mine.remove(job_id)
        elif job.kind == kind and job.state.ended:
            mine.remove(job_id)
            ended.append(job)
    return ended


def end_words(job: JobSnapshot) -> str:
    """How a job ended that brought nothing."""
    end = f"failed: {job.message}" if job.state is JobState.FAILED else "was cancelled"
    return f"The {_word(job).lower()} of {job.pipeline} {end}"


def progress_text(job: JobSnapshot) -> str:
    """A job in a line: what happens, how far, how long still, or how many are before it."""
    if job.state is JobState.QUEUED:
        waits = f"{job.position} before it" if job.position else "next"
        return f"{_word(job)} of {escaped(job.pipeline)}: waits in the queue, {waits}"
    parts = [f"{_word(job)}: {escaped(job.message)}" if job.message else _word(job)]
    if job.total and job.kind is not RunKind.PLAN:
        parts.append(f"{job.done} of {job.total} steps")
    failed = len(job.plans) - job.count(Status.OK, Status.LISTED, Status.CANCELLED)
    if failed:
        parts.append(f"{failed} failed")
    if job.eta_s is not None:
        parts.append(f"about {math.ceil(job.eta_s)} s left")
    return " · ".join(parts)


def _word(job: JobSnapshot) -> str:
    return _WORDS[job.kind]
