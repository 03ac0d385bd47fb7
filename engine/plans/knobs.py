"""Knob choices by name, those included that the frontend has no name for.

A few precompiled engines still have knobs that cuDNN's header calls deprecated. The frontend reports all of them as
NOT_SET, so that two plans look alike that are not, and cannot set them, so that such a plan does not replay. The plan's
name holds every choice, by the header's number: ``eng32_k2=2_k6=0_k22=1``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NOT_SET = "NOT_SET"

KNOBS = (
    "SWIZZLE",
    "TILE_SIZE",
    "EDGE",
    "MULTIPLY",
    "SPLIT_K_BUF",
    "TILEK",
    "STAGES",
    "REDUCTION_MODE",
    "SPLIT_K_SLC",
    "IDX_MODE",
    "SPECFILT",
    "KERNEL_CFG",
    "WORKSPACE",
    "TILE_CGA_M",
    "TILE_CGA_N",
    "BLOCK_SIZE",
    "OCCUPANCY",
    "ARRAY_SIZE_PER_THREAD",
    "SPLIT_COLS",
    "TILE_ROWS",
    "TILE_COLS",
    "LOAD_SIZE",
    "CTA_COUNT",
    "STREAM_K",
    "SPLIT_P_SLC",
    "TILE_M",
    "TILE_N",
    "WARP_SPEC_CFG",
    "SWAP_AB",
    "INPUT_TMA_ENABLE",
    "OUTPUT_TMA_ENABLE",
    "TILE_CGA",
)
"""What cudnn-frontend 1.32 can set on an engine of cuDNN's own (knobs.h, "backend-mirror knob values"); an older one
knows fewer. Later members of its enum are knobs of kernels written in Python."""

_UNNAMED = {
    0: "SPLIT_K",
    3: "USE_TEX",
    5: "KBLOCK",
    6: "LDGA",
    7: "LDGB",
    8: "CHUNK_K",
    9: "SPLIT_H",
    10: "WINO_TILE",
    16: "CTA_SPLIT_K_MODE",
    19: "SLICED",
    20: "SPLIT_RS",
    21: "SINGLEBUFFER",
    22: "LDGC",
    32: "NUM_C_PER_BLOCK",
}
"""cudnnBackendKnobType_t of cudnn_graph.h 9.28: the members that cudnn-frontend 1.32 lacks."""
_COUNTED = 46
"""CUDNN_KNOB_TYPE_COUNTS of that header: a number from here on is a knob of a newer version."""
_CHOICE = re.compile(r"_k(\d+)=(-?\d+)")


def knobs_by_name(knobs: Mapping[Any, int], plan_name: str) -> dict[str, int]:
    """The choices of a plan: as the frontend gives them, and, where it has no name for some, from the plan's name."""
    named = {knob.name: int(value) for knob, value in knobs.items()}
    if named.pop(NOT_SET, None) is None:
        return named
    for number, value in _CHOICE.findall(plan_name):
        if int(number) in _UNNAMED or int(number) >= _COUNTED:
            named[_UNNAMED.get(int(number), f"KNOB_{number}")] = int(value)
    return named


def unnamed_knobs(cudnn: Any, names: Mapping[str, int]) -> list[str]:
    """Those of ``names`` that the frontend at hand cannot set."""
    return [name for name in names if name not in cudnn.knob_type.__members__]
