"""What the fusion page looks at: a kept comparison, or a graph of one's own, as the address and the fields say."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import streamlit as st

from app import form
from app.links import TEXT_LIMIT, differing
from app.notices import escaped
from engine.graph.pipelines import CATALOGUE
from engine.graph.spec import GraphSpec
from engine.runs.comparisons import Kept

_PAGE = "fusion"
ONLY_A_GRAPH = "none: a graph of your own"


def choose(kept: tuple[Kept, ...]) -> Kept | None:
    """The comparison that is picked, None for a graph alone. The address names it, and so does the list."""
    by_id = {one.record.id: one for one in sorted(kept, key=_order)}
    wanted = st.query_params.get("comparison", "")
    if "fusion-choice" not in st.session_state:
        bare = "pipeline" not in st.query_params
        st.session_state["fusion-choice"] = wanted if wanted in by_id else _first(by_id) if bare else ""
    elif wanted in by_id and wanted != st.session_state.get("fusion-seen"):  # A link, Back or Forward.
        st.session_state["fusion-choice"] = wanted
    elif st.session_state["fusion-choice"] not in by_id:
        st.session_state["fusion-choice"] = ""
    words = {key: one.record.label for key, one in by_id.items()}
    chosen = st.selectbox(
        "Comparison", [*by_id, ""], format_func=lambda key: words.get(key, ONLY_A_GRAPH), key="fusion-choice", width=760
    )
    if wanted and wanted not in by_id:
        st.warning(f"There is no comparison {escaped(wanted[:TEXT_LIMIT])} here.", icon=":material/link_off:")
    return by_id.get(chosen)


def _first(by_id: Mapping[str, Kept]) -> str:
    """What a bare address shows: the latest of one's own, else a recording of a pipeline as it comes."""
    own = (key for key, one in by_id.items() if not one.recorded)
    plain = (
        key
        for key, one in by_id.items()
        if (known := CATALOGUE.get(one.record.pipeline)) and not differing(known, one.record.parameters)
    )
    return next(chain(own, plain, by_id), "")


def _order(one: Kept) -> tuple[bool, str, int, float]:
    """One's own first, the latest before the others; then the recorded ones by pipeline and size."""
    when = one.record.started_at.timestamp()
    if not one.recorded:
        return False, "", 0, -when
    return True, one.record.pipeline, one.record.graph.flops(), when


def ask_graph() -> tuple[str, Mapping[str, str], GraphSpec | None]:
    """A pipeline and its sizes, and the graph they make; None while something in them is wrong, which is then said."""
    given = st.query_params.to_dict()
    if "fusion-pipeline" not in st.session_state:
        named = given.get("pipeline", "")
        st.session_state["fusion-pipeline"] = named if named in CATALOGUE else "matmul_epilogue"
    name = st.selectbox(
        "Pipeline",
        list(CATALOGUE),
        format_func=lambda n: f"{CATALOGUE[n].title} ({n})",
        key="fusion-pipeline",
        width=430,
    )
    if (named := given.get("pipeline", name)) not in CATALOGUE:
        known = ", ".join(CATALOGUE)
        st.warning(
            f"There is no pipeline {escaped(named[:TEXT_LIMIT])}. There are {known}.", icon=":material/link_off:"
        )
    chosen = CATALOGUE[name]
    linked = {letter: text[:TEXT_LIMIT] for letter, text in given.items()}
    texts = form.typed(chosen, form.read(chosen, linked).texts, page=_PAGE)
    reading = form.read(chosen, texts)
    form.render_form(chosen, texts, reading.errors, page=_PAGE)
    if reading.spec is not None and reading.parameters is not None:
        query = {"pipeline": name, **dict(differing(chosen, reading.parameters))}
        if (given and given != query) or len(query) > 1:
            st.query_params.from_dict(query)
    return name, reading.texts, reading.spec


def open_comparison(record_id: str) -> None:
    """Show it at the next run."""
    st.session_state["fusion-choice"] = record_id
    st.query_params.clear()
