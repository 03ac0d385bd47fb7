"""The Study button: what a study of a graph of one's own is asked, and how long one may take."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import streamlit as st

from app import job_view, resources
from app.notices import escaped, render_errors
from app.own_graph import Wish, open_kept
from app.theme import source_label
from engine.graph.errors import FieldError, InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.jobs.request import MOST_REPEATS, Study, graphs_of_sizes, study_request
from engine.plans.targets import Target
from engine.records.options import SweepOptions
from engine.runs.summary import Origin

_WRONG, _ENDED = "study.wrong", "study.ended"
_SIZES = "8, 16, 24, 32, 48"
_WIDTH = 300


@dataclass(frozen=True)
class _Fields:
    """What stands beside the graph; ``letter`` is "" for one size alone."""

    target: str
    letter: str
    sizes: str
    repeats: int


def render_controls(wish: Wish) -> None:
    """The fields, the button with about how long it takes, and the reason where it is off."""
    here, problem = resources.targets(), resources.resources().problem
    fields = _ask(wish, here)
    errors = _wrong(wish, fields)
    render_errors(errors or st.session_state.get(_WRONG, ()))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Study",
            type="primary",
            icon=":material/recycling:",
            key="study",
            disabled=bool(problem or errors),
            on_click=_start,
            args=(wish, fields),
        )
        st.html(f'<span class="ps-faint">{escape(problem or _expected(wish))}</span>', width="content")
    if ended := st.session_state.get(_ENDED):
        st.warning(escaped(ended), icon=":material/error:")
    if not here[fields.target].is_local:
        st.caption("Without a GPU everything is built and loaded for the target, and nothing executed.")
    if not errors:
        st.code(_command(wish, fields), language="shell")


def open_finished() -> None:
    """Show a study that was started here and has ended meanwhile; where it brought nothing, keep why to be said. Call
    it before the widgets are drawn."""
    for job in job_view.finished("reuse"):
        if job.run_id:
            open_kept("reuse", job.run_id)
        else:
            st.session_state[_ENDED] = job_view.end_words(job)


def _ask(wish: Wish, here: dict[str, Target]) -> _Fields:
    letters = [field.letter for field in CATALOGUE[wish.pipeline].fields() if field.kind == "int"]
    with st.container(horizontal=True, vertical_alignment="top"):
        target = st.selectbox(
            "Target",
            list(here),
            format_func=lambda name: f"{here[name].info.gpu_name} · {source_label(here[name].info.source)}",
            key="study-target",
            width=_WIDTH,
        )
        letter = st.selectbox(
            "Many sizes of",
            [*letters, ""],
            format_func=lambda one: one or "nothing: this shape alone",
            key=f"study-letter-{wish.pipeline}",
            width=200,
        )
        sizes = st.text_input("Sizes", _SIZES, key="study-sizes", disabled=not letter, width=200)
        repeats = st.number_input(
            "Repeats", 1, MOST_REPEATS, 3, key="study-repeats", help="Fresh processes for every number", width=130
        )
    return _Fields(target, letter, sizes, int(repeats))


def _wrong(wish: Wish, fields: _Fields) -> tuple[FieldError, ...]:
    try:
        _study(wish, fields)
    except InvalidInput as error:
        return error.errors
    return ()


def _study(wish: Wish, fields: _Fields) -> Study:
    """Raises InvalidInput."""
    pipeline = CATALOGUE[wish.pipeline]
    shapes = graphs_of_sizes(pipeline, wish.parameters, fields.letter, fields.sizes) if fields.letter else {}
    return Study(
        pipeline=wish.pipeline,
        parameters=wish.parameters,
        graph=wish.spec,
        target=resources.find_target(fields.target),
        options=SweepOptions(),
        repeats=fields.repeats,
        letter=fields.letter,
        shapes=shapes,
    )


def _expected(wish: Wish) -> str:
    """How long the latest study of this pipeline took, one's own before a recorded one: it is no estimate for another
    machine, so it says which."""
    studies = [run for run in resources.resources().library.summaries() if run.reuse and run.pipeline == wish.pipeline]
    latest = max(studies, key=lambda run: (run.origin is Origin.OWN, run.started_at), default=None)
    if latest is None or latest.finished_at is None:
        return "Takes minutes; how many it says once the plans are built."
    seconds = round((latest.finished_at - latest.started_at).total_seconds())
    where = f"on {latest.gpu}" if latest.gpu else f"for {latest.target} without a GPU"
    return f"The latest study of {wish.pipeline}, {where}, took {seconds} s; an estimate follows once plans are built."


def _start(wish: Wish, fields: _Fields) -> None:
    manager = resources.resources().manager
    errors: tuple[FieldError, ...] = ()
    st.session_state.pop(_ENDED, None)
    try:
        if manager is not None:
            job_view.submit(manager, study_request(_study(wish, fields), manager.gpus()))
    except InvalidInput as error:
        errors = error.errors
    st.session_state[_WRONG] = errors


def _command(wish: Wish, fields: _Fields) -> str:
    sizes = f" --sizes {fields.letter}={fields.sizes.replace(' ', '')}" if fields.letter else ""
    repeats = f" --repeats {fields.repeats}" if fields.repeats != 3 else ""
    return f"python -m engine reuse {wish.arguments} --target {fields.target}{sizes}{repeats}"
