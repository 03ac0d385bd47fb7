"""CUDA_VISIBLE_DEVICES decides what a person can pick, as CUDA itself would decide."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest

from engine.machine.gpus import list_gpus, visible
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


@pytest.fixture
def nvml(monkeypatch):
    """Two H200s as NVML tells of them; ``clocks``: the highest SM clock by index, None where it does not tell."""
    told = SimpleNamespace(clocks={0: 1980, 1: 1755}, mig=pynvml.NVML_DEVICE_MIG_DISABLE)

    def max_clock(handle, kind):
        assert kind == pynvml.NVML_CLOCK_SM
        if told.clocks[handle] is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return told.clocks[handle]

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
        "nvmlSystemGetDriverVersion": lambda: "580.159.04",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}" if isinstance(handle, int) else handle,
        "nvmlDeviceGetNumGpuCores": lambda handle: 132 * 128,
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=1 << 37),
        "nvmlDeviceGetMigMode": lambda handle: (told.mig, told.mig),
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 2,
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda handle, index: f"MIG-{handle}{index}",
        "nvmlDeviceGetAttributes_v2": lambda handle: SimpleNamespace(multiprocessorCount=60),
        "nvmlDeviceGetMaxClockInfo": max_clock,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    return told


@pytest.mark.parametrize(("setting", "clocks"), [(None, [1980, 1755]), ("1", [1755]), ("GPU-0", [1980])])
def test_the_rated_clock_is_that_of_the_gpu_that_was_picked(nvml, setting, clocks):
    environment = {} if setting is None else {"CUDA_VISIBLE_DEVICES": setting}
    assert [gpu.rated_sm_clock_mhz for gpu in list_gpus(environment)] == clocks


def test_a_part_of_a_gpu_has_the_clock_of_the_whole(nvml):
    nvml.mig = pynvml.NVML_DEVICE_MIG_ENABLE
    assert [(gpu.uuid, gpu.rated_sm_clock_mhz) for gpu in list_gpus({"CUDA_VISIBLE_DEVICES": "MIG-11"})] == [
        ("MIG-11", 1755)
    ]


def test_a_rated_clock_that_is_not_told_is_said_and_costs_nothing_else(nvml, caplog):
    nvml.clocks[0] = None
    one, other = list_gpus({})
    assert (one.sm_count, one.rated_sm_clock_mhz, other.rated_sm_clock_mhz) == (132, None, 1755)
    assert "does not tell the highest SM clock" in caplog.text
