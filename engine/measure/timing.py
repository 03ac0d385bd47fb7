"""GPU time of one execution, hot and cold, and what a call costs the host.

Each regime has its own samples, in microseconds per execution:

- hot: several executions captured into one CUDA graph, each sample one replay between two events. A plain loop over a
  10 us kernel would measure Python, which needs longer to launch it. A replay itself costs about 2 us, which the
  executions in it share.
- cold: one execution per sample, right after the L2 cache was filled with something else. The flush reads: after
  writing, the timed kernel would also pay for writing dirty lines back (12 % on a 25 us matmul, on an H200). It lasts
  longer than the host needs to enqueue the execution, so no launch falls between the events.
- host: time around the call on the calling thread, which does not wait for the GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from engine.records.gpu_state import GpuState
from engine.records.plan import Timings
from engine.records.samples import Samples

Call = Callable[[], object]
Observe = Callable[[], GpuState | None]

HOT_SAMPLES = 50
COLD_SAMPLES = 20
HOST_SAMPLES = 100
SLOW_SAMPLES = 3
REPLAY_US = 1_000.0
"""A replay lasts about this long, so that events (0.5 us resolution) and the gap between replays vanish in it."""
EXECUTIONS = 20
"""At most so many executions in one graph."""
REGIME_US = 60_000.0
"""GPU time one regime may cost for a plan that is far from the best; one near it gets all its samples."""
NEAR_BEST = 2.0
WARM_UP_US = 3_000.0
FLUSH_US = 60.0
HOST_MARGIN = 3.0
"""A flush lasts this long, and so many times the host's cost of a call: the events are enqueued before it ends."""
SYNCHRONIZE_EVERY = 32
"""Host samples between waits: the launch queue holds about a thousand, and a full one makes a call wait."""


class CannotCapture(RuntimeError):
    """The work cannot be captured into a CUDA graph; the message says why."""


@dataclass(frozen=True)
class Counts:
    """How often what is measured: executions per replay, and samples per regime."""

    executions: int
    hot: int
    cold: int
    host: int

    @classmethod
    def choose(cls, execution_us: float, best_us: float | None) -> Counts:
        """From the time one execution takes, and the best plan's so far (None: this is the first)."""
        executions = max(1, min(EXECUTIONS, int(REPLAY_US / execution_us)))
        if execution_us <= NEAR_BEST * (best_us or execution_us) and HOT_SAMPLES * execution_us < 20 * REGIME_US:
            return cls(executions, HOT_SAMPLES, COLD_SAMPLES, HOST_SAMPLES)

        def affordable(wanted: int, cost_us: float) -> int:
            return max(SLOW_SAMPLES, min(wanted, int(REGIME_US / cost_us)))

        return cls(
            executions,
            affordable(HOT_SAMPLES, executions * execution_us),
            affordable(COLD_SAMPLES, execution_us),
            affordable(HOST_SAMPLES, execution_us),
        )


class Flush:
    """Fills the L2 cache by reading a buffer of its own, three times as large."""

    def __init__(self, l2_bytes: int, device: Any) -> None:
        self._buffer = torch.ones(self.required_bytes(l2_bytes) // 4, dtype=torch.float32, device=device)
        self._sink = torch.empty((), dtype=torch.float32, device=device)
        self._read()  # loads the kernel
        self._pass_us = span_us(self._read, 3)

    @staticmethod
    def required_bytes(l2_bytes: int) -> int:
        """Device memory it takes."""
        return max(3 * l2_bytes, 1 << 20)

    def enqueue(self, at_least_us: float) -> None:
        """Read on the current stream, over and over for about this long."""
        for _ in range(max(1, math.ceil(at_least_us / self._pass_us))):
            self._read()

    def _read(self) -> None:
        torch.sum(self._buffer, dim=0, out=self._sink)


def time_call(call: Call, flush: Flush, execution_us: float, best_us: float | None, observe: Observe) -> Timings:
    """Time ``call``, which enqueues one execution on the current stream, in all three regimes.

    ``observe`` reads the GPU's state and is called while the hot replays run. Raises CannotCapture, and whatever
    torch or the call raise.
    """
    counts = Counts.choose(execution_us, best_us)
    graph = capture(call, counts.executions)
    for _ in range(int(WARM_UP_US / (counts.executions * execution_us))):  # capturing has replayed it once already
        graph.replay()
    hot, gpu = _hot(graph, counts, observe)
    host = _host(call, counts.host)
    cold = _cold(call, flush, counts.cold, sorted(host)[len(host) // 2])
    return Timings(
        hot=Samples.of(hot, executions=counts.executions), cold=Samples.of(cold), host=Samples.of(host), gpu=gpu
    )


def estimate_us(call: Call, first_us: float) -> float:
    """Time of one execution, good enough to choose counts by, from that of the first, which loaded its kernels."""
    if first_us > 5 * REPLAY_US:
        return first_us
    executions = max(1, min(10, int(2 * REPLAY_US / first_us)))
    return min(span_us(call, executions) for _ in range(2))  # the host needs some calls to come up to speed


def span_us(call: Call, executions: int = 1) -> float:
    """Time between events around so many executions, waited for. It includes the launch of short ones: good enough to
    choose counts by."""
    start, stop = _event(), _event()
    start.record()
    for _ in range(executions):
        call()
    stop.record()
    stop.synchronize()
    return max(1.0, float(start.elapsed_time(stop)) * 1e3 / executions)


def capture(call: Call, executions: int) -> Any:
    """A CUDA graph of so many executions, captured from the current stream. Raises CannotCapture."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    try:
        graph.capture_begin()
        try:
            for _ in range(executions):
                call()
        finally:
            graph.capture_end()
        graph.replay()
        torch.cuda.synchronize()
    except RuntimeError as error:
        reason = str(error).strip().split("\n")[0]
        raise CannotCapture(f"it cannot be captured into a CUDA graph, so it was not timed: {reason}") from error
    return graph


def _hot(graph: Any, counts: Counts, observe: Observe) -> tuple[list[float], GpuState | None]:
    events = [(_event(), _event()) for _ in range(counts.hot)]
    for start, stop in events:
        start.record()
        graph.replay()
        stop.record()
    events[len(events) // 2][0].synchronize()
    gpu = observe()
    return _elapsed_us(events, counts.executions), gpu


def _cold(call: Call, flush: Flush, samples: int, host_us: float) -> list[float]:
    """With a sample before those kept where they are many: the first finds no work queued before it."""
    extra = int(samples > SLOW_SAMPLES)
    events = [(_event(), _event()) for _ in range(samples + extra)]
    for start, stop in events:
        flush.enqueue(FLUSH_US + HOST_MARGIN * host_us)
        start.record()
        call()
        stop.record()
    return _elapsed_us(events, 1)[extra:]


def _host(call: Call, samples: int) -> list[float]:
    """The first call after a wait finds an idle GPU and cold caches, as no steady program does: it is not kept."""
    kept: list[float] = []
    while len(kept) < samples:
        torch.cuda.synchronize()
        if samples > SLOW_SAMPLES:
            call()
        for _ in range(min(SYNCHRONIZE_EVERY, samples - len(kept))):
            began = time.perf_counter_ns()
            call()
            kept.append((time.perf_counter_ns() - began) / 1e3)
    torch.cuda.synchronize()
    return kept


def _elapsed_us(events: list[tuple[Any, Any]], executions: int) -> list[float]:
    torch.cuda.synchronize()
    return [float(start.elapsed_time(stop)) * 1e3 / executions for start, stop in events]


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)
