"""The demands on a winner, set before it is chosen: a workspace limit, deterministic only, capturable only."""

from __future__ import annotations

import streamlit as st

from app import demands, session
from app.notices import render_errors
from engine.graph.errors import FieldError, InvalidInput
from engine.records.constraints import Constraints

_LIMIT, _ONLY = "demand-workspace", "demand-only"
_WRONG = "demand.wrong"
_DETERMINISTIC, _CAPTURABLE = "deterministic", "capturable"


def render_demands(now: Constraints) -> None:
    """Draw the controls, set to what holds now; what each costs stands among the findings."""
    wrong: tuple[FieldError, ...] = st.session_state.get(_WRONG, ())
    if not wrong:  # what was typed wrong stays to be mended
        session.follow(_LIMIT, demands.limit_text(now.workspace_limit_bytes))
    held = {_DETERMINISTIC: now.deterministic_only, _CAPTURABLE: now.capturable_only}
    session.follow(_ONLY, [name for name, is_set in held.items() if is_set])
    with st.container(horizontal=True, vertical_alignment="top"):
        st.text_input(
            "Constraint: workspace of at most",
            key=_LIMIT,
            placeholder="no limit",
            max_chars=20,
            autocomplete="off",
            width=230,
            on_change=_changed,
        )
        st.segmented_control(
            "Constraint: only plans that are",
            list(held),
            selection_mode="multi",
            key=_ONLY,
            on_change=_changed,
            width="content",
        )
        render_errors(wrong, width="content")


def _changed() -> None:
    st.session_state[_WRONG] = ()
    try:
        limit = demands.read_limit(str(st.session_state.get(_LIMIT) or ""))
    except InvalidInput as error:
        st.session_state[_WRONG] = error.errors
        session.act()
        return
    only = st.session_state.get(_ONLY) or ()
    wanted = Constraints(limit, _DETERMINISTIC in only, _CAPTURABLE in only)
    session.change(demands=demands.written(wanted), plan="")
