"""The hot regime against other timers, on the same plans in one run: triton's do_bench_cudagraph and the kernels' own
times as CUPTI tells them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from engine.bench.process import Told, ask_process
from engine.graph.pipelines import CATALOGUE
from engine.graph.spec import GraphSpec
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobError
from engine.plans.targets import Target
from engine.records.environment import Environment
from engine.records.options import SweepOptions
from engine.records.plan import PlanRecord, Status

PASSES = 3
SAME = 0.02
TIMED_US, PROFILED_US = 10.0, 50.0
"""From so many microseconds on, the hot regime is held to SAME of do_bench_cudagraph and of the kernels' own times.
Below the latter, what is between two kernels makes more: ``gap_us``."""
PROCESS_S = 600.0


class TimedPlan(BaseModel):
    """One plan by three timers, medians in microseconds; None where a timer is not there. ``kernels``: how many one
    execution launches. ``message``: why it could not be timed."""

    plan: str
    hot_us: float | None = None
    executions: int | None = None
    sm_clock_mhz: float | None = None
    triton_us: float | None = None
    kernels_us: float | None = None
    kernels: float | None = None
    message: str | None = None

    @property
    def off_triton(self) -> float | None:
        """Relative difference from do_bench_cudagraph."""
        return None if not self.triton_us or self.hot_us is None else self.hot_us / self.triton_us - 1

    @property
    def off_kernels(self) -> float | None:
        """Relative difference from the kernels' own times."""
        return None if not self.kernels_us or self.hot_us is None else self.hot_us / self.kernels_us - 1

    @property
    def agrees_with_triton(self) -> bool | None:
        """None below TIMED_US, and where either time is missing."""
        return None if self.off_triton is None or (self.hot_us or 0.0) < TIMED_US else abs(self.off_triton) <= SAME

    @property
    def agrees_with_kernels(self) -> bool | None:
        """None below PROFILED_US, and where either time is missing."""
        return None if self.off_kernels is None or (self.hot_us or 0.0) < PROFILED_US else abs(self.off_kernels) <= SAME

    @property
    def gap_us(self) -> float | None:
        """What is between kernels, per kernel."""
        if not self.kernels or self.kernels_us is None or self.hot_us is None:
            return None
        return (self.hot_us - self.kernels_us) / self.kernels


class Timed(BaseModel):
    """Plans of one graph, and what they were timed with."""

    pipeline: str
    environment: Environment
    plans: tuple[TimedPlan, ...]


def time_pipeline(pipeline: str, target: Target, builders: int | None, plans: int) -> Timed:
    """The first plans, in the order of the heuristics, of the pipeline at its defaults. Where the process that times
    them is lost, those timed before are kept. Raises JobError where it was lost before the first."""
    spec = CATALOGUE[pipeline].graph({})
    with tempfile.TemporaryDirectory(prefix="planscope-") as folder:
        with BuilderPool(builders, compute_cache=True, gpu_uuid=target.gpu_uuid) as pool:
            outcome = plan_graph(spec, target, pool=pool, blob_dir=Path(folder), reload=False)
        built = [plan for plan in outcome.plans if plan.status is Status.OK and plan.blob_sha256]
        asked = built[:plans]
        told = _ask(spec, asked, Path(folder), target)
    if len(told.objects) < min(2, 1 + len(asked)):
        raise JobError(f"the process that times {told.ending}")
    first, *others = told.objects
    environment = Environment.model_validate_json(json.dumps(first["environment"]))
    lost = f"not timed: the process {told.ending.splitlines()[0]}"
    left = [TimedPlan(plan=plan.plan_name, message=lost) for plan in asked[len(others) :]]
    return Timed(pipeline=pipeline, environment=environment, plans=(*map(_read, others), *left))


def _ask(spec: GraphSpec, plans: list[PlanRecord], folder: Path, target: Target) -> Told:
    question = {
        "graph": spec.model_dump(mode="json"),
        "options": SweepOptions().model_dump(mode="json"),
        "passes": PASSES,
        "plans": [
            {
                "key": plan.key,
                "name": plan.plan_name,
                "blob": str(folder / str(plan.blob_sha256)),
                "workspace_bytes": plan.workspace_bytes or 0,
            }
            for plan in plans
        ],
    }
    environment = {"CUDA_VISIBLE_DEVICES": target.gpu_uuid or "0"}
    return ask_process("engine.bench.timing_process", json.dumps(question), environment, PROCESS_S)


def _read(line: dict[str, Any]) -> TimedPlan:
    hot, triton, kernels = (line.get(name) or {} for name in ("hot", "do_bench_cudagraph", "kernels"))
    return TimedPlan(
        plan=line["name"],
        hot_us=hot.get("median_us"),
        executions=int(hot["executions"]) if hot else None,
        sm_clock_mhz=hot.get("sm_clock_mhz"),
        triton_us=triton.get("median_us"),
        kernels_us=kernels.get("median_us"),
        kernels=kernels.get("kernels"),
        message=line.get("message"),
    )
