"""The demands on a winner, set before it is chosen: a workspace limit, deterministic only, capturable only."""

from __future__ import annotations

import streamlit as st

from app import demands, session
from app.notices import render_errors
from engine.graph.errors import FieldError, InvalidInput
from engine.records.constraints import Constraints

_LIMIT, _DETERMINISTIC, _CAPTURABLE = "demand-workspace", "demand-deterministic", "demand-capturable"
_WRONG = "demand.wrong"


def render_demands(now: Constraints) -> None:
    """Draw the controls, set to what holds now; what each costs stands among the findings."""
    wrong: tuple[FieldError, ...] = st.session_state.get(_WRONG, ())
    if not wrong:  # what was typed wrong stays to be mended
        session.follow(_LIMIT, demands.limit_text(now.workspace_limit_bytes))
    session.follow(_DETERMINISTIC, now.deterministic_only)
    session.follow(_CAPTURABLE, now.capturable_only)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.html("<b>Constraints</b>", width="content")
        st.text_input(
            "Workspace of at most",
            key=_LIMIT,
            placeholder="workspace: no limit",
            label_visibility="collapsed",
            max_chars=20,
            autocomplete="off",
            width=170,
            on_change=_changed,
            help="The most workspace in bytes, KiB, MiB, GiB or TiB; 0 for none",
        )
        st.toggle(
            "deterministic only",
            key=_DETERMINISTIC,
            on_change=_changed,
            help="Leaves out plans that cuDNN notes as nondeterministic, and those whose repeated runs differed",
        )
        st.toggle(
            "capturable only",
            key=_CAPTURABLE,
            on_change=_changed,
            help="Leaves out plans whose execution cannot be captured into a CUDA graph",
        )
        render_errors(wrong, width="content")


def _changed() -> None:
    limit = None
    st.session_state[_WRONG] = ()
    try:
        limit = demands.read_limit(str(st.session_state.get(_LIMIT) or ""))
    except InvalidInput as error:
        st.session_state[_WRONG] = error.errors
        session.act()
        return
    wanted = Constraints(limit, bool(st.session_state.get(_DETERMINISTIC)), bool(st.session_state.get(_CAPTURABLE)))
    session.change(demands=demands.written(wanted), plan="")
