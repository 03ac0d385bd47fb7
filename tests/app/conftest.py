"""A data folder of its own for every test that opens pages."""

from __future__ import annotations

import pytest
import streamlit as st


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder, and nothing kept from the test before."""
    monkeypatch.setenv("PLANSCOPE_HOME", str(tmp_path / "home"))
    st.cache_resource.clear()  # closes the library and the job manager too
    st.cache_data.clear()
    yield tmp_path / "home"
    st.cache_resource.clear()
    st.cache_data.clear()
