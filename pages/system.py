"""System: which GPU, driver and libraries a plan would run with here, what is missing, and who works on what."""

from __future__ import annotations

import streamlit as st

from app import machine_panels as panels
from app import session
from app.notices import escaped
from app.resources import resources
from app.table_view import render_table
from engine.jobs.inspection import inspect_machine
from engine.machine.gpus import list_gpus
from engine.machine.libraries import LibraryReport


@st.cache_data(show_spinner="Loading this machine's cuDNN in a process of its own ...", ttl=600)
def report() -> LibraryReport:
    """Kept for ten minutes, or until somebody asks to look again."""
    return inspect_machine()


@st.fragment(run_every=2)
def render_queue() -> None:
    """Jobs that run, wait or have ended, each of the first two with a button that cancels it."""
    shared = resources()
    jobs = shared.manager.jobs() if shared.manager else ()
    if not jobs:
        st.caption("Nothing runs, waits or has ended since the server started.")
        return
    progress = st.column_config.ProgressColumn(min_value=0.0, max_value=1.0)
    st.dataframe(panels.jobs_frame(jobs), hide_index=True, column_config={"progress": progress})
    for job in jobs:
        if not job.state.ended and st.button(f"Cancel {job.kind.value} of {job.pipeline}", key=f"cancel-{job.id}"):
            shared.manager.cancel(job.id)
            st.rerun(scope="fragment")


session.enter("system")
st.title("System")
if problem := resources().problem:
    st.error(escaped(problem), icon=":material/folder_off:")

found, gpus = report(), list_gpus()
panels.render_findings(found, gpus)

st.subheader("GPUs", anchor="gpus")
panels.render_gpus(gpus)

versions, libraries = st.columns([1, 3])
with versions:
    st.subheader("Versions", anchor="versions")
    st.dataframe(panels.versions_frame(found, gpus[0].driver if gpus else None), hide_index=True)
with libraries:
    st.subheader("Libraries a plan needs", anchor="libraries")
    render_table(panels.libraries_table(found).prepared(), key="libraries-table", height=800)
if st.button("Look again", icon=":material/refresh:"):
    report.clear()
    st.rerun()

st.subheader("Workers and queue", anchor="queue")
render_queue()
