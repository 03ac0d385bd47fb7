"""The Sweep button: where a GPU is here it measures every plan, where none is it says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import streamlit as st

from app import demands, form, job_view, resources, session
from app.inputs import Asked
from app.notices import render_errors
from app.sweep_options import duration, estimate_s, further_plans, has_scores, preset_words, read_options
from engine.graph.errors import FieldError, InvalidInput
from engine.jobs.request import sweep_request
from engine.records.constraints import Constraints
from engine.records.options import DataKind, Preset, SweepOptions
from engine.records.run import RunKind
from engine.records.wording import several

TEXTS = ("seed", "score_shift", "knob_budget", "explicit")
_WRONG, _OPEN = "sweep.wrong", "sweep-options"
_FIELD = 270
"""Pixels of a field, room for its label."""
_DATA_WORDS = {DataKind.NORMAL: "normal", DataKind.UNIFORM: "uniform", DataKind.POSITIVE: "all positive"}


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
    """The button, and the reason where it is off."""
    found = resources.resources()
    gpus = sum(target.is_local for target in resources.targets().values())
    reason = obstacle(asked, gpus, found.problem)
    st.button(
        "Sweep",
        type="primary",
        icon=":material/speed:",
        key="sweep",
        disabled=bool(reason),
        help=None if reason else f"Measure every plan on {asked.target.info.gpu_name} and check each one's result",
        on_click=_start,
        args=(asked,),
    )
    if reason:
        st.html(f'<span class="ps-faint">{escape(reason)}</span>', width="content")


def render_options(asked: Asked) -> None:
    """What a sweep may be asked for, folded away; what is wrong with it is said in either case."""
    panel = st.expander("Sweep options", icon=":material/tune:", key=_OPEN, on_change="rerun")
    if panel.open:
        with panel:
            _render_fields(asked)
    wrong = st.session_state.get(_WRONG, ())
    beside = {*TEXTS} if panel.open else set()
    render_errors(error for error in wrong if error.field not in beside)


def _render_fields(asked: Asked) -> None:
    """Each text has its message beside it."""
    wrong = _check(asked)
    kept = _kept()
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        preset = _choose("Precision", "preset", list(Preset), str)
        _choose("Random data", "data", list(DataKind), _DATA_WORDS.__getitem__)
    preset = Preset(preset or Preset.STANDARD)
    st.caption(f"About {_seconds(asked, preset)}: {preset_words(preset)}.")
    with st.container(horizontal=True, vertical_alignment="top"):
        _ask("seed", "Seed: the same one gives the same data", "0", wrong)
        if has_scores(asked.spec):
            _ask("score_shift", "Score shift: added to every score", "0", wrong)
        _ask("knob_budget", "Knob search: further choices to build", "0, off", wrong)
    with st.container(horizontal=True, vertical_alignment="top"):
        st.text_area(
            "Explicit plans: engine id and knobs, one a line",
            kept["explicit"],
            key="sweep-explicit",
            placeholder="49;SPLIT_K_SLC=15;KERNEL_CFG=30",
            height=80,
            width=_FIELD * 2,
            on_change=_keep,
        )
        render_errors((error for error in wrong if error.field == "explicit"), width=_FIELD * 2)
    _switch("every_engine", "Ask every engine, not only those the heuristics list")
    _switch(
        "compute_cache", "Builds may use the driver's cache of compiled kernels; without it, build times are cold ones"
    )
    st.caption("The constraints on the winner are those set above the charts.")


def _choose(label: str, field: str, choices: list[Any], words: Callable[[Any], str]) -> Any:
    return st.segmented_control(
        label,
        choices,
        format_func=words,
        default=_kept()[field],
        key=f"sweep-{field}",
        required=True,
        on_change=_keep,
        width="content",
    )


def _switch(field: str, label: str) -> None:
    st.toggle(label, _kept()[field], f"sweep-{field}", on_change=_keep)


def _ask(field: str, label: str, empty: str, wrong: Iterable[FieldError]) -> None:
    st.text_input(
        label,
        _kept()[field],
        key=f"sweep-{field}",
        max_chars=20,
        placeholder=empty,
        autocomplete="off",
        width=_FIELD,
        on_change=_keep,
    )
    render_errors((error for error in wrong if error.field == field), width=form.MESSAGE)


def _kept() -> dict[str, Any]:
    """What was chosen, kept beside the widgets: these lose it as soon as they are folded away."""
    nothing = {"preset": Preset.STANDARD, "data": DataKind.NORMAL, "every_engine": False, "compute_cache": False}
    return {**nothing, **dict.fromkeys(TEXTS, ""), **st.session_state.get("sweep.options", {})}


def _keep() -> None:
    drawn = {name: st.session_state.get(f"sweep-{name}") for name in _kept()}
    st.session_state["sweep.options"] = {**_kept(), **{k: v for k, v in drawn.items() if v is not None}}


def _options(asked: Asked) -> SweepOptions:
    kept = _kept()
    choices = {name: value for name, value in kept.items() if name not in TEXTS}
    constraints = demands.read(session.state().demands, Constraints())
    return read_options({name: str(kept[name]) for name in TEXTS}, choices, constraints, asked.spec)


def _check(asked: Asked) -> tuple[FieldError, ...]:
    try:
        _options(asked)
    except InvalidInput as error:
        return error.errors
    return ()


def _seconds(asked: Asked, preset: Preset) -> str:
    """How long a sweep of this graph may take, by the plans that its latest run has and those asked for besides."""
    runs = resources.resources().library.matching(asked.spec.graph_id)
    plans = runs[0].plans if runs else None
    further = further_plans(_kept())
    counted = f"{several(plans, 'plan')}, as its latest run has" if plans else "as many plans as usual"
    besides = f", and {further:,} asked for besides" if further else ""
    return f"{duration(estimate_s(preset, plans, further))} for {counted}{besides}"


def _start(asked: Asked) -> None:
    manager = resources.resources().manager
    errors: tuple[FieldError, ...] = ()
    try:
        options = _options(asked)
        if manager is not None:
            request = sweep_request(asked.pipeline, asked.parameters, asked.spec, asked.target, options, manager.gpus())
            job_view.submit(manager, request)
    except InvalidInput as error:
        errors = error.errors
    st.session_state[_WRONG] = errors


def open_finished(asked: Asked) -> None:
    """Show the run of a sweep that was started here and has ended meanwhile, if its graph is still what is shown."""
    for job in job_view.finished(RunKind.SWEEP):
        if job.run_id and job.graph_id == asked.spec.graph_id:
            session.change(run=job.run_id, plan="")
