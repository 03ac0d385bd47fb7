"""A data folder of its own for tests that open pages; a GPU that follows a script for those that press buttons."""

from __future__ import annotations

import pytest
import streamlit as st

from app import resources
from engine.jobs.manager import JobManager
from engine.jobs.measuring import Deadlines
from engine.plans.targets import local_target
from engine.runs.library import Library
from tests.process.conftest import GPU, Machine
from tests.process.scripted import VARIABLE


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder, and nothing kept from the test before."""
    monkeypatch.setenv("PLANSCOPE_HOME", str(tmp_path / "home"))
    st.cache_resource.clear()  # closes the library and the job manager too
    st.cache_data.clear()
    yield tmp_path / "home"
    st.cache_resource.clear()
    st.cache_data.clear()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with one GPU, as far as the page can tell, whose processes follow a script."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv("PLANSCOPE_HOME", str(tmp_path / "home"))
    machine = Machine(tmp_path)
    settings = machine.settings(
        deadlines=Deadlines(start_s=60, prepare_s=60, load_s=60, execute_s=120, check_s=60, time_s=120),
        fusion_module="tests.process.scripted_fusion_worker",
        reuser_module="tests.process.scripted_reuser",
    )
    shared = resources.Resources(Library(machine.store), JobManager(machine.store, settings, lambda: (GPU,)))
    monkeypatch.setattr(resources, "resources", lambda: shared)
    monkeypatch.setattr(resources, "local_targets", lambda: (local_target(GPU),))
    st.cache_resource.clear()
    st.cache_data.clear()
    yield machine
    shared.close()
    st.cache_data.clear()
    assert machine.everybody_is_gone()
