"""A sweep with everything that a record can hold. Its numbers are plainly invented: nothing here was measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.graph.pipelines import pipeline
from engine.records.environment import Environment, GpuInfo
from engine.records.gpu_state import GpuState
from engine.records.options import Preset, SweepOptions
from engine.records.passport import OutputAccuracy, Repeatability
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Status
from engine.records.run import Baseline, Confirmation, Phases, RunRecord
from engine.records.samples import Samples
from engine.records.timings import Timings
from tests.app.sample_runs import accuracy, failed_plan, ok_plan, run_of

TITLE = "invented numbers"
ROUNDS, MIB = 120, 2**20
PARAMETERS = {"dtype": "fp32", "n": "16"}
REPEATS = Repeatability(runs=10, differing=0, elements=12_845_056)
ENVIRONMENT = Environment(
    gpu=GpuInfo(name="NVIDIA H200", uuid="GPU-0", compute_capability="9.0", sm_count=132, memory_bytes=150_000_000_000),
    cudnn_backend="9.19.0",
    cudnn_frontend="1.32.0",
    cuda="13.0",
    torch="2.11.0",
    python="3.11.2",
    host="nowhere",
    os="Linux",
)


def noisy(median_us: float, seed: int, count: int = ROUNDS, spread: float = 0.004, executions: int = 20) -> Samples:
    """Around a median, with a few slow ones, as timings are."""
    random = np.random.default_rng(seed)
    values = median_us * (1 + spread * random.standard_normal(count) + 0.05 * (random.random(count) > 0.97))
    return Samples.of(values, executions)


def states(count: int, capped: int = 0) -> tuple[GpuState, ...]:
    """The GPU by round; the last ``capped`` rounds at the power limit."""
    calm = GpuState(sm_clock_mhz=1980, memory_clock_mhz=3201, temperature_c=47, power_w=412.0)
    held = GpuState(
        sm_clock_mhz=1740,
        memory_clock_mhz=3201,
        temperature_c=61,
        power_w=699.0,
        throttle_reasons=("software power cap",),
    )
    return (calm,) * (count - capped) + (held,) * capped


def regimes(hot: float, cold: float, end_to_end: float, seed: int, **more: Any) -> Timings:
    """All five, of a survivor of the rounds."""
    fields: dict[str, Any] = {
        "hot": noisy(hot, seed),
        "cold": noisy(cold, seed + 1, 60, 0.02, 1),
        "host": noisy(21.0, seed + 2, 100, 0.05, 1),
        "host_ready": noisy(9.5, seed + 3, 100, 0.05, 1),
        "end_to_end": noisy(end_to_end, seed + 4, 100, 0.02, 1),
        "gpu": states(1)[0],
        "states": states(ROUNDS, capped=30),
        "stopped": "precise",
    }
    return Timings(**{**fields, **more})


def passport(max_rel: float, **more: Any) -> OutputAccuracy:
    """With every number there is."""
    full = {"rel_norm": max_rel / 4, "max_ulp": max_rel * 2**23, "nan": 0, "inf": 0, "reference_dtype": "float64"}
    return accuracy(max_rel, tolerance=6e-3, **{"elements": 12_845_056, **full, **more})


def plan(engine: int, timings: Timings | None, **more: Any) -> PlanRecord:
    """Right, checked and repeated. TF32, unless its error is another."""
    fields = {"accuracy": (passport(9e-4),), "repeats": REPEATS, "capturable": True, "timings": timings}
    return ok_plan(engine, 1.0, **{"numerical_notes": ("TENSOR_CORE",), **fields, **more})


def screened(engine: int, hot: float, **more: Any) -> PlanRecord:
    """Left behind after a few samples."""
    few = Timings(hot=noisy(hot, engine, 5, executions=1), states=states(1), stopped="screened")
    return plan(engine, few, repeats=None, **more)


def plans(others: float = 1.0) -> list[PlanRecord]:
    """Three that tie hot, of which the winner is not listed, unless the ``others`` take longer by this factor; another
    wins cold and end to end; the rest fall behind, are screened out, or fail in every way."""
    found = {"modes": {}, "origin": PlanOrigin.KNOB_SEARCH, "workspace_bytes": 4096}
    asked = {"modes": {}, "origin": PlanOrigin.EXPLICIT}
    differs = Repeatability(runs=10, differing=311, elements=REPEATS.elements)
    wrong = passport(0.7, nan=128, inf=3, nonfinite=131, unwritten=4096)
    return [
        plan(4, regimes(80.1 * others, 99.0, 121.0, 10), modes={"A": 1, "B": 1}, workspace_bytes=64 * MIB),
        plan(41, regimes(80.0, 101.0, 124.0, 20, set_aside=6), knobs={"TILE_SIZE": 3, "STAGES": 4}, **found),
        plan(7, regimes(80.3 * others, 98.0, 120.0, 30), modes={"B": 2}, workspace_bytes=8 * MIB, repeats=differs),
        plan(10, regimes(102.5, 92.0, 113.0, 40), modes={"A": 0, "B": 0}, workspace_bytes=0),
        plan(
            0,
            regimes(240.0, 251.0, 280.0, 50, stopped="budget"),
            modes={"A": 2},
            accuracy=(passport(1.4e-6),),
            numerical_notes=(),
            capturable=False,
        ),
        screened(52, 2_700.0, modes={"FALLBACK": 1}),
        screened(11, 120_600.0, modes={"FALLBACK": 2}),
        failed_plan(3, Status.WRONG_RESULT, modes={"A": 3}, accuracy=(wrong,), repeats=REPEATS),
        failed_plan(
            49,
            Status.TIMEOUT,
            identity=PlanIdentity(engine_id=49, knobs={"SPLIT_K_SLC": 15, "KERNEL_CFG": 30}),
            plan_name="eng49_k12=15_k24=30",
            message="a replay that should take 0.001 s never ended; the measuring process was started anew",
            **asked,
        ),
        failed_plan(48, Status.CRASHED, modes={}, origin=PlanOrigin.ENGINE_LIST),
        failed_plan(9, Status.BUILD_FAILED, modes={"FALLBACK": 0}),
    ]


def full_run(reversed_order: bool = False, **more: Any) -> RunRecord:
    """The sweep and a confirmation of its winner; or one that nothing ties with, and a confirmation that speaks against
    it."""
    first_pick_us = 78.9 if reversed_order else 102.4
    confirmation = Confirmation(
        winner="41;STAGES=4;TILE_SIZE=3",
        first_pick="10",
        winner_us=noisy(80.2, 60, 100),
        first_pick_us=noisy(first_pick_us, 61, 100),
        states=states(100),
    )
    baseline = Baseline(
        name="torch eager", accuracy=(passport(1.1e-3),), timings=regimes(131.0, 150.0, 190.0, 70, states=())
    )
    asked = SweepOptions(
        seed=7,
        preset=Preset.THOROUGH,
        every_engine=True,
        knob_budget=64,
        explicit=(PlanIdentity(engine_id=49, knobs={"SPLIT_K_SLC": 15, "KERNEL_CFG": 30}),),
    )
    times = {"list_s": 0.2, "build_s": 3.1, "check_s": 1.2, "screen_s": 0.4, "rounds_s": 0.9, "cold_s": 0.5}
    times |= {"host_s": 0.3, "passport_s": 0.8, "confirmation_s": 4.4, "verdict_at_s": 4.2, "total_s": 10.6}
    fields = {
        "title": TITLE,
        "parameters": PARAMETERS,
        "graph": pipeline("conv_bias_relu").graph(PARAMETERS),
        "environment": ENVIRONMENT,
        "options": asked,
        "confirmation": confirmation,
        "baseline": baseline,
        "phases": Phases(**times),
    }
    return run_of(plans(1.15 if reversed_order else 1.0), **{**fields, **more})
