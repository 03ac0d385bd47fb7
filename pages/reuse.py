"""Reuse: what does building a plan cost, and what is there to not pay it again?"""

from __future__ import annotations

import streamlit as st

from app import reuse_panels as panels
from app import session
from app.notices import escaped, render_errors
from app.resources import load_run, resources
from app.run_list import ORIGIN_WORDS
from app.theme import fmt_date, provenance
from engine.graph.errors import InvalidInput
from engine.records.payoff import payoffs, sentences
from engine.runs.summary import Origin, RunSummary
from engine.runs.sweeps import sweep_beside


def words(study: RunSummary) -> str:
    """A study in the list."""
    on = study.gpu or f"for {study.target}, without a GPU"
    what = f"{study.pipeline}, {study.shape}; {on}; cuDNN {study.cudnn}; {fmt_date(study.started_at)}"
    return f"{study.title}: {what}" if study.title else f"{what} ({ORIGIN_WORDS[study.origin]})"


session.enter("reuse")
st.title("Reuse")
studies = [run for run in resources().library.summaries() if run.reuse]
if not studies:
    st.info(
        "There is no study of reuse yet. Make one on the command line, or import one on the Runs page. Without a GPU "
        "it builds and loads, and executes nothing.",
        icon=":material/recycling:",
    )
    st.code(panels.COMMAND, language="bash")
else:
    by_id = {study.id: study for study in studies}
    chosen = st.selectbox("Study", list(by_id), format_func=lambda run_id: words(by_id[run_id]), key="reuse-study")
    try:
        run = load_run(chosen).run
    except InvalidInput as error:
        render_errors(error.errors)
        st.stop()
    study = by_id[chosen]
    told = provenance(run, recorded=study.recorded, here=study.origin is Origin.OWN)
    if run.reuse is not None:
        st.badge(told.label if run.reuse.on_gpu else "built without a GPU, not measured", color=told.colour)
        paid = payoffs(run, sweep_beside(resources().library, run))
        lines = [*sentences(run.reuse), *(f"{one.sentence} ({one.source})" for one in paid)]
        st.markdown("\n".join(f"- {escaped(line)}" for line in lines))
        panels.render_costs(run.reuse)
        if run.reuse.shapes is not None:
            panels.render_shapes(run.reuse.shapes)
        panels.render_graphs(run.reuse.graphs)

panels.render_doctor()
