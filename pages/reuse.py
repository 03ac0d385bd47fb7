"""Reuse: what does building a plan cost, and what is there to not pay it again?"""

from __future__ import annotations

import streamlit as st

from app import job_view, session, studying
from app import reuse_panels as panels
from app.notices import escaped, render_errors
from app.own_graph import ask_graph, pick_kept
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


def render_study(study: RunSummary) -> None:
    """Everything a study found."""
    try:
        run = load_run(study.id).run
    except InvalidInput as error:
        render_errors(error.errors)
        return
    if run.reuse is None:
        return
    told = provenance(run, recorded=study.recorded, here=study.origin is Origin.OWN)
    st.badge(told.label if run.reuse.on_gpu else "built without a GPU, not measured", color=told.colour)
    paid = payoffs(run, sweep_beside(resources().library, run))
    lines = [*sentences(run.reuse), *(f"{one.sentence} ({one.source})" for one in paid)]
    st.markdown("\n".join(f"- {escaped(line)}" for line in lines))
    panels.render_costs(run.reuse)
    if run.reuse.shapes is not None:
        panels.render_shapes(run.reuse.shapes)
    panels.render_graphs(run.reuse.graphs)


session.enter("reuse")
studying.open_finished()
st.title("Reuse")
studies = {run.id: run for run in resources().library.summaries() if run.reuse}
chosen = pick_kept("reuse", "study", {key: words(study) for key, study in studies.items()}, next(iter(studies), ""))
job_view.render_running("reuse")
if chosen:
    render_study(studies[chosen])
elif (wish := ask_graph("reuse")) is not None:
    studying.render_controls(wish)
panels.render_doctor()
