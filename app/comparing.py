"""The Compare button: where a GPU is here it measures a graph fused and unfused, where none is it says why not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import streamlit as st

from app import job_view, resources, session
from app.fusion_inputs import open_comparison
from app.notices import escaped, render_errors
from engine.graph.errors import FieldError, InvalidInput
from engine.graph.spec import GraphSpec
from engine.jobs.comparing import expected_s
from engine.jobs.snapshots import JobState
from engine.plans.targets import Target

_MINE, _WRONG, _ENDED = "compare.mine", "compare.wrong", "compare.ended"


@dataclass(frozen=True)
class Wish:
    """A graph to compare, with the pipeline and the parameters that make it."""

    pipeline: str
    parameters: Mapping[str, str]
    spec: GraphSpec


def gpus() -> dict[str, Target]:
    """This machine's, by name."""
    return {name: target for name, target in resources.targets().items() if target.is_local}


def obstacle(here: Mapping[str, Target], problem: str) -> str:
    """Why no comparison can be started, "" where one can."""
    if problem:
        return problem
    return "" if here else "A comparison measures: it needs an NVIDIA GPU in this machine, and none is visible here."


def render_controls(wish: Wish) -> None:
    """The button with about how long it takes, and the reason where it is off."""
    here, problem = gpus(), resources.resources().problem
    reason = obstacle(here, problem)
    with st.container(horizontal=True, vertical_alignment="center"):
        name = next(iter(here), "")
        if len(here) > 1:
            name = st.selectbox(
                "GPU", list(here), format_func=lambda n: f"{here[n].info.gpu_name} ({n})", key="compare-gpu", width=320
            )
        st.button(
            "Compare",
            type="primary",
            icon=":material/speed:",
            key="compare",
            disabled=bool(reason),
            help=None if reason else f"Measure this graph fused and unfused on {here[name].info.gpu_name}",
            on_click=_start,
            args=(wish, name),
        )
        faint = reason or f"About {math.ceil(expected_s(wish.spec) / 10) * 10} s, most of it torch.compile."
        st.html(f'<span class="ps-faint">{escape(faint)}</span>', width="content")
    render_errors(st.session_state.get(_WRONG, ()))
    if ended := st.session_state.get(_ENDED):
        st.warning(escaped(ended), icon=":material/error:")


def render_running(spec: GraphSpec) -> bool:
    """Draw the comparisons of this graph that run or wait, whoever asked for them: they outlive the browser session.
    Says whether there are any."""
    manager = resources.resources().manager
    running = [
        job
        for job in (manager.jobs() if manager else ())
        if job.kind == "fusion" and job.graph_id == spec.graph_id and not job.state.ended
    ]
    for job in running:
        job_view.watch(job.id)
    return bool(running)


def open_finished() -> None:
    """Show a comparison that was started here and has ended meanwhile; where it measured nothing, keep why to be said.
    Call it before the widgets are drawn."""
    manager, mine = resources.resources().manager, st.session_state.get(_MINE, [])
    for job_id in list(mine):
        job = manager.snapshot(job_id) if manager else None
        if job is not None and not job.state.ended:
            continue
        mine.remove(job_id)
        if job is not None and job.run_id:
            open_comparison(job.run_id)
        elif job is not None:
            end = f"failed: {job.message}" if job.state is JobState.FAILED else "was cancelled"
            st.session_state[_ENDED] = f"The comparison of {job.pipeline} {end}"


def _start(wish: Wish, name: str) -> None:
    manager, target = resources.resources().manager, gpus().get(name)
    errors: tuple[FieldError, ...] = ()
    st.session_state.pop(_ENDED, None)
    try:
        if manager is not None and target is not None:
            job_view.leave_plan_job(manager)  # It would keep the GPU's queue from the comparison.
            job = manager.submit_fusion(wish.pipeline, wish.parameters, wish.spec, target, client=session.client())
            st.session_state.setdefault(_MINE, []).append(job)
    except InvalidInput as error:
        errors = error.errors
    st.session_state[_WRONG] = errors
