"""Entry point of the dashboard: ``streamlit run app/main.py``."""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parents[1]
# Streamlit puts only this file's folder on the path; everything is imported from the repository's root.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from app.look import render_look  # noqa: E402 - not to be found before the line above
from engine.runs.store import StoreError  # noqa: E402


def pages() -> list[st.Page]:
    """Every page, in the order of the navigation."""
    listed = [
        ("fusion", "Fusion", ":material/merge:"),
        ("reuse", "Reuse", ":material/recycling:"),
        ("runs", "Runs", ":material/history:"),
    ]
    if (ROOT / "pages" / "system.py").exists():
        listed.append(("system", "System", ":material/memory:"))
    explore = ROOT / "pages" / "explore.py"
    return [
        st.Page(explore, title="Explore", icon=":material/schema:", url_path="start", default=True),
        *(
            st.Page(ROOT / "pages" / f"{name}.py", title=title, icon=icon, url_path=name)
            for name, title, icon in listed
        ),
        # The default page answers the bare address only, whatever its own path; people type /explore.
        st.Page(explore, title="Explore", url_path="explore", visibility="hidden"),
    ]


st.set_page_config(page_title="Planscope", page_icon=str(ROOT / "app" / "icon.svg"), layout="wide")
render_look()
try:
    st.navigation(pages(), position="top").run()
except StoreError as error:  # locked by another process, full, damaged: its message is for people
    st.error(str(error), icon=":material/database_off:")
