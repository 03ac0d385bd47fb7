"""What the pages add to Streamlit's own look: page.css, sent first on every page."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_component = st.components.v2.component(
    "planscope.look",
    css=(Path(__file__).parent / "page.css").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def render_look() -> None:
    """Send the style sheet.

    As a component, which ``st.html`` would do as well but for the time: coming first, it makes the browser fetch what
    every chart, graph and table runs on before what a dozen other elements do, so the first chart is drawn sooner.
    """
    _component(key="look", height=1)
