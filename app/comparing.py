"""The Compare button: where a GPU is here it measures a graph fused and unfused, where none is it says why not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

import streamlit as st

from app import job_view, resources
from app.notices import escaped, render_errors
from app.own_graph import Wish, open_kept
from engine.graph.errors import FieldError, InvalidInput
from engine.jobs.comparing import expected_s
from engine.jobs.request import fusion_request
from engine.plans.targets import Target
from engine.records.options import SweepOptions

_WRONG, _ENDED = "compare.wrong", "compare.ended"


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


def open_finished() -> None:
    """Show a comparison that was started here and has ended meanwhile; where it measured nothing, keep why to be said.
    Call it before the widgets are drawn."""
    for job in job_view.finished("fusion"):
        if job.run_id:
            open_kept("fusion", job.run_id)
        else:
            st.session_state[_ENDED] = job_view.end_words(job)


def _start(wish: Wish, name: str) -> None:
    manager, target = resources.resources().manager, gpus().get(name)
    errors: tuple[FieldError, ...] = ()
    st.session_state.pop(_ENDED, None)
    try:
        if manager is not None and target is not None:
            request = fusion_request(wish.pipeline, wish.parameters, wish.spec, target, SweepOptions(), manager.gpus())
            job_view.submit(manager, request)
    except InvalidInput as error:
        errors = error.errors
    st.session_state[_WRONG] = errors
