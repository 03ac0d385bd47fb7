"""The process that times the same plans by three timers: ``python -m engine.bench.timing_process``, one GPU visible.

Reads one JSON object from stdin: ``graph``, ``options``, ``plans`` (each with ``key``, ``name``, ``blob``: PATH,
``workspace_bytes``), ``passes``; writes JSON objects to stdout, a line each: its ``environment``, then every plan. Each
pass goes through the timers in turn, and each timer finds the GPU after HEAT_S of the plan's own load: a convolution
reaches the power limit within that, and a timer that had the rested GPU for itself would read it 13 % faster. The
timers are the hot regime, ``triton.testing.do_bench_cudagraph`` where triton is installed, and the kernels' own times
in the same replays, as CUPTI tells them to ``torch.profiler``.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.graph.spec import GraphSpec
from engine.machine.driver import load_libcuda
from engine.records.options import SweepOptions

PROFILED_REPLAYS = 8
TRITON_MS = 20
HEAT_S = 0.5
logger = logging.getLogger(__name__)


def main() -> None:
    """Time every plan that was asked for."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Libraries print.
    load_libcuda()
    from engine.measure.device import Device

    for line in answers(json.loads(sys.stdin.read()), Device()):
        out.write(json.dumps(line) + "\n")
        out.flush()


def answers(asked: dict[str, Any], device: Any) -> Iterator[dict[str, Any]]:
    """What to write, line by line."""
    from engine.measure.device import environment
    from engine.measure.session import Session

    spec = GraphSpec.model_validate_json(json.dumps(asked["graph"]))
    options = SweepOptions.model_validate_json(json.dumps(asked["options"]))
    session = Session(device, spec, options)
    yield {"environment": environment(device.info).model_dump(mode="json")}
    for plan in asked["plans"]:
        yield {**plan, **_time(session, plan, int(asked["passes"]))}


def _time(session: Any, plan: dict[str, Any], passes: int) -> dict[str, Any]:
    blob = Path(plan["blob"]).read_bytes()
    finding = session.admit(plan["key"], blob, int(plan["workspace_bytes"]), None, lambda stage: None)
    if finding.screening is None:
        return {"message": f"{finding.status}: {finding.message}"}
    timers: dict[str, Callable[[Any, str], dict[str, float] | None]] = {
        "hot": _hot,
        "do_bench_cudagraph": _triton,
        "kernels": _kernels,
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in timers}
    for _ in range(passes):
        for name, timer in timers.items():
            _heat(session, plan["key"])
            if (measured := timer(session, plan["key"])) is not None:
                found[name].append(measured)
    return {name: _middle(values) for name, values in found.items() if values}


def _heat(session: Any, key: str) -> None:
    """Keep the GPU at work with this plan."""
    import torch

    graph, began = session.contestant(key).replay().graph, time.monotonic()
    while time.monotonic() - began < HEAT_S:
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()


def _middle(passes: list[dict[str, float]]) -> dict[str, float]:
    """Medians over the passes."""
    return {name: statistics.median(one[name] for one in passes) for name in passes[0]}


def _hot(session: Any, key: str) -> dict[str, float]:
    """This project's: median of 100 replays."""
    from engine.measure.rounds import Rounds
    from engine.measure.sampling import Round
    from engine.measure.screening import Rule

    told: list[Round] = []
    session.sample(Rounds([key], Rule(least=100, error=1.0), 0), {key: None}, told.extend, None)
    values = [value for one in told for _, value, kept in one.samples if kept]
    clocks = [one.state.sm_clock_mhz for one in told if one.state and one.state.sm_clock_mhz]
    executions = session.contestant(key).replay().executions
    return {
        "median_us": statistics.median(values),
        "executions": float(executions),
        "sm_clock_mhz": float(statistics.median(clocks)) if clocks else 0.0,
    }


def _triton(session: Any, key: str) -> dict[str, float] | None:
    """Triton's, which captures on a stream of its own."""
    try:
        from triton.testing import do_bench_cudagraph
    except ImportError:
        return None
    import cudnn
    import torch

    device, call = session.device, session.contestant(key).call

    def here() -> None:
        cudnn.set_stream(handle=device.handle, stream=torch.cuda.current_stream().cuda_stream)
        call()

    try:
        milliseconds = do_bench_cudagraph(here, rep=TRITON_MS, return_mode="median")
    finally:
        cudnn.set_stream(handle=device.handle, stream=device.stream.cuda_stream)
        torch.cuda.synchronize()
    return {"median_us": float(milliseconds) * 1e3}


def _kernels(session: Any, key: str) -> dict[str, float] | None:
    """What the kernels of one execution take, by CUPTI: the median of each, added up, and how many they are."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    replay = session.contestant(key).replay()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED_REPLAYS):
            replay.graph.replay()
        torch.cuda.synchronize()
    durations: dict[str, list[float]] = {}
    for event in profiler.events() or ():
        if str(event.device_type).endswith("CUDA"):
            durations.setdefault(event.name, []).append(float(event.time_range.elapsed_us()))
    executions = PROFILED_REPLAYS * replay.executions
    if not durations:
        return None
    per_execution = {name: len(values) / executions for name, values in durations.items()}
    return {
        "median_us": sum(statistics.median(values) * per_execution[name] for name, values in durations.items()),
        "kernels": sum(per_execution.values()),
    }


if __name__ == "__main__":
    main()
