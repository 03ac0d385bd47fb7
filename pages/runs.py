"""Runs: every run of this store and every recording."""

from __future__ import annotations

import streamlit as st

from app import session

session.enter("runs")
st.write("runs")
