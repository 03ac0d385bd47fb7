"""On a real GPU: every engine asked by id, its knobs searched, and the explicit plan that hangs survived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.unlisted import Beyond
from engine.records.plan import PlanOrigin, Status

pytestmark = [pytest.mark.gpu, pytest.mark.process]

ROOT = Path(__file__).resolve().parents[2]
HANGING = "49;SPLIT_K_SLC=15;KERNEL_CFG=30"
HANGS_WITH = "9.19."


@pytest.fixture
def sweep(tmp_path):
    """The command line's answer to a sweep of a pipeline."""

    def run(name, *arguments):
        command = [sys.executable, "-m", "engine", "sweep", name, "--json", *map(str, arguments)]
        environment = {**os.environ, "PLANSCOPE_HOME": str(tmp_path / "home")}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_every_engine_tells_its_knobs_where_the_gpu_is(target, tmp_path):
    """Precompiled engines too: none has to be searched by what its listed plans show."""
    spec = pipeline("conv_bias_relu").graph({})
    with BuilderPool.for_target(target) as pool:
        began = time.monotonic()
        outcome = plan_graph(
            spec,
            target,
            pool=pool,
            blob_dir=tmp_path,
            build=False,
            beyond=Beyond(every_engine=True, knob_budget=24),
        )
        print(f"listed, every engine asked and 24 choices found in {time.monotonic() - began:.2f} s")
    origins = {origin: [p.key for p in outcome.plans if p.origin is origin] for origin in PlanOrigin}
    print("\n".join([*outcome.remarks, *(f"{origin}: {' '.join(found)}" for origin, found in origins.items())]))
    assert not any("tells no knob ranges" in remark for remark in outcome.remarks)
    assert len(origins[PlanOrigin.ENGINE_LIST]) > 5 and len(origins[PlanOrigin.KNOB_SEARCH]) == 24
    best = outcome.plans[0].identity.engine_id
    assert any(key.startswith(f"{best};") for key in origins[PlanOrigin.KNOB_SEARCH])


@pytest.mark.parametrize("name", ["matmul", "sdpa"])
def test_a_sweep_beyond_the_heuristics(sweep, name):
    told = sweep(name, "--every-engine", "--knob-budget", 12)
    origins = {plan["origin"] for plan in told["plans"]}
    beyond = [plan for plan in told["plans"] if plan["origin"] != "heuristics"]
    for plan in sorted(told["plans"], key=lambda plan: (plan["hot_us"] or {}).get("median", float("inf"))):
        print(plan["key"], plan["origin"], plan["status"], (plan["hot_us"] or {}).get("median"), plan["engine_name"])
    assert "knob search" in origins and any(plan["hot_us"] for plan in beyond)
    assert {plan["status"] for plan in told["plans"] if plan["modes"]} == {"ok"}
    built = [plan for plan in told["plans"] if plan["blob_sha256"]]  # Names stand in the serialized plan.
    assert all(plan["engine_name"] for plan in built if "RUNTIME_COMPILATION" in plan["behavior_notes"])


def test_the_explicit_plan_that_hangs_costs_itself(sweep):
    """facts: convolution engine 49 with these knobs never returns under cuDNN 9.19; under others it need not hang."""
    told = sweep("conv_bias_relu", "--modes", "FALLBACK", "--explicit", HANGING)
    plans = {plan["key"]: plan for plan in told["plans"]}
    hanging = plans["49;KERNEL_CFG=30;SPLIT_K_SLC=15"]
    print(told["cudnn"], hanging["status"], hanging["stage"], hanging["error"])
    assert hanging["origin"] == "explicit"
    if told["cudnn"]["backend"].startswith(HANGS_WITH):
        assert hanging["status"] == Status.TIMEOUT
    others = [plan for plan in plans.values() if plan["modes"]]
    assert {plan["status"] for plan in others} == {"ok"} and all(plan["hot_us"] for plan in others)
