"""What cuDNN calls the kernels behind an engine id, as far as a serialized plan tells. Pure; bytes in, text out.

A serialized plan carries the JSON that cuDNN knows it by. For an engine that compiles at run time that has the kernels
with their names: ``cudnn_generated_fort_native_sm90_matMul_knob_2_128x128x64_5_0``. For a precompiled engine it has
engine id and knobs alone.
"""

from __future__ import annotations

import json
import re
from typing import Any

from engine.records.plan import PlanRecord

LONGEST = 200
"""Longer names are cut: what a record can hold."""
_BACKEND = b'{"cudnnVersion"'
_PREFIX = "cudnn_generated_"
_SHAPE_BEGINS = re.compile(r"_(?:knob|kernel\d*)_?(?=\d|_|$)")
_TILE = re.compile(r"_(\d+x\d+(?:x\d+)*)(?=_|$)")
_OPERATIONS = re.compile(r"_?(?:convFwd|convDgrad|convWgrad|matMul|pointwise|reduction|identity)(?=_|$)")
_CUBLASLT = "CUBLASLT_DEPENDENCY"


def kernel_names(blob: bytes) -> tuple[str, ...]:
    """Every kernel that a serialized plan names, in its order; none where it is precompiled, or no plan at all."""
    engine = _engine(blob)
    payload = engine.get("payload")
    kernels = payload.get("kernels") if isinstance(payload, dict) else None
    names = [kernel.get("kernelName") for kernel in kernels or () if isinstance(kernel, dict)]
    return tuple(name[:LONGEST] for name in names if isinstance(name, str) and name)


def kernel_name(blob: bytes) -> str | None:
    """The first of them: what a record keeps as the engine's name."""
    return next(iter(kernel_names(blob)), None)


def engine_label(plan: PlanRecord) -> str | None:
    """A short name for people, to stand beside the engine id: ``fort_native_sm90 128x128x64``, ``cuBLASLt``; None where
    cuDNN reveals none."""
    if plan.engine_name:
        return short_name(plan.engine_name)
    return "cuBLASLt" if _CUBLASLT in plan.behavior_notes else None


def short_name(kernel: str) -> str:
    """A kernel's name without what the graph and the knobs say already: the code generator's name with the
    architecture, and the tile."""
    family = _SHAPE_BEGINS.split(kernel.removeprefix(_PREFIX), maxsplit=1)[0]
    family = _OPERATIONS.sub("", family).strip("_") or kernel
    tile = _TILE.search(kernel)
    return f"{family} {tile[1]}" if tile else family


def _engine(blob: bytes) -> dict[str, Any]:
    start = blob.find(_BACKEND)
    if start < 0:
        return {}
    try:
        content, _ = json.JSONDecoder().raw_decode(blob[start:].decode(errors="replace"))
    except (ValueError, RecursionError):
        return {}
    engine = content.get("engine") if isinstance(content, dict) else None
    return engine if isinstance(engine, dict) else {}
