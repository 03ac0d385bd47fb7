"""Which GPU the measuring process says it is on, as far as NVML and torch tell without one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from engine.measure import device
from engine.records.environment import GpuInfo


def gpu(uuid, rated):
    return GpuInfo(
        name="NVIDIA H200",
        uuid=uuid,
        compute_capability="9.0",
        sm_count=1,
        memory_bytes=1 << 37,
        driver="580",
        rated_sm_clock_mhz=rated,
    )


@pytest.fixture
def describe(monkeypatch):
    """``describe(visible, others)``: what is told where NVML shows these, and those too where nothing is hidden."""

    def call(visible, others=()):
        shown = SimpleNamespace(
            name="NVIDIA H200",
            uuid="aaaa",
            major=9,
            minor=0,
            multi_processor_count=132,
            total_memory=1 << 36,
            L2_cache_size=60 << 20,
        )
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: shown)
        monkeypatch.setattr(device, "list_gpus", lambda *hidden: (*visible, *others) if hidden else tuple(visible))
        return device.describe_gpu()

    return call


def test_the_only_one_is_known_by_nvml_also_as_a_part_of_a_gpu(describe):
    found = describe([gpu("MIG-1", 1980)])
    assert (found.uuid, found.rated_sm_clock_mhz, found.sm_count, found.l2_bytes) == ("MIG-1", 1980, 132, 60 << 20)


@pytest.mark.parametrize(("visible", "others"), [(("GPU-bbbb", "GPU-aaaa"), ()), ((), ("GPU-bbbb", "GPU-aaaa"))])
def test_of_several_it_is_the_one_that_cuda_names(describe, visible, others):
    clocks = {"GPU-aaaa": 1980, "GPU-bbbb": 1755}
    found = describe([gpu(u, clocks[u]) for u in visible], [gpu(u, clocks[u]) for u in others])
    assert (found.uuid, found.rated_sm_clock_mhz, found.sm_count) == ("GPU-aaaa", 1980, 132)


def test_one_that_nvml_does_not_know_has_no_rated_clock(describe):
    found = describe([], [gpu("GPU-bbbb", 1755)])
    assert (found.uuid, found.rated_sm_clock_mhz, found.memory_bytes) == ("GPU-aaaa", None, 1 << 36)
