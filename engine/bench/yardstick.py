"""The straightforward way to sweep every execution plan of a graph, to hold this project's sweep against.

What a person would write first with the cuDNN frontend: one process, all plans created and built by ``build_plans``
with policy ALL, then each timed with CUDA events in a plain loop of 15 after 3 for warming up. Nothing is compared.
``python -m engine.bench.yardstick`` reads one GraphSpec per line and writes one JSON object per graph: seconds for
building, for timing and in total, and each plan's mean time. Run it with CUDA_CACHE_DISABLE=1, or the driver's cache of
compiled kernels hides what compiling costs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from engine.graph.spec import GraphSpec
from engine.machine.driver import load_libcuda

WARM_UP, ITERATIONS = 3, 15
MODES = ("A", "B", "FALLBACK")


def sweep(cudnn: Any, torch: Any, spec: GraphSpec) -> dict[str, Any]:
    """Build everything, then time it plan by plan."""
    from engine.measure.buffers import Buffers
    from engine.plans.context import Context
    from engine.plans.lowering import lower

    handle = cudnn.create_handle()
    graph, pack = lower(cudnn, spec, Context(handle=handle)), Buffers(spec, 0, "cuda").pack
    torch.cuda.synchronize()
    began = time.perf_counter()
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([getattr(cudnn.heur_mode, mode) for mode in MODES])
    graph.check_support()
    graph.build_plans(cudnn.build_plan_policy.ALL)
    built = time.perf_counter()
    times: dict[str, float] = {}
    failed: dict[str, str] = {}
    for index in range(graph.get_execution_plan_count()):
        name = graph.get_plan_name_at_index(index)
        try:
            times[name] = _time_plan(torch, graph, index, pack, handle)
        except (RuntimeError, ValueError, cudnn.cudnnGraphNotSupportedError) as error:
            failed[name] = str(error)[:120]
    done = time.perf_counter()
    return {
        "plans": len(times),
        "failed": failed,
        "build_s": built - began,
        "timing_s": done - built,
        "total_s": done - began,
        "times_us": times,
    }


def _time_plan(torch: Any, graph: Any, index: int, pack: dict[int, Any], handle: Any) -> float:
    graph.build_plan_at_index(index)
    workspace = torch.empty(max(graph.get_workspace_size_plan_at_index(index), 1), device="cuda", dtype=torch.uint8)
    return mean_us(torch, lambda: graph.execute_plan_at_index(pack, workspace, index, handle=handle))


def mean_us(torch: Any, call: Callable[[], object]) -> float:
    """Mean time of a call in a plain loop, between two events."""
    for _ in range(WARM_UP):
        call()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(ITERATIONS):
        call()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / ITERATIONS * 1e3


def main() -> None:
    """A graph per line of stdin."""
    load_libcuda()
    import cudnn
    import torch

    torch.cuda.init()
    torch.zeros(1, device="cuda")
    for line in sys.stdin:
        sys.stdout.write(json.dumps(sweep(cudnn, torch, GraphSpec.model_validate_json(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
