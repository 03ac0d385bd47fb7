"""The demands on a winner, set before it is chosen: a workspace limit, deterministic only, capturable only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from app import demands, session
from app.form_view import Field, followed, following, prepared, render_fields
from engine.graph.errors import FieldError, InvalidInput
from engine.records.constraints import Constraints

_KEY, _WRONG, _HELD = "demands", "demand.wrong", "demand.held"
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


@dataclass(frozen=True)
class _Wrong:
    """A limit that is none: why, all that stood in the fields then, and what holds meanwhile."""

    errors: tuple[FieldError, ...]
    told: dict[str, str]
    held: Constraints


def render_demands(now: Constraints) -> None:
    """Draw the controls, set to what holds now; what each costs stands among the findings."""
    st.session_state[_HELD] = now
    wrong: _Wrong | None = st.session_state.get(_WRONG)
    if wrong is not None and (followed(_KEY) != wrong.told or now != wrong.held):
        wrong = st.session_state[_WRONG] = None  # the fields were drawn anew, or another run or link came
    held = {_DETERMINISTIC: now.deterministic_only, _CAPTURABLE: now.capturable_only}
    texts = {
        "workspace": demands.limit_text(now.workspace_limit_bytes),
        "only": ",".join(name for name, is_set in held.items() if is_set),
    }
    if wrong is not None:  # what was typed wrong stays to be mended
        texts = wrong.told
    render_fields(
        _FIELDS,
        key=_KEY,
        edition=following(_KEY, texts),
        texts=texts,
        messages={"workspace": " ".join(map(str, wrong.errors))} if wrong is not None else {},
        on_change=_changed,
    )


def _changed() -> None:
    """Keep what was demanded; beside a limit that is none, the rest is kept all the same."""
    told = followed(_KEY)
    held: Constraints | None = st.session_state.get(_HELD)
    if not told or held is None:
        return
    only = told["only"].split(",")
    wanted = replace(held, deterministic_only=_DETERMINISTIC in only, capturable_only=_CAPTURABLE in only)
    try:
        wanted = replace(wanted, workspace_limit_bytes=demands.read_limit(told["workspace"]))
        st.session_state[_WRONG] = None
    except InvalidInput as error:
        st.session_state[_WRONG] = _Wrong(error.errors, told, wanted)
    if wanted != held:
        session.change(demands=demands.written(wanted), plan="")
    else:
        session.act()
