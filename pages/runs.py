"""Runs: every run of this store and every recording, to filter, open, rename, delete, import and export."""

from __future__ import annotations

import streamlit as st

from app import run_panels, session
from app.notices import escaped
from app.resources import resources
from app.run_list import run_table
from app.table_view import render_table

session.enter("runs")
shared = resources()
if shared.problem:
    st.warning(f"Only recordings can be shown: {escaped(shared.problem)}", icon=":material/folder_off:")
runs = shared.library.summaries()
for name, problem in shared.library.recordings.problems.items():
    st.warning(f"The recording {escaped(name)} is left out: {escaped(problem)}", icon=":material/broken_image:")

if not runs:
    st.info("There is no run yet. Sweep a graph on the Explore page, or import a run file.", icon=":material/history:")
    run_panels.render_messages()
    run_panels.render_import()
    st.stop()

wanted = run_panels.render_filters(runs)
listed = [run for run in runs if wanted.keeps(run)]
if not listed:
    st.info("No run is like that. Widen the filters.", icon=":material/filter_alt_off:")
    run_panels.render_messages()
    run_panels.render_import()
    st.stop()

chosen = run_panels.chosen_id(listed)
st.caption(f"{len(listed)} of {len(runs)} runs, newest first")
table = run_table(listed).prepared()
render_table(table, key="runs-table", selected=chosen, on_pick=run_panels.choose, height=520)
run_panels.render_actions(next(run for run in listed if run.id == chosen))
run_panels.render_messages()
run_panels.render_import()
