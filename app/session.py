"""The Explore page's one state, between the address bar and the session.

The address bar is read when it changes by another hand (a link, Back, Forward) and written when the person changes
something here: what a bare address shows is not written over it, or Back could never leave the page.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import streamlit as st

from app.links import ExploreState, from_query, to_query
from engine.graph.errors import FieldError

_STATE, _SEEN, _TOUCHED, _PROBLEMS = "explore.state", "explore.seen", "explore.touched", "explore.problems"
_PAGE, _CLIENT, _REDRAW = "page", "client", "explore.redraw"


def enter(page: str) -> bool:
    """Note which page runs; whether the person comes from another one."""
    came = st.session_state.get(_PAGE) != page
    st.session_state[_PAGE] = page
    return came


def client() -> str:
    """A name for this browser session, by which the job manager knows who asks."""
    if _CLIENT not in st.session_state:
        st.session_state[_CLIENT] = uuid4().hex
    return str(st.session_state[_CLIENT])


def load(came: bool) -> tuple[ExploreState, bool]:
    """The state, and whether it was read anew from the address bar (then nothing drawn before counts).

    ``came``: from another page. Its navigation leaves the address bare; that is no wish to start over.
    """
    query = st.query_params.to_dict()
    came = st.session_state.pop(_REDRAW, False) or came
    if came and not query and _STATE in st.session_state:
        st.session_state[_TOUCHED] = True
        return st.session_state[_STATE], True
    if _STATE in st.session_state and query == st.session_state[_SEEN]:
        return st.session_state[_STATE], came
    state, problems = from_query(query)
    st.session_state.update({_STATE: state, _SEEN: query, _TOUCHED: False, _PROBLEMS: problems})
    return state, True


def problems() -> tuple[FieldError, ...]:
    """What of the address could not be used; gone as soon as the person changes something."""
    return () if st.session_state.get(_TOUCHED) else st.session_state.get(_PROBLEMS, ())


def complain(error: FieldError) -> None:
    """One thing more that could not be used."""
    st.session_state[_PROBLEMS] = (*st.session_state.get(_PROBLEMS, ()), error)


def bare() -> bool:
    """Whether the address names no pipeline."""
    return "pipeline" not in st.session_state.get(_SEEN, {})


def state() -> ExploreState:
    """The state as it is now."""
    return st.session_state[_STATE]


def change(**fields: Any) -> None:
    """The person changed something: keep it; ``write`` at the end of the run puts it into the address."""
    settle(**fields)
    st.session_state[_TOUCHED] = True


def redraw() -> None:
    """At the next run, set the fields to the state instead of reading them."""
    st.session_state[_REDRAW] = True


def settle(**fields: Any) -> None:
    """Fill in what the person left open (a target, a run), without writing the address for that alone."""
    st.session_state[_STATE] = replace(st.session_state[_STATE], **fields)


def write() -> None:
    """Write the address, where the person changed something."""
    query = to_query(st.session_state[_STATE])
    if st.session_state[_TOUCHED] and query != st.session_state[_SEEN]:
        st.session_state[_SEEN] = query
        st.query_params.from_dict(query)


def follow(key: str, value: Any) -> None:
    """Make the widget of this key show a value of the state, whoever changed it. Call before drawing the widget."""
    if st.session_state.get(key) != value:
        st.session_state[key] = value
