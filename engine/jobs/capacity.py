"""How many builders, or other processes with cuDNN, this machine carries."""

from __future__ import annotations

import os
from pathlib import Path

from engine.plans.targets import Target

LARGEST = 16
_MEMORY_PER_BUILDER = 768 << 20
"""Bytes. Resident after the five pipelines were built in one process: 690 MiB (cuDNN 9.28)."""
_CONTEXT_BYTES = 512 << 20
"""Of device memory, what a CUDA context with cuDNN loaded takes."""


def default_size(local: Target | None = None, held_bytes: int = 0) -> int:
    """One builder per core this process may use, at most 16, and no more than the free memory carries; nor, where they
    hold contexts on a GPU of this machine, and ``held_bytes`` of its memory besides, than leaves seven eighths of that
    to others."""
    carried = [len(os.sched_getaffinity(0)), LARGEST, _available_memory() // _MEMORY_PER_BUILDER]
    if local is not None:
        carried.append(local.info.memory_bytes // 8 // (_CONTEXT_BYTES + held_bytes))
    return max(1, min(carried))


def _available_memory() -> int:
    """Bytes, by the kernel's estimate or the container's limit, whichever is less."""
    available = 1 << 62
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return available
    return available if limit == "max" else min(available, max(0, int(limit) - used))
