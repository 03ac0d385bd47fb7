"""Which kept comparison the fusion page looks at."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import streamlit as st

from app.links import differing
from app.own_graph import pick_kept
from engine.graph.pipelines import CATALOGUE
from engine.runs.comparisons import Kept


def choose(kept: tuple[Kept, ...]) -> Kept | None:
    """The comparison that is picked, None for a graph alone. The address names it, and so does the list."""
    by_id = _by_id(kept)
    words = {key: one.record.label for key, one in by_id.items()}
    return by_id.get(pick_kept("fusion", "comparison", words, _first(by_id)))


def presented(kept: tuple[Kept, ...]) -> Kept | None:
    """The comparison that the address names, else what a bare one shows; None where it names no such."""
    by_id = _by_id(kept)
    return by_id.get(st.query_params.get("comparison", _first(by_id)))


def _by_id(kept: tuple[Kept, ...]) -> dict[str, Kept]:
    return {one.record.id: one for one in sorted(kept, key=_order)}


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
