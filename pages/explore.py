"""Explore: from a pipeline and shapes to every execution plan, how fast each is, and the best one as a file."""

from __future__ import annotations

import streamlit as st

from app import inputs, session, work
from app.graph_view import render_graph, render_graph_table, render_node_details
from app.notices import render_errors
from app.results import render_headline, render_results

came = session.enter("explore")
state, fresh = session.load(came)
state = work.settle_link(state, fresh)
render_errors(session.problems())

asked = inputs.ask(state, fresh)
drawing, details = st.columns([0.72, 0.28], gap="medium")
with drawing:
    node = render_graph(asked.spec)
with details:
    render_node_details(asked.spec, node)

shown, origin = work.render_source(asked)
if shown is not None:
    render_headline(shown, origin)
    render_results(shown)
render_graph_table(asked.spec)
work.render_here(asked, shown)
session.write()
