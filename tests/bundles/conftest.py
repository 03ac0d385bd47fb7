"""Bundles of real plans: built by real cuDNN for the H200, on a machine without it."""

from __future__ import annotations

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
from engine.records.plan import PlanRecord
from engine.records.run import RunKind, RunRecord, RunStatus, SweepOptions
from engine.runs.archive_reading import read_run_file
from engine.runs.recordings import SHIPPED
from tests.conftest import AllFive


@dataclass(frozen=True)
class Made:
    """A run with one real plan, and the plan's serialized form."""

    run: RunRecord
    plan: PlanRecord
    blob: bytes


@pytest.fixture(scope="session")
def made(all_five: AllFive) -> Callable[[str], Made]:
    """``made("matmul_epilogue")``: that pipeline at its defaults, with the first pick of mode A."""

    def get(pipeline: str) -> Made:
        outcome = all_five.outcomes[pipeline]
        plan = next(plan for plan in outcome.plans if plan.modes.get("A") == 0)
        plan = plan.model_copy(update={"modes": {"A": 0}})
        graph, target = CATALOGUE[pipeline].graph({}), resolve_target("h200")
        run = as_planned(pipeline, graph, target, outcome, {"dtype": "bf16"}).model_copy(update={"plans": (plan,)})
        return Made(run, plan, all_five.blob(plan))

    return get


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Part]]:
    """``planned("matmul", n=8)``: a part of a bundle, a few plans of that graph built for the H200."""
    kept: dict[str, Part] = {}
    folder = tmp_path_factory.mktemp("planned")
    with BuilderPool(1, compute_cache=True) as pool:

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
