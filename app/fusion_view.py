"""The fusion page's parts: the drawings, the charts, the sentences, and presenting them one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

import streamlit as st

from app import comparing, job_view
from app.chart_view import prepared, render_chart
from app.fusion_charts import charts
from app.fusion_html import drawings_html, pair_html
from app.fusion_tables import environment_table, launches_table, versions_table
from app.fusion_words import METHOD, bytes_sentence, provenance_of, refusal_lines
from app.graph_nodes import cleaned
from app.notices import escaped
from app.own_graph import Wish, open_kept
from app.table_view import Table, render_table
from engine.graph.cost import cost
from engine.graph.cutting import cut
from engine.graph.spec import GraphSpec
from engine.records.fusion import FusionRecord
from engine.records.fusion_caveats import caveats
from engine.records.fusion_sentences import sentences
from engine.runs.comparisons import Kept

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "planscope.fusion",
    html='<div class="root"></div>',
    css=(_HERE / "fusion_view.css").read_text(encoding="utf-8"),
    js=(_HERE / "fusion_view.js").read_text(encoding="utf-8"),
)
PRESENT_CSS = """<style>
:root { --drawing-height: 44vh; }
[data-testid="stHeader"], [data-testid="stToolbar"] { display: none; }
[data-testid="stMainBlockContainer"] { max-width: none; padding: 1.2rem 2rem 0; zoom: var(--slide-zoom, 1.2); }
</style>"""


@dataclass(frozen=True)
class Slide:
    """One thing to look at. ``details``: what stands below it where nobody presents."""

    title: str
    render: Callable[[], None]
    details: Callable[[], None] | None = None


# -- What is shown


def render_graph_alone(spec: GraphSpec) -> None:
    """Before and after, of a graph that was not measured."""
    st.markdown(escaped(bytes_sentence(cost(cut(spec)))))
    _component(data={"html": drawings_html(spec), "listens": False}, key="fusion-pair")


def render_offer(kept: tuple[Kept, ...], wish: Wish) -> bool:
    """The Compare button with what it has going on, and the way to a comparison of this very graph. Says whether there
    is one, now or soon."""
    comparing.render_controls(wish)
    running = job_view.render_running("fusion", wish.spec.graph_id)
    same = [one for one in kept if one.record.graph.graph_id == wish.spec.graph_id]
    if same:
        own_first = min(same, key=lambda one: one.recorded)
        st.button(
            "Open the comparison of this graph",
            on_click=open_kept,
            args=("fusion", own_first.record.id),
            key="fusion-open",
        )
    return running or bool(same)


def render_how_to(wish: Wish) -> None:
    """What will stand here once somebody has measured, and what to type for it elsewhere."""
    st.info(
        "Nothing was measured for this graph here. A comparison shows where the time goes from torch eager to one "
        "fused kernel, what each operation of the epilogue costs, and how near the roofline it comes; and it "
        "says first where fusing loses. To make one: the button above, or on a machine with a GPU",
        icon=":material/speed:",
    )
    st.code(f"python -m engine fusion {wish.arguments}", language="shell")


def slides(kept: Kept) -> tuple[Slide, ...]:
    """Everything that there is to look at, in order."""
    record = kept.record
    found = [Slide("What is fused", lambda: _render_pair(record))]
    for chart in charts(record):
        drawn = prepared(chart.figure, chart.caption)
        key = f"fusion-{chart.title}"
        render = partial(render_chart, drawn, key=key)
        found.append(Slide(chart.title, render, partial(_render_details, chart.table, key) if chart.table else None))
    if record.versions:
        found.append(Slide("Every version", lambda: _render_versions(record)))
    return tuple(found)


def render_sentences(record: FusionRecord) -> None:
    """What may be said, losses and ties first."""
    first, *others = sentences(record) or ("This comparison was planned, not measured.",)
    st.markdown(f"#### {escaped(first)}")
    for text in others:
        st.markdown(escaped(text))


def render_method(record: FusionRecord) -> None:
    """How the numbers were taken, folded away."""
    with st.expander("How it was measured", icon=":material/straighten:"):
        for text in (*METHOD, *refusal_lines(record.pieces)):
            st.markdown(escaped(text))
        render_table(environment_table(record).prepared(), key="fusion-environment")
    with st.expander("What the profiler counted", icon=":material/format_list_numbered:"):
        render_table(launches_table(record).prepared(), key="fusion-launches")


def _render_pair(record: FusionRecord) -> None:
    st.markdown(escaped(bytes_sentence(cost(cut(record.graph)))))
    _component(data={"html": pair_html(record), "listens": False}, key="fusion-pair")


def _render_details(table: Table, key: str) -> None:
    with st.expander("As a table", icon=":material/table_rows:"):
        render_table(table.prepared(), key=f"{key}-table")


def _render_versions(record: FusionRecord) -> None:
    render_table(versions_table(record).prepared(), key="fusion-versions")
    for text in caveats(record):
        st.markdown(f"- {escaped(text)}")


# -- Presenting


def presenting() -> bool:
    """Whether one figure at a time is shown."""
    return st.query_params.get("present") == "1"


def render_presented(kept: Kept) -> None:
    """One slide, large, with nothing around it but what was measured where; arrow keys turn the page, Escape ends
    it."""
    shown, record = slides(kept), kept.record
    at = _slide_number(len(shown))
    place = f"{at + 1} / {len(shown)} · {record.what} · {provenance_of(record, kept.recorded).label}"

    def turn() -> None:
        state = st.session_state.get("fusion-keys") or {}
        goal = state.get("turn")
        if isinstance(goal, int):
            st.query_params["slide"] = str(min(max(goal, 0), len(shown) - 1) + 1)
        else:
            stop_presenting()

    st.html(PRESENT_CSS)
    st.markdown(f"### {escaped(shown[at].title)}")
    if at == 0 and (said := sentences(record)):
        st.markdown(escaped(said[0]))
    shown[at].render()
    _component(
        data={"html": f"<p>{escape(cleaned(place))}</p>", "listens": True, "at": at, "last": len(shown) - 1},
        key="fusion-keys",
        on_turn_change=turn,
    )


def start_presenting() -> None:
    """From the first slide."""
    st.query_params.update({"present": "1", "slide": "1"})


def stop_presenting() -> None:
    """Back to the page."""
    for name in ("present", "slide"):
        st.query_params.pop(name, None)


def _slide_number(count: int) -> int:
    text = st.query_params.get("slide", "1")
    return min(max(int(text) - 1, 0), count - 1) if text.isascii() and text.isdigit() and len(text) < 4 else 0
