"""What a page looks at: something that was measured and kept, or a graph of one's own, as the address and the fields
say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from app import form
from app.links import TEXT_LIMIT, differing
from app.notices import escaped
from engine.graph.pipelines import CATALOGUE
from engine.graph.spec import GraphSpec

ONLY_A_GRAPH = "none: a graph of your own"


@dataclass(frozen=True)
class Wish:
    """A graph to measure, with the pipeline and the parameters that make it."""

    pipeline: str
    parameters: Mapping[str, str]
    spec: GraphSpec

    @property
    def arguments(self) -> str:
        """What names it on a command line."""
        given = (f"-p {letter}={text}" for letter, text in differing(CATALOGUE[self.pipeline], self.parameters))
        return " ".join((self.pipeline, *given))


def pick_kept(page: str, what: str, words: Mapping[str, str], first: str) -> str:
    """The id that is picked of those in ``words``, "" for a graph alone. The address names it as ``what``, and so does
    the list; ``first`` is what a bare address shows."""
    key, seen = f"{page}-choice", f"{page}-seen"
    wanted = st.query_params.get(what, "")
    if key not in st.session_state:
        bare = "pipeline" not in st.query_params
        st.session_state[key] = wanted if wanted in words else first if bare else ""
    elif wanted in words and wanted != st.session_state.get(seen):  # A link, Back or Forward.
        st.session_state[key] = wanted
    elif st.session_state[key] not in words:
        st.session_state[key] = ""
    chosen = st.selectbox(
        what.capitalize(), [*words, ""], format_func=lambda one: words.get(one, ONLY_A_GRAPH), key=key, width=760
    )
    if wanted and wanted not in words:
        st.warning(f"There is no {what} {escaped(wanted[:TEXT_LIMIT])} here.", icon=":material/link_off:")
    if chosen:
        st.query_params[what] = st.session_state[seen] = chosen
    return chosen


def open_kept(page: str, kept_id: str) -> None:
    """Show it at the next run."""
    st.session_state[f"{page}-choice"] = kept_id
    st.query_params.clear()


def ask_graph(page: str) -> Wish | None:
    """A pipeline and its sizes; None while something in them is wrong, which is then said. The address follows them.
    ``page`` keeps the fields of several pages apart."""
    given, key = st.query_params.to_dict(), f"{page}-pipeline"
    if key not in st.session_state:
        named = given.get("pipeline", "")
        st.session_state[key] = named if named in CATALOGUE else "matmul_epilogue"
    name = st.selectbox(
        "Pipeline",
        list(CATALOGUE),
        format_func=lambda n: f"{CATALOGUE[n].title} ({n})",
        key=key,
        width=430,
    )
    if (named := given.get("pipeline", name)) not in CATALOGUE:
        known = ", ".join(CATALOGUE)
        st.warning(
            f"There is no pipeline {escaped(named[:TEXT_LIMIT])}. There are {known}.", icon=":material/link_off:"
        )
    chosen = CATALOGUE[name]
    linked = {letter: text[:TEXT_LIMIT] for letter, text in given.items()}
    texts = form.typed(chosen, form.read(chosen, linked).texts, page=page)
    reading = form.read(chosen, texts)
    form.render_form(chosen, texts, reading.errors, page=page)
    if reading.spec is not None and reading.parameters is not None:
        query = {"pipeline": name, **dict(differing(chosen, reading.parameters))}
        if (given and given != query) or len(query) > 1:
            st.query_params.from_dict(query)
    return Wish(name, reading.texts, reading.spec) if reading.spec is not None else None
