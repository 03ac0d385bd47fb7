"""Fusion: what one fused kernel gains over a kernel per operation, where it comes from, and where there is nothing to
gain."""

from __future__ import annotations

import streamlit as st

from app import comparing, fusion_inputs, job_view, session
from app import fusion_view as view
from app.fusion_html import saved_html
from app.fusion_words import provenance_of
from app.notices import escaped
from app.own_graph import Wish, ask_graph
from app.resources import comparisons

session.enter("fusion")
comparing.open_finished()
found = comparisons()
listed = found.listed()

if view.presenting():
    shown = fusion_inputs.presented(listed)
    if shown is not None:
        view.render_presented(shown)
        st.stop()
    view.stop_presenting()  # The page says that there is no such comparison.

for name, problem in found.problems.items():
    st.warning(f"The comparison {escaped(name)} is left out: {escaped(problem)}", icon=":material/broken_image:")
chosen = fusion_inputs.choose(listed) if listed else None
if chosen is None:
    wish = ask_graph("fusion")
    if wish is not None:
        known = view.render_offer(listed, wish)
        view.render_graph_alone(wish.spec)
        if not known:
            view.render_how_to(wish)
    st.stop()

record, origin = chosen.record, provenance_of(chosen.record, chosen.recorded)
with st.container(horizontal=True, vertical_alignment="center"):
    st.badge(origin.label, icon=origin.icon, color=origin.colour)
    st.button("Present", icon=":material/slideshow:", on_click=view.start_presenting, key="fusion-present")
    st.download_button(
        "Save as HTML",
        data=lambda: saved_html(record, chosen.recorded),
        file_name=f"fusion-{record.pipeline}-{record.id[:8]}.html",
        mime="text/html",
        on_click="ignore",
        icon=":material/download:",
    )
if comparing.gpus():
    comparing.render_controls(Wish(record.pipeline, record.parameters, record.graph))
    job_view.render_running("fusion", record.graph.graph_id)
view.render_sentences(record)
for slide in view.slides(chosen):
    st.subheader(slide.title)
    slide.render()
    if slide.details is not None:
        slide.details()
view.render_method(record)
