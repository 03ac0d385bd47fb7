"""GPU time of one execution, hot and cold, and what a call costs the host: single samples and blocks of them.

Each regime has its own samples, in microseconds per execution:

- hot: several executions captured into one CUDA graph, each sample one replay between two events. A plain loop over a
  10 us kernel would measure Python, which needs longer to launch it. A replay itself costs about 2 us, which the
  executions in it share.
- cold: one execution per sample, right after the L2 cache was filled with something else. The flush reads: after
  writing, the timed kernel would also pay for writing dirty lines back (12 % on a 25 us matmul, on an H200). It lasts
  longer than the host needs to enqueue the execution, so no launch falls between the events.
- host: time around the call on the calling thread, which does not wait for the GPU. As called (a dict of tensors), and
  with a variant pack that was made ready before.
- end to end: an eager call and waiting for it, by the wall clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Call = Callable[[], object]

REPLAY_US = 400.0
"""A replay lasts about this long, so that events (0.5 us resolution) and the gap between replays vanish in it."""
EXECUTIONS = 100
"""At most so many executions in one graph: capturing one costs the host as much as calling it."""
LAUNCH_US = 100.0
"""How long the GPU may take to begin with what was enqueued, and the host to enqueue the event behind it."""
FLUSH_US = 60.0
HOST_MARGIN = 3.0
"""A flush lasts this long, and so many times the host's cost of a call: the events are enqueued before it ends."""


class CannotCapture(RuntimeError):
    """The work cannot be captured into a CUDA graph; the message says why."""


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


@dataclass(frozen=True)
class First:
    """A first execution, which also loads its kernels. ``own_us``: about what the GPU took for it, which is the time
    between events around it without what the call took the host meanwhile."""

    own_us: float

    @property
    def at_least_us(self) -> float:
        """What of that is surely the GPU's own."""
        return max(1.0, self.own_us - LAUNCH_US)


@dataclass(frozen=True)
class Replay:
    """A captured CUDA graph of so many executions, each of about ``execution_us``; or what stands in for one (see
    ``contestant.Loop``), whose ``lead`` is enqueued before the time starts."""

    graph: Any
    executions: int
    execution_us: float


class Replays:
    """What a Sampler samples on a GPU: replays of captured graphs on the current stream, by key."""

    def __init__(self, replays: Mapping[str, Replay]) -> None:
        self._replays = replays

    def enqueue(self, key: str) -> tuple[Any, Any, int]:
        replay, start, stop = self._replays[key], event(), event()
        if (lead := getattr(replay.graph, "lead", None)) is not None:
            lead()
        start.record()
        replay.graph.replay()
        stop.record()
        return start, stop, replay.executions

    def is_done(self, ticket: tuple[Any, Any, int]) -> bool:
        return bool(ticket[1].query())

    def microseconds(self, ticket: tuple[Any, Any, int]) -> float:
        start, stop, executions = ticket
        return max(1e-3, float(start.elapsed_time(stop)) * 1e3 / executions)  # Events tell half a microsecond apart.

    def expected_s(self, key: str) -> float:
        return self._replays[key].executions * self._replays[key].execution_us * 1e-6


def executions_in_replay(execution_us: float) -> int:
    """How many executions a replay holds."""
    return max(1, min(EXECUTIONS, round(REPLAY_US / execution_us)))


def first_execution(call: Call) -> First:
    """Run ``call`` once on an idle stream and wait for it."""
    torch.cuda.synchronize()
    start, stop = event(), event()
    start.record()
    began = time.perf_counter_ns()
    call()
    host_us = (time.perf_counter_ns() - began) / 1e3
    stop.record()
    stop.synchronize()
    return First(max(1.0, float(start.elapsed_time(stop)) * 1e3 - host_us))


def estimate_us(call: Call, first: First) -> float:
    """Time of one execution, good enough to choose a number of executions by."""
    if first.at_least_us > REPLAY_US:
        return first.own_us
    executions = max(1, min(10, int(REPLAY_US / first.at_least_us)))
    return min(span_us(call, executions) for _ in range(2))  # the host needs some calls to come up to speed


def span_us(call: Call, executions: int = 1) -> float:
    """Time between events around so many executions, waited for. It includes the launch of short ones."""
    start, stop = event(), event()
    start.record()
    for _ in range(executions):
        call()
    stop.record()
    stop.synchronize()
    return max(1.0, float(start.elapsed_time(stop)) * 1e3 / executions)


def capture(call: Call, executions: int, run: bool = True) -> Any:
    """A CUDA graph of so many executions, captured from the current stream and, with ``run``, replayed once, which puts
    it on the device. Raises CannotCapture."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    try:
        graph.capture_begin()
        try:
            for _ in range(executions):
                call()
        finally:
            graph.capture_end()
        if run:
            graph.replay()
            torch.cuda.synchronize()
    except RuntimeError as error:
        reason = str(error).strip().split("\n")[0]
        raise CannotCapture(f"it cannot be captured into a CUDA graph: {reason}") from error
    return graph


def cold_block(call: Call, flush: Flush, samples: int, host_us: float) -> list[float]:
    """So many cold samples, and one before those kept: the first finds no work queued before it."""
    events = [(event(), event()) for _ in range(samples + 1)]
    for start, stop in events:
        flush.enqueue(FLUSH_US + HOST_MARGIN * host_us)
        start.record()
        call()
        stop.record()
    torch.cuda.synchronize()
    return [max(1e-3, float(start.elapsed_time(stop)) * 1e3) for start, stop in events][1:]


def host_block(call: Call, samples: int) -> list[float]:
    """What so many calls cost the calling thread; few enough for the launch queue, which holds about a thousand.

    The first call after a wait finds an idle GPU and cold caches, as no steady program does: it is not kept.
    """
    torch.cuda.synchronize()
    call()
    kept = []
    for _ in range(samples):
        began = time.perf_counter_ns()
        call()
        kept.append((time.perf_counter_ns() - began) / 1e3)
    torch.cuda.synchronize()
    return kept


def end_to_end_block(call: Call, samples: int) -> list[float]:
    """Wall-clock time of so many calls, each waited for; the first is not kept."""
    stream = torch.cuda.current_stream()
    torch.cuda.synchronize()
    kept = []
    for _ in range(samples + 1):
        began = time.perf_counter_ns()
        call()
        stream.synchronize()
        kept.append((time.perf_counter_ns() - began) / 1e3)
    return kept[1:]


def event() -> Any:
    """A CUDA event that takes the time."""
    return torch.cuda.Event(enable_timing=True)
