"""What one execution launches on the GPU, as torch's profiler (CUPTI) sees it: counted, not assumed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity, profile

from engine.measure.calling import Call
from engine.records.fusion import Launch

TRIALS = 3
"""The first profile of a process may come back empty."""
_KINDS: tuple[tuple[str, Literal["copy", "fill"]], ...] = (("memcpy", "copy"), ("memset", "fill"))


def count_launches(call: Call) -> tuple[Launch, ...] | None:
    """Every kernel, copy and fill of one execution, in the order they ran; None where the profiler saw none."""
    call()
    torch.cuda.synchronize()
    for _ in range(TRIALS):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            call()
            torch.cuda.synchronize()
        if found := launches(profiler.events()):
            return found
    return None


def launches(events: Iterable[Any]) -> tuple[Launch, ...]:
    """Of a profile's events, those that the GPU did."""
    on_gpu = [e for e in events if e.device_type == torch.autograd.DeviceType.CUDA and not _is_annotation(e)]
    on_gpu.sort(key=lambda event: event.time_range.start)
    return tuple(
        Launch(name=event.name[:300], kind=_kind(event.name), us=max(0.0, float(event.time_range.elapsed_us())))
        for event in on_gpu
    )


def _kind(name: str) -> Literal["kernel", "copy", "fill"]:
    return next((kind for word, kind in _KINDS if name.lower().startswith(word)), "kernel")


def _is_annotation(event: Any) -> bool:
    """A range that a program marked, not work."""
    return bool(getattr(event, "is_user_annotation", False))
