"""What is asked: a pipeline, its parameters and a target, picked and typed, and the graph that comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app import form, resources, session
from app.links import ExploreState, differing
from app.notices import distinct, render_errors
from app.theme import fmt_bytes, source_label
from engine.graph.errors import FieldError, InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.graph.pipelines.base import Pipeline
from engine.graph.spec import GraphSpec
from engine.plans.limits import check_memory
from engine.plans.targets import Target

_DRAFTS = "explore.drafts"


@dataclass(frozen=True)
class Asked:
    """A graph and where it should run. ``parameters``: every letter's text. ``too_large``: why it cannot be planned for
    this target; ``waiting``: fields hold something unusable, so this is the last good graph, not theirs."""

    pipeline: str
    parameters: Mapping[str, str]
    spec: GraphSpec
    target: Target
    too_large: FieldError | None
    waiting: bool


def ask(state: ExploreState, fresh: bool) -> Asked:
    """Draw the controls and say what they come to. ``fresh``: the state did not come from these controls, so they are
    set to it."""
    chosen = CATALOGUE[state.pipeline]
    if fresh:
        form.forget(chosen)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _pick_pipeline(state)
        target = _pick_target(state)
    texts = form.typed(chosen, form.read(chosen, state.parameters).texts)
    reading = form.read(chosen, texts)
    good = form.last_good(chosen, reading, state.parameters)
    assert good.spec is not None and good.parameters is not None
    too_large = _memory_error(chosen.name, good, target)
    beside = reading.errors or ({too_large.field: too_large} if too_large else {})
    form.render_form(chosen, texts, beside, on_change=lambda: _take(chosen))
    st.session_state.setdefault(_DRAFTS, {})[chosen.name] = dict(good.parameters)
    return Asked(chosen.name, good.parameters, good.spec, target, too_large, reading.spec is None)


def _take(chosen: Pipeline[Any]) -> None:
    """What was typed, where it is a graph, is the state from now on: before anything is drawn, for who has clicked a
    link meanwhile is gone before the drawing is done."""
    session.act()
    before = form.read(chosen, session.state().parameters)
    reading = form.read(chosen, form.typed(chosen, before.texts))
    if reading.parameters is not None and reading.parameters != before.parameters:
        session.change(given=differing(chosen, reading.parameters), run="", plan="")


def _memory_error(name: str, good: form.Reading, target: Target) -> FieldError | None:
    assert good.spec is not None
    try:
        check_memory(good.spec, target.info, CATALOGUE[name], good.parameters)
    except InvalidInput as error:
        first = error.errors[0]
        return first if first.field in good.texts else FieldError("", first.value, str(first), "")
    return None


def _pick_pipeline(state: ExploreState) -> None:
    session.follow("pipeline", state.pipeline)
    st.selectbox(
        "Pipeline",
        list(CATALOGUE),
        format_func=lambda name: f"{CATALOGUE[name].title} ({name})",
        key="pipeline",
        on_change=_switch_pipeline,
        width=430,
    )


def _switch_pipeline() -> None:
    """Another pipeline: what was typed there before, else what means the same in both, else its defaults."""
    old, new = CATALOGUE[session.state().pipeline], CATALOGUE[st.session_state["pipeline"]]
    drafts = st.session_state.setdefault(_DRAFTS, {})
    texts = drafts.get(new.name) or form.carried_over(old, drafts.get(old.name, {}), new)
    form.forget(new)
    session.change(pipeline=new.name, given=differing(new, texts), run="", plan="")


def _pick_target(state: ExploreState) -> Target:
    known, error = resources.targets(), None
    try:
        target = resources.find_target(state.target) if state.target else next(iter(known.values()))
    except InvalidInput as wrong:
        target, error = next(iter(known.values())), wrong
    words = distinct({name: _target_words(one) for name, one in known.items()})
    session.follow("target", target.info.name)
    st.selectbox(
        "Target", list(words), format_func=words.__getitem__, key="target", on_change=_switch_target, width=430
    )
    if error is not None:
        render_errors(error.errors, width=form.MESSAGE)
    other = st.popover("Another GPU", icon=":material/upload_file:", key="another-gpu", on_change="rerun")
    if other.open:
        with other:
            _upload()
    return target


def _switch_target() -> None:
    session.change(target=st.session_state["target"], run="", plan="")


def _target_words(target: Target) -> str:
    info = target.info
    return f"{info.gpu_name} · {fmt_bytes(info.memory_bytes)} · {source_label(info.source)}"


def _upload() -> None:
    st.markdown("Plan for a GPU that is not listed: its device properties, written on that machine by")
    st.code("python -m engine env --properties FILE", language="shell")
    st.file_uploader("Properties file (JSON)", type="json", key="properties", on_change=_take_upload)
    if wrong := st.session_state.get("properties.wrong"):
        render_errors(wrong)


def _take_upload() -> None:
    file = st.session_state["properties"]
    st.session_state["properties.wrong"] = ()
    if file is None:
        return
    try:
        target = resources.upload_target(file.getvalue())
    except InvalidInput as error:
        st.session_state["properties.wrong"] = error.errors
    else:
        session.change(target=target.info.name, run="", plan="")
