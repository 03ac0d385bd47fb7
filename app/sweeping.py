"""The Sweep button: where a GPU is here it measures every plan, where none is it says why it cannot."""

from __future__ import annotations

import streamlit as st

from app import job_view, resources, session
from app.inputs import Asked
from app.notices import render_errors
from engine.graph.errors import FieldError, InvalidInput, invalid
from engine.records.options import SweepOptions
from engine.records.run import RunKind

SEED_LIMIT = 2**63 - 1
_SEED, _CACHE, _WRONG = "sweep-seed", "sweep-cache", "sweep.wrong"


def read_seed(text: str) -> int:
    """The seed a person typed, 0 for none; raises InvalidInput."""
    given = text.strip() or "0"
    number = given.isascii() and given.isdigit() and len(given) <= len(str(SEED_LIMIT))
    if not number or int(given) > SEED_LIMIT:
        rule = f"a seed is a whole number from 0 to {SEED_LIMIT:,}."
        raise invalid("seed", text, rule, "The default is 0.")
    return int(given)


def obstacle(asked: Asked, gpus: int, problem: str) -> str:
    """Why no sweep can be started, "" where one can. ``gpus``: how many this machine has."""
    if problem:
        return problem
    if not gpus:
        return "A sweep measures: it needs an NVIDIA GPU in this machine, and none is visible here."
    if not asked.target.is_local:
        return "A sweep measures: pick this machine's GPU as target."
    if asked.waiting:
        return "First mend the field above."
    return asked.too_large.rule if asked.too_large else ""


def render_controls(asked: Asked) -> None:
    """The button, its options, and the reason where it is off."""
    found = resources.resources()
    gpus = sum(target.is_local for target in resources.targets().values())
    reason = obstacle(asked, gpus, found.problem)
    st.button(
        "Sweep",
        type="primary",
        icon=":material/speed:",
        key="sweep",
        disabled=bool(reason),
        help=reason or f"Measure every plan on {asked.target.info.gpu_name} and check each against the reference",
        on_click=_start,
        args=(asked,),
    )
    if not reason:
        with st.popover("Options", icon=":material/tune:"):
            st.text_input("Seed of the random data", key=_SEED, max_chars=20, placeholder="0")
            st.toggle("Builds may use the driver's cache of compiled kernels", key=_CACHE)
            st.caption("Off, build times are honest cold ones. The same seed gives the same data.")
    render_errors(st.session_state.get(_WRONG, ()))
    if reason:
        st.caption(reason)


def _start(asked: Asked) -> None:
    manager = resources.resources().manager
    errors: tuple[FieldError, ...] = ()
    try:
        seed = read_seed(str(st.session_state.get(_SEED) or ""))
        options = SweepOptions(seed=seed, compute_cache=bool(st.session_state.get(_CACHE)))
        if manager is not None:
            manager.submit_sweep(
                asked.pipeline, asked.parameters, asked.spec, asked.target, client=session.client(), options=options
            )
    except InvalidInput as error:
        errors = error.errors
    st.session_state[_WRONG] = errors


def render_running(asked: Asked) -> None:
    """Sweeps of this graph that run or wait, whoever asked for them: they outlive the browser session."""
    manager = resources.resources().manager
    for job in manager.jobs() if manager else ():
        if job.kind is RunKind.SWEEP and job.graph_id == asked.spec.graph_id and not job.state.ended:
            job_view.watch(job.id)
