"""CUDA_VISIBLE_DEVICES decides what a person can pick, as CUDA itself would decide."""

from __future__ import annotations

import pytest

from engine.machine.gpus import visible
from engine.records.environment import GpuInfo


def gpu(uuid: str) -> GpuInfo:
    return GpuInfo(name="NVIDIA H200", uuid=uuid, compute_capability="9.0", sm_count=132, memory_bytes=1 << 37)


WHOLE = [[gpu("GPU-aaaa")], [gpu("GPU-bbbb")], [gpu("GPU-abcd")]]
MIG = [[gpu("MIG-1111"), gpu("MIG-2222")], [gpu("GPU-bbbb")]]


@pytest.mark.parametrize(
    ("found", "setting", "expected"),
    [
        (WHOLE, None, ["GPU-aaaa", "GPU-bbbb", "GPU-abcd"]),
        (WHOLE, "", []),
        (WHOLE, "-1", []),
        (WHOLE, "2,0", ["GPU-abcd", "GPU-aaaa"]),
        (WHOLE, "1,7,0", ["GPU-bbbb"]),
        (WHOLE, "GPU-b", ["GPU-bbbb"]),
        (WHOLE, "0,0", ["GPU-aaaa"]),
        (WHOLE, "nonsense", []),
        (MIG, "0", ["MIG-1111", "MIG-2222"]),
        (MIG, "MIG-2222", ["MIG-2222"]),
        (MIG, None, ["MIG-1111", "MIG-2222", "GPU-bbbb"]),
    ],
)
def test_the_setting_chooses_and_orders(found, setting, expected):
    assert [g.uuid for g in visible(found, setting)] == expected
