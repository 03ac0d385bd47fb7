"""What all sessions of one server share: the library of runs, the job manager, targets, and parsed runs.

Truth lives here and on disk, never in a browser session.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st

from app.frames import plans_frame
from app.judged import Judged, judge
from engine.graph.errors import InvalidInput, invalid
from engine.jobs.manager import JobManager
from engine.jobs.workshop import library_versions
from engine.plans.targets import Target, local_targets, shipped_targets, target_from_file
from engine.records.constraints import Constraints
from engine.records.run import RunRecord
from engine.runs.comparisons import Comparisons
from engine.runs.home import data_home
from engine.runs.library import Library
from engine.runs.store import Store, StoreError

UPLOADS_KEPT = 32


@dataclass
class Resources:
    """``manager`` is None, and ``problem`` says why, where the data folder cannot be used: then recordings can be
    looked at and nothing else. ``uploaded``: targets from properties files, by name, while the server runs."""

    library: Library
    manager: JobManager | None
    problem: str = ""
    uploaded: OrderedDict[str, Target] = field(default_factory=OrderedDict)
    closed: bool = False

    def close(self) -> None:
        """End every process that was started, and let go of the files. Harmless the second time."""
        if self.closed:
            return
        self.closed = True
        if self.manager is not None:
            self.manager.shutdown()
        if self.library.store is not None:
            self.library.store.close()


@st.cache_resource(show_spinner=False, on_release=Resources.close)
def resources() -> Resources:
    """This server's own; made on first use, closed when the server ends."""
    try:
        store = Store(data_home())
    except (InvalidInput, StoreError) as error:
        return Resources(Library(None), None, str(error))
    made = Resources(Library(store), JobManager(store))
    atexit.register(made.close)
    _keep_for_good()
    return made


def _keep_for_good() -> None:
    """Take what is in memory now (modules, parsed runs) out of the garbage collector's sight: Streamlit has it look
    through everything at the end of every run of a page, 250 ms during which nothing reaches a browser."""
    gc.collect()
    gc.freeze()


@st.cache_data(show_spinner=False, ttl=30)
def _local_targets() -> tuple[Target, ...]:
    """Asking the driver takes long enough to not do it on every rerun."""
    return local_targets()


def targets() -> dict[str, Target]:
    """Every target there is to pick, by the name a link gives it: this machine's GPUs, named ones, uploaded ones."""
    found = (*_local_targets(), *shipped_targets(), *resources().uploaded.values())
    return {target.info.name: target for target in found}


def find_target(name: str) -> Target:
    """The target a link names; raises InvalidInput. A GPU of this machine may be named by its UUID too."""
    known = targets()
    if name in known:
        return known[name]
    kind, _, which = name.partition(":")
    here = [target for target in known.values() if target.is_local]
    for target in here:
        if kind == "local" and which == target.gpu_uuid:
            return target
    if kind == "local" and not here:
        raise invalid("target", name, "this machine has no GPU.", "Pick a named GPU to plan for.")
    if kind.startswith("file-"):
        rule = "this target came from a properties file that this server does not have."
        raise invalid("target", name, rule, "Upload the file again.")
    raise invalid("target", name, "there is no target of this name.", f"Pick one of {', '.join(known)}.")


def upload_target(data: bytes) -> Target:
    """Keep a target from a properties file under a name that its content decides; raises InvalidInput."""
    target = target_from_file(data, f"file-{hashlib.sha256(data).hexdigest()[:12]}")
    uploaded = resources().uploaded
    uploaded[target.info.name] = target
    while len(uploaded) > UPLOADS_KEPT:
        uploaded.popitem(last=False)
    return target


@dataclass(frozen=True)
class Loaded:
    """A run, and what changes when the run does. Shared: not to be written to."""

    run: RunRecord
    version: tuple[int, int]


@dataclass(frozen=True)
class JudgedRun:
    """Who wins, and the plans as a table that says so. Shared: not to be written to."""

    judged: Judged
    frame: pd.DataFrame


def comparisons() -> Comparisons:
    """Fused against unfused, as far as it was measured: shipped and kept here."""
    store = resources().library.store
    return Comparisons(data_home() if store is not None else None)


def load_run(run_id: str) -> Loaded:
    """A run, parsed once per change of it; raises InvalidInput where there is none of this id."""
    return _loaded(run_id, resources().library.change_token(run_id))


@st.cache_resource(show_spinner=False, max_entries=32)
def _loaded(run_id: str, version: tuple[int, int]) -> Loaded:
    loaded = Loaded(resources().library.get(run_id), version)
    _keep_for_good()
    return loaded


def load_judged(loaded: Loaded, constraints: Constraints) -> JudgedRun:
    """Who wins under these constraints, judged once per change of the run."""
    return _judged(loaded.run.id, loaded.version, constraints, loaded.run)


@st.cache_resource(show_spinner=False, max_entries=64)
def _judged(run_id: str, version: tuple[int, int], constraints: Constraints, _run: RunRecord) -> JudgedRun:
    judged = judge(_run, constraints)
    return JudgedRun(judged, plans_frame(_run, judged=judged.verdicts))


@st.cache_resource(show_spinner=False, max_entries=32)
def planned_frame(job_id: str, version: int, _run: RunRecord) -> pd.DataFrame:
    """The plans of a plan job as a table, made once per change of it. Shared: not to be written to."""
    return plans_frame(_run)


@st.cache_data(show_spinner=False, ttl=60)
def cudnn_version() -> str:
    """The version of the cuDNN that workers here load, as people write it; "not installed" without one."""
    backend = next((version for version in library_versions()[:2] if version), None)
    return ".".join(backend.split(".")[:3]) if backend else "not installed"
