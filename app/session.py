"""The Explore page's one state, between the address bar and the session.

The address bar is read when it changes by another hand (a link, Back, Forward) and written when the person changes
something here: what a bare address shows is not written over it, or Back could never leave the page.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import streamlit as st

from app.links import ExploreState, from_query, to_query
from engine.graph.errors import FieldError

_STATE, _SEEN, _TOUCHED, _PROBLEMS = "explore.state", "explore.seen", "explore.touched", "explore.problems"
_PAGE, _CLIENT, _REDRAW = "page", "client", "explore.redraw"
_ACTED, _BEFORE = "explore.acted", "explore.before"
LATE_S = 0.5
"""How long an address that has been written over may still arrive from the browser. Nobody goes back sooner."""


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
    query, known = st.query_params.to_dict(), st.session_state.get(_STATE)
    redraw = st.session_state.pop(_REDRAW, False) or came
    acted = st.session_state.pop(_ACTED, False)
    if known is not None and came and not query:
        st.session_state[_TOUCHED] = True
        return known, True
    if known is not None and (query == st.session_state[_SEEN] or acted or _is_late(query)):
        return known, redraw
    state, problems = from_query(query)
    st.session_state.update({_STATE: state, _SEEN: query, _TOUCHED: False, _PROBLEMS: problems})
    return state, True


def _is_late(query: dict[str, str]) -> bool:
    """Whether the browser sent this address before it got the one written last: somebody who types fast is no reason
    to go back. (Who *acts* is told apart by that; this is for the rest, such as opening an expander.)"""
    before, when = st.session_state.get(_BEFORE, (None, 0.0))
    return query == before and time.monotonic() - when < LATE_S


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


def act() -> None:
    """The person did something on the page that leads to this run: what the address says meanwhile is out of date."""
    st.session_state[_ACTED] = st.session_state[_TOUCHED] = True


def change(**fields: Any) -> None:
    """The person changed something: keep it; ``write`` at the end of the run puts it into the address."""
    settle(**fields)
    act()


def redraw() -> None:
    """At the next run, set the fields to the state instead of reading them."""
    st.session_state[_REDRAW] = True


def settle(**fields: Any) -> None:
    """Fill in what the person left open (a target, a run), without writing the address for that alone."""
    st.session_state[_STATE] = replace(st.session_state[_STATE], **fields)


def write() -> None:
    """Write the address, where the person changed something. Comes last in a run of the page or of its fragments."""
    st.session_state[_ACTED] = False
    query, seen = to_query(st.session_state[_STATE]), st.session_state[_SEEN]
    if st.session_state[_TOUCHED] and (query != seen or query != st.query_params.to_dict()):
        st.session_state.update({_SEEN: query, _BEFORE: (seen, time.monotonic())})
        st.query_params.from_dict(query)


def follow(key: str, value: Any) -> None:
    """Make the widget of this key show a value of the state, whoever changed it. Call before drawing the widget.

    Said every time, not only where it differs: a browser that has drawn a control anew shows nothing of its own accord.
    """
    st.session_state[key] = value
