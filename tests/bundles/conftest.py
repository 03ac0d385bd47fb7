"""Bundles of real plans: built by real cuDNN for the H200, on a machine without it, in a process of their own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.bundles.choosing import built_plans
from engine.bundles.export import Part
from engine.graph.pipelines import CATALOGUE
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.plans.targets import resolve_target
from engine.records.environment import Environment
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status
from engine.records.run import RunKind, RunRecord, RunStatus, SweepOptions
from engine.runs.archive_reading import read_run_file
from engine.runs.recordings import SHIPPED

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import json, sys
from pathlib import Path
from engine.machine.driver import load_libcuda
assert load_libcuda() is not None, "no libcuda.so.1: run make"
import cudnn
from engine.graph.pipelines import CATALOGUE
from engine.plans.building import PlanFailure, build
from engine.plans.candidates import list_mode
from engine.plans.context import open_context
from engine.plans.targets import resolve_target

pipeline, folder = sys.argv[1], Path(sys.argv[2])
spec, context = CATALOGUE[pipeline].graph({}), open_context(cudnn, resolve_target("h200"))
for plan in list_mode(cudnn, spec, context, "A").plans:
    try:
        built = build(cudnn, spec, context, plan.identity, plan.plan_name)
    except PlanFailure:
        continue
    break
(folder / "blob").write_bytes(built.blob)
print(json.dumps({
    "engine_id": plan.identity.engine_id, "knobs": plan.identity.knobs, "plan_name": built.plan_name,
    "workspace_bytes": built.workspace_bytes, "build_ms": built.build_ms, "notes": built.behavior_notes,
    "cudnn": cudnn.backend_version_string(), "frontend": cudnn.__version__,
}))
"""


@dataclass(frozen=True)
class Made:
    """A run with one real plan, and the plan's serialized form."""

    run: RunRecord
    plan: PlanRecord
    blob: bytes


def _make(pipeline: str, folder: Path) -> Made:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, pipeline, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    facts, blob = json.loads(done.stdout), (folder / "blob").read_bytes()
    plan = PlanRecord(
        identity=PlanIdentity(engine_id=facts["engine_id"], knobs=facts["knobs"]),
        plan_name=facts["plan_name"],
        modes={"A": 0},
        status=Status.OK,
        stage=Stage.LOAD,
        workspace_bytes=facts["workspace_bytes"],
        behavior_notes=tuple(facts["notes"]),
        build_ms=facts["build_ms"],
        blob_sha256=hashlib.sha256(blob).hexdigest(),
        blob_bytes=len(blob),
    )
    environment = Environment(
        gpu=None,
        cudnn_backend=facts["cudnn"],
        cudnn_frontend=facts["frontend"],
        python="3.11",
        host="bench",
        os="Debian",
    )
    run = RunRecord(
        id="0123456789abcdef" * 2,
        kind=RunKind.PLAN,
        status=RunStatus.DONE,
        pipeline=pipeline,
        parameters={"dtype": "bf16"},
        graph=CATALOGUE[pipeline].graph({}),
        target=resolve_target("h200").info,
        environment=environment,
        options=SweepOptions(),
        started_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
        plans=(plan,),
    )
    return Made(run, plan, blob)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """``made("matmul_epilogue")``: that pipeline at its defaults, its first plan built once for all tests."""
    kept: dict[str, Made] = {}

    def get(pipeline: str) -> Made:
        if pipeline not in kept:
            kept[pipeline] = _make(pipeline, tmp_path_factory.mktemp(pipeline))
        return kept[pipeline]

    return get


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Part]]:
    """``planned("matmul", n=8)``: a part of a bundle, a few plans of that graph built for the H200."""
    kept: dict[str, Part] = {}
    folder = tmp_path_factory.mktemp("planned")
    with BuilderPool(2, compute_cache=True) as pool:

        def get(pipeline: str, **parameters: object) -> Part:
            key = f"{pipeline} {sorted(parameters.items())}"
            if key not in kept:
                kept[key] = _plan(pipeline, parameters, pool, folder)
            return kept[key]

        yield get


def _plan(pipeline: str, parameters: dict[str, object], pool: BuilderPool, folder: Path) -> Part:
    graph, target = CATALOGUE[pipeline].graph(parameters), resolve_target("h200")
    outcome = plan_graph(graph, target, ("FALLBACK",), pool=pool, blob_dir=folder)
    if len(outcome.plans) < 2:  # as before cuDNN 9.28, where all modes together list no more than a few
        outcome = plan_graph(graph, target, pool=pool, blob_dir=folder)
    run = as_planned(pipeline, graph, target, outcome, parameters)
    plans = tuple(built_plans(run))
    return Part(run, plans, {plan.blob_sha256: (folder / plan.blob_sha256).read_bytes() for plan in plans})


def as_planned(pipeline, graph, target, outcome, parameters=None) -> RunRecord:
    """What planning gave, as a run."""
    return RunRecord(
        id="0123456789abcdef" * 2,
        kind=RunKind.PLAN,
        status=RunStatus.DONE,
        pipeline=pipeline,
        parameters={letter: str(value) for letter, value in (parameters or {}).items()},
        graph=graph,
        target=target.info,
        environment=outcome.environment,
        options=SweepOptions(),
        started_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
        plans=outcome.plans,
    )


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], tuple[RunRecord, dict[str, bytes]]]:
    """``recorded("matmul")``: a shipped recording of a sweep on an H200, and its serialized plans."""

    def get(name: str) -> tuple[RunRecord, dict[str, bytes]]:
        file = read_run_file((SHIPPED / f"{name}.zip").read_bytes())
        return file.run, file.blobs

    return get
