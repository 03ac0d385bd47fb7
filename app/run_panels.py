"""The Runs page's controls: filters, what can be done with the chosen run, and import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from app import resources
from app.links import to_query
from app.notices import escaped, render_errors
from app.run_list import ORIGIN_WORDS, Filter, choices, explore_state
from engine.graph.errors import FieldError, InvalidInput
from engine.runs.store import StoreError
from engine.runs.summary import Origin, RunSummary

EXPLORE = Path(__file__).resolve().parents[1] / "pages" / "explore.py"
_CHOSEN, _WRONG, _DONE, _IMPORTED = "runs.chosen", "runs.wrong", "runs.done", "runs.imported"
_NO_FILTER = {"runs-pipeline": "", "runs-gpu": "", "runs-origin": "all"}


def render_filters(runs: Sequence[RunSummary]) -> Filter:
    """Draw the filters; a choice that no run has any more is no choice."""
    pipelines, gpus = choices(runs)
    _show_chosen(runs)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        pipeline = st.selectbox("Pipeline", ["", *pipelines], format_func=_or_all, key="runs-pipeline", width=220)
        gpu = st.selectbox("GPU", ["", *gpus], format_func=_or_all, key="runs-gpu", width=260)
        words = ["all", *ORIGIN_WORDS.values()]
        word = st.segmented_control("Origin", words, default="all", required=True, key="runs-origin")
    return _filter(pipeline, gpu, word)


def _filter(pipeline: str | None, gpu: str | None, word: str | None) -> Filter:
    origin = next((origin for origin, text in ORIGIN_WORDS.items() if text == word), None)
    return Filter(pipeline or "", gpu or "", origin)


def _show_chosen(runs: Sequence[RunSummary]) -> None:
    """Widen filters that would hide a run that was just imported: it is said to be in the list."""
    run = next((run for run in runs if run.id == st.session_state.get(_CHOSEN)), None)
    imported = st.session_state.pop(_IMPORTED, False)
    if imported and run and not _filter(*(st.session_state.get(key) for key in _NO_FILTER)).keeps(run):
        st.session_state.update(_NO_FILTER)


def _or_all(value: str) -> str:
    return value or "all"


def chosen_id(runs: Sequence[RunSummary]) -> str:
    """The run that is chosen, among those listed: the first one until somebody picks another."""
    chosen = st.session_state.get(_CHOSEN, "")
    return chosen if any(run.id == chosen for run in runs) else runs[0].id


def choose(run_id: str) -> None:
    """Choose a run; what was said about the last one is over."""
    st.session_state[_CHOSEN] = run_id
    st.session_state[_WRONG], st.session_state[_DONE] = (), ""


def render_messages() -> None:
    """What the last action came to."""
    render_errors(st.session_state.get(_WRONG, ()))
    if done := st.session_state.get(_DONE):
        st.success(escaped(done), icon=":material/check:")


def render_actions(run: RunSummary) -> None:
    """Open, export, rename and delete the chosen run; a recording cannot be changed."""
    library = resources.resources().library
    own = run.origin is not Origin.RECORDING
    with st.container(horizontal=True, vertical_alignment="center"):
        _open_link(run)
        st.download_button(
            "Export",
            data=lambda: library.export(run.id),
            file_name=f"{run.pipeline}-{run.id[:8]}.zip",
            mime="application/zip",
            icon=":material/download:",
            on_click="ignore",
            key="export",
        )
        if own:
            # Named after the run: panels of one run must not stay open over the next, where a second click would land.
            with st.popover("Rename", icon=":material/edit:", key=f"renaming-{run.id}"):
                st.text_input("Title", run.title, key=f"title-{run.id}", max_chars=200)
                st.button("Save", key=f"rename-{run.id}", on_click=_rename, args=(run.id,))
            with st.popover("Delete", icon=":material/delete:", key=f"deleting-{run.id}"):
                st.markdown(
                    "This removes the run, and the serialized plans that no other run needs. Export it to keep it."
                )
                st.button("Delete this run", key=f"delete-{run.id}", type="primary", on_click=_delete, args=(run.id,))
        else:
            st.caption("A recording shipped with Planscope: it stays as it is.")


def _open_link(run: RunSummary) -> None:
    state = explore_state(run)
    if state is None:
        st.caption("Its pipeline or parameters are not of this version of Planscope: it can be exported only.")
        return
    st.page_link(EXPLORE, label="Open in Explore", icon=":material/open_in_full:", query_params=to_query(state))


def _rename(run_id: str) -> None:
    title = str(st.session_state.get(f"title-{run_id}") or "")
    _act(lambda: resources.resources().library.rename(run_id, title), "The title is saved.")


def _delete(run_id: str) -> None:
    _act(lambda: resources.resources().library.delete(run_id), "The run is deleted.")


def _act(work: Callable[[], object], done: str) -> None:
    """Do it; what it came to is what ``work`` says, else ``done``."""
    errors: tuple[FieldError, ...] = ()
    said: object = None
    try:
        said = work()
    except InvalidInput as error:
        errors = error.errors
    except StoreError as error:
        errors = (FieldError("", "", str(error), ""),)
    st.session_state[_WRONG], st.session_state[_DONE] = errors, "" if errors else said or done


def render_import() -> None:
    """A run file from anywhere, checked before anything of it is kept."""
    panel = st.expander("Import a run file", key="import", on_change="rerun", icon=":material/upload_file:")
    if panel.open:
        with panel:
            st.file_uploader("Run file (zip)", type="zip", key="run-file", on_change=_import)
            st.caption("As Export writes it, or `python -m engine sweep --out FILE`. Nothing in it is executed.")


def _import() -> None:
    file = st.session_state.get("run-file")
    if file is None:
        return

    def take() -> str:
        imported = resources.resources().library.import_run(file.getvalue())
        st.session_state.update({_CHOSEN: imported.id, _IMPORTED: True})
        return "This run is here already; it is chosen in the list." if imported.already else ""

    _act(take, "The run is imported, and chosen in the list.")
