"""Where a graph's results come from: a run that matches it, or plans made here and now; and the Sweep button."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app import demands, evidence, form, job_view, resources, session, sweeping
from app.evidence import HERE, planned_run, settle_run
from app.inputs import Asked
from app.judged import judge
from app.links import ExploreState, differing
from app.notices import distinct, escaped, render_errors
from app.plan_detail import Shown
from app.plan_table import plan_table
from app.table_view import render_table
from app.theme import PLANNED, Provenance, provenance
from engine.graph.errors import FieldError, InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.jobs.snapshots import JobState
from engine.records.constraints import Constraints
from engine.records.run import RunKind
from engine.runs.store import StoreError
from engine.runs.summary import Origin, RunSummary


def settle_link(state: ExploreState, fresh: bool) -> ExploreState:
    """A link's state, its target and its run looked up: a run brings its graph, and what is not here is left aside
    with a word."""
    if not fresh:
        return state
    if state.target:
        try:
            resources.find_target(state.target)
        except InvalidInput as error:
            for wrong in error.errors:
                session.complain(wrong)
            state = replace(state, target="")
            session.settle(target="")
    library = resources.resources().library
    run = next((run for run in library.summaries() if run.id == state.run), None)
    chosen = CATALOGUE[state.pipeline]
    graph_id = form.last_good(chosen, form.read(chosen, state.parameters), {}).graph_id  # of what will be drawn
    settled, message = settle_run(state, run, graph_id, session.bare())
    if settled != state:
        session.settle(run=settled.run, plan=settled.plan, pipeline=settled.pipeline, given=settled.given)
    if message:
        session.complain(FieldError("run", state.run, message, ""))
    return settled


def render_source(asked: Asked) -> tuple[Shown | None, Provenance]:
    """Draw the choice of results and the Sweep button; give what is chosen, None while there is nothing yet."""
    sweeping.open_finished(asked)
    runs = resources.resources().library.matching(asked.spec.graph_id)
    chosen = evidence.choose(runs, session.state().run, asked.target.info)
    # Planning here is what an address without a run means: then a run that is made later is opened.
    session.settle(run=session.state().run if chosen == HERE else chosen, target=asked.target.info.name)
    words = distinct(evidence.run_words(runs))
    words[HERE] = evidence.here_label(resources.cudnn_version(), asked.target.info)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        session.follow("source", chosen)
        st.selectbox(
            "Results",
            list(words),
            format_func=words.__getitem__,
            key="source",
            on_change=_switch_source,
            width=560,
        )
        sweeping.render_controls(asked)
    sweeping.render_options(asked)
    sweeping_now = job_view.render_running(RunKind.SWEEP, asked.spec.graph_id)
    if chosen == HERE:
        return (None, PLANNED) if sweeping_now else _here(asked)
    summary = next(run for run in runs if run.id == chosen)
    return _open(summary, asked)


def _switch_source() -> None:
    session.change(run=st.session_state["source"], plan="")


def _open(summary: RunSummary, asked: Asked) -> tuple[Shown | None, Provenance]:
    library = resources.resources().library
    try:
        loaded = resources.load_run(summary.id)
    except (InvalidInput, StoreError) as error:
        st.error(escaped(str(error)))
        return None, PLANNED
    run = loaded.run
    if other := evidence.other_scalars(asked.spec, run.graph):
        st.caption(
            f"This run passed {escaped(other)}: its errors are of that value, and the file of a plan of it passes "
            "it too. The plans are the same, and a loaded plan takes another value at each call."
        )
    constraints = demands.read(session.state().demands, Constraints.of(run.options))
    judged = resources.load_judged(loaded, constraints)
    shown = Shown(run, loaded.version, judged.judged, judged.frame, lambda sha256: library.blob(summary.id, sha256))
    return shown, provenance(run, recorded=summary.recorded, here=summary.origin is Origin.OWN)


# -- Planning here


def _here(asked: Asked) -> tuple[Shown | None, Provenance]:
    """The plans that the cuDNN at hand offers; while they are being made, a live view instead."""
    _offer_nearest(asked)
    return _planned(asked), PLANNED


def _planned(asked: Asked) -> Shown | None:
    found = resources.resources()
    if found.manager is None:
        st.warning(f"Plans cannot be made: {escaped(found.problem)}", icon=":material/folder_off:")
        return None
    if asked.too_large is not None:
        render_errors([asked.too_large])
        return None
    try:
        job = job_view.plan_job(found.manager, asked)
    except InvalidInput as error:
        render_errors(error.errors)
        return None
    if job is None or not job.state.ended:
        if job is not None:
            job_view.watch(job.id)
        return None
    if job.state is not JobState.DONE:
        with st.container(horizontal=True, vertical_alignment="center"):
            why = f": {escaped(job.message)}" if job.message not in ("", job.state) else ""
            st.warning(f"Planning {job.state}{why}", icon=":material/error:")
            st.button("Plan again", on_click=job_view.plan_again, key="plan-again")
    for remark in job.remarks:
        st.caption(escaped(remark))
    run = planned_run(job, asked.parameters, asked.spec)
    store = found.library.store
    if run is None or store is None:
        return None
    frame = resources.planned_frame(job.id, job.version, run)
    return Shown(run, job.version, judge(run, Constraints()), frame, store.get_blob)


def _offer_nearest(asked: Asked) -> None:
    """Nothing was measured on this GPU for this graph: the nearest that was, one click away."""
    near = resources.resources().library.nearest(asked.pipeline, asked.parameters)
    if near is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        how = "The same graph was" if not near.differing else f"Nearest measured, {evidence.nearest_text(near)}:"
        text = f"{how} {evidence.run_label(near.summary)}; {evidence.best_text(near.summary)}"
        st.markdown(escaped(text))
        st.button("Open it", key="open-nearest", on_click=open_run, args=(near.summary,))


def open_run(run: RunSummary) -> None:
    """Show a run: its graph, its results."""
    given = differing(CATALOGUE[run.pipeline], run.parameters)
    session.change(pipeline=run.pipeline, given=given, run=run.id, plan="")
    session.redraw()


def render_here(asked: Asked, shown: Shown | None) -> None:
    """Beside an opened run, the plans of the cuDNN at hand: a list of their own."""
    if shown is None or session.state().run in ("", HERE):
        return
    version, gpu = resources.cudnn_version(), asked.target.info.gpu_name
    panel = st.expander(
        f"Plans that cuDNN {version} offers here for {gpu}", on_change="rerun", key="here", icon=":material/list_alt:"
    )
    with panel:
        if not panel.open:
            return
        st.caption(
            "A list of its own: engine numbers and knobs mean nothing across cuDNN versions, so nothing here is joined "
            "with the run above. To see charts, details and downloads of these, choose “planned here” under Results."
        )
        planned = _planned(asked)
        if planned is not None:
            render_table(plan_table(planned.frame).prepared(), key="here-table")
