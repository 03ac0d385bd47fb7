"""What the Reuse page draws: a study's figures with their tables, and the doctor's drop zone."""

from __future__ import annotations

from concurrent.futures import Future

import streamlit as st

from app import reuse_charts, reuse_tables
from app.chart_view import prepared, render_chart
from app.clinic import clinic
from app.notices import escaped
from app.table_view import render_table
from engine.bundles.checkups import FINE, NOT_ORIGIN, WORSE, Examination, PlanCheckup
from engine.bundles.load_plan import FILE_LIMIT
from engine.jobs.protocol import JobCancelled
from engine.records.reuse import DynamicShapes, GraphUse, Reuse, Way

_UNDER_WAY = "reuse.examination"


def render_costs(reuse: Reuse) -> None:
    """Build against deserialize."""
    st.subheader("Build against load", anchor="costs")
    where = "on the GPU" if reuse.on_gpu else "without a GPU: builds and loads are real, nothing was executed"
    st.caption(f"Every number of a process of its own that did nothing else, {reuse.repeats} each; {where}.")
    if (figure := reuse_charts.costs_figure(reuse)) is not None:
        said = "Time to build and to load each plan; at the right how many times a load a build takes"
        render_chart(prepared(figure, said), key="reuse-costs")
    render_table(reuse_tables.costs_table(reuse).prepared(), key="reuse-costs-table", height=320)


def render_shapes(shapes: DynamicShapes) -> None:
    """Many sizes of one letter."""
    st.subheader("Dynamic shapes", anchor="shapes")
    cached = shapes.of(Way.CACHE)
    shared = cached is not None and any(size.build_ms is not None for size in cached.sizes)
    if (figure := reuse_charts.builds_figure(shapes)) is not None:
        beside = "; at the right the kernel cache's over each on its own" if shared else ""
        said = f"Time to build at each {shapes.letter}{beside}"
        render_chart(prepared(figure, said), key="reuse-builds")
    if (figure := reuse_charts.speeds_figure(shapes)) is not None:
        beside = "; at the right the kernel cache's plan over the best static one" if shared else ""
        said = f"Time to run at each {shapes.letter}{beside}"
        render_chart(prepared(figure, said), key="reuse-speeds")
    for series in shapes.series:
        wrong = [str(size.size) for size in series.sizes if size.right is False]
        if wrong:
            told = f"{series.way.value} gives wrong results at {shapes.letter} = {', '.join(wrong)}."
            st.error(escaped(told[0].upper() + told[1:]), icon=":material/rule:")
        refused = next((size.refused for size in series.sizes if size.refused), None)
        if refused and series.way is not Way.STATIC:
            st.info(escaped(f"No {series.way.value}: {refused}"), icon=":material/block:")
    render_table(reuse_tables.shapes_table(shapes).prepared(), key="reuse-shapes-table", height=360)
    if shapes.matrix:
        st.markdown("**Tuned at one size, run at another**")
        render_table(reuse_tables.matrix_table(shapes).prepared(), key="reuse-matrix", height=280)


def render_graphs(uses: tuple[GraphUse, ...]) -> None:
    """CUDA graphs."""
    st.subheader("CUDA graphs", anchor="graphs")
    if not uses:
        st.caption("What CUDA graphs give is measured on a GPU; this study was made without one, or without them.")
        return
    if (figure := reuse_charts.graphs_figure(uses)) is not None:
        said = "Time per execution, called and replayed; at the right what a replay removes per call"
        render_chart(prepared(figure, said), key="reuse-graphs")
    render_table(reuse_tables.graphs_table(uses).prepared(), key="reuse-graphs-table", height=320)


def render_doctor() -> None:
    """The drop zone: integrity first, and anything more only with trust."""
    st.subheader("Plan doctor", anchor="doctor")
    st.caption(
        "What is a bundle worth on this machine? Is it whole, does it load, does its recipe still build the same plan, "
        f"and on a GPU: is it still right, and among the fastest? {NOT_ORIGIN}"
    )
    file = st.file_uploader(
        "Bundle (zip)", type="zip", key="bundle-file", max_upload_size=FILE_LIMIT >> 20, on_change=_forget
    )
    trust = st.checkbox(
        "I trust where it comes from: load its plans, which hold code for the GPU", key="bundle-trust", value=False
    )
    if st.button("Examine", key="examine", icon=":material/stethoscope:", disabled=file is None) and file is not None:
        st.session_state[_UNDER_WAY] = file.name, clinic().submit(file.getvalue(), trust)
    _render_examination()


def _forget() -> None:
    """What was said of one file is not said of the next."""
    st.session_state.pop(_UNDER_WAY, None)


@st.fragment(run_every=1)
def _render_examination() -> None:
    asked: tuple[str, Future[Examination]] | None = st.session_state.get(_UNDER_WAY)
    if asked is None:
        return
    name, under_way = asked
    st.markdown(f"**{escaped(name)}**")  # A file that the zone refuses leaves the one before it in place.
    if not under_way.done():
        st.info("In processes of their own: opening, then loading and building anew …", icon=":material/stethoscope:")
        return
    try:
        found = under_way.result()
    except (JobCancelled, OSError) as error:
        st.error(escaped(f"The examination ended early: {error}"), icon=":material/error:")
        return
    render_examination(found)


def render_examination(found: Examination) -> None:
    """What the doctor says."""
    draw = {FINE: st.success, WORSE: st.warning}.get(found.exit_status, st.error)
    draw(escaped(found.verdict), icon=":material/stethoscope:")
    if found.refused:
        st.markdown(escaped(found.refused))
        return
    facts = [found.label, f"{found.files} files, all as SHA256SUMS says.", found.problem]
    if found.cudnn:
        facts.append(f"Examined with cuDNN {found.cudnn}, onto {found.onto}.")
    st.markdown("  \n".join(escaped(fact) for fact in [*facts, *found.remarks] if fact))
    for plan in found.plans:
        if plan.is_default or plan.exit_status != FINE:
            _render_plan(plan)
    if others := [plan for plan in found.plans if not plan.is_default and plan.exit_status == FINE]:
        st.caption(f"{len(others)} more plans load.")


def _render_plan(plan: PlanCheckup) -> None:
    title = f"**{escaped(plan.plan_name)}** of {escaped(plan.pipeline)}, graph {plan.graph}"
    st.markdown("\n".join([title, "", *(f"- {escaped(sentence)}" for sentence in plan.sentences())]))
