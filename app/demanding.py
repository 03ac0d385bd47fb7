"""The demands on a winner, set before it is chosen: a workspace limit, deterministic only, capturable only."""

from __future__ import annotations

import streamlit as st

from app import demands, session
from app.form_view import Field, followed, following, prepared, render_fields
from engine.graph.errors import FieldError, InvalidInput
from engine.records.constraints import Constraints

_KEY, _WRONG = "demands", "demand.wrong"
_DETERMINISTIC, _CAPTURABLE = "deterministic", "capturable"
_FIELDS = prepared(
    [
        Field("workspace", "Constraint: workspace of at most", "text", empty="no limit", width=230, live=False),
        Field(
            "only",
            "Constraint: only plans that are",
            "several",
            tuple((name, name) for name in (_DETERMINISTIC, _CAPTURABLE)),
        ),
    ],
    limit=20,
)


def render_demands(now: Constraints) -> None:
    """Draw the controls, set to what holds now; what each costs stands among the findings."""
    wrong: tuple[FieldError, ...] = st.session_state.get(_WRONG, ())
    held = {_DETERMINISTIC: now.deterministic_only, _CAPTURABLE: now.capturable_only}
    texts = {
        "workspace": demands.limit_text(now.workspace_limit_bytes),
        "only": ",".join(name for name, is_set in held.items() if is_set),
    }
    if wrong:  # what was typed wrong stays to be mended
        texts = followed(_KEY) or texts
    render_fields(
        _FIELDS,
        key=_KEY,
        edition=following(_KEY, texts),
        texts=texts,
        messages={"workspace": " ".join(map(str, wrong))} if wrong else {},
        on_change=_changed,
    )


def _changed() -> None:
    told = followed(_KEY)
    if not told:
        return
    st.session_state[_WRONG] = ()
    try:
        limit = demands.read_limit(told["workspace"])
    except InvalidInput as error:
        st.session_state[_WRONG] = error.errors
        session.act()
        return
    only = told["only"].split(",")
    wanted = Constraints(limit, _DETERMINISTIC in only, _CAPTURABLE in only)
    session.change(demands=demands.written(wanted), plan="")
