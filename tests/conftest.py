"""What all tests share, and what is made once for all of them."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

from engine.graph.pipelines import CATALOGUE
from engine.jobs.planning import PlanOutcome, plan_graph
from engine.jobs.pool import BuilderPool
from engine.plans.targets import resolve_target
from engine.plans.variants import nearby
from engine.records.plan import PlanRecord

# How long an example takes is the machine's affair.
settings.register_profile("planscope", settings.default, deadline=None)
settings.load_profile("planscope")

ROOT = Path(__file__).resolve().parents[1]
SHARED = "PLANSCOPE_TESTS_SHARED"
"""Names a folder for what several runs of pytest share, as those of one `make test`; it begins empty."""
T = TypeVar("T")
Once = Callable[[str, Callable[[Path], T]], T]


@dataclass(frozen=True)
class AllFive:
    """``blobs``: the folder of the serialized plans. ``seconds``: from the pool's start to the last plan's end."""

    outcomes: dict[str, PlanOutcome]
    seconds: float
    blobs: Path

    def blob(self, plan: PlanRecord) -> bytes:
        return (self.blobs / str(plan.blob_sha256)).read_bytes()


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """``once(name, make)``: what ``make(folder)`` gives, done by the first worker that asks. The others wait for it and
    read it, so it has to survive being pickled; the folder stays for all of them."""
    base = tmp_path_factory.getbasetemp()
    within = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    shared = Path(os.environ.get(SHARED) or within / "shared")

    def get(name: str, make: Callable[[Path], T]) -> T:
        folder, made = shared / name, shared / f"{name}.pickle"
        folder.mkdir(parents=True, exist_ok=True)
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                made.write_bytes(pickle.dumps(make(folder)))
        return pickle.loads(made.read_bytes())

    return get


@pytest.fixture(scope="session")
def all_five(once: Once) -> AllFive:
    """Every pipeline at its defaults for the H200, all plans built from cold by two builders."""
    return once("all_five", _build_all_five)


def _build_all_five(blobs: Path) -> AllFive:
    target, started = resolve_target("h200"), time.monotonic()
    with BuilderPool(2) as pool:
        outcomes = {
            name: plan_graph(one.graph({}), target, pool=pool, blob_dir=blobs, variants=nearby(one, {}))
            for name, one in CATALOGUE.items()
        }
    return AllFive(outcomes, time.monotonic() - started, blobs)


@dataclass(frozen=True)
class Studied:
    """A study of reuse that the command line did: the data folder, the run file, and what was told on stdout."""

    home: Path
    file: Path
    told: str


@pytest.fixture(scope="session")
def studied(once: Once) -> Studied:
    """Of a small convolution without a GPU: its first two plans at two sizes, each number measured once."""
    return once("study", _study)


def _study(folder: Path) -> Studied:
    home, file = folder / "home", folder / "run.zip"
    graph = ("conv_relu", "-p", "c=16", "-p", "k=16", "-p", "h=8", "-p", "w=8", "--modes", "FALLBACK")
    asked = ("--target", "h200", "--plans", "2", "--repeats", "1", "--sizes", "n=8,16", "--out", file, "--json")
    return Studied(home, file, _engine(home, "reuse", *graph, *asked))


@dataclass(frozen=True)
class Planned:
    """A plan job that the command line did: the run file, and what was told on stdout."""

    file: Path
    told: str


@pytest.fixture(scope="session")
def planned_here(once: Once) -> Planned:
    """Of matmul for the H200: the two plans of mode FALLBACK, both compiled."""
    return once("planned", _plan)


def _plan(folder: Path) -> Planned:
    out = folder / "run.zip"
    asked = ("--target", "h200", "--modes", "fallback", "--builders", "1", "--out", out, "--json")
    return Planned(out, _engine(folder / "home", "plan", "matmul", *asked))


@pytest.fixture(scope="session")
def run_file(planned_here: Planned) -> Path:
    """The run file of that plan job."""
    assert [plan["status"] for plan in json.loads(planned_here.told)["plans"]] == ["ok", "ok"]
    return planned_here.file


def _engine(home: Path, *arguments: object) -> str:
    """What ``python -m engine`` says on stdout, where it does what it is asked."""
    done = subprocess.run(
        [sys.executable, "-m", "engine", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PLANSCOPE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
