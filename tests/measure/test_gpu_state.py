"""The GPU's state: read through NVML where it answers, absent where it does not."""

from __future__ import annotations

import pynvml
import pytest

from engine.measure.gpu_state import StateReader
from engine.records.gpu_state import GpuState


def test_a_gpu_that_nvml_does_not_know_has_no_state():
    assert StateReader("GPU-00000000-0000-0000-0000-000000000000").read() is None
    assert StateReader(None).read() is None


@pytest.fixture
def nvml(monkeypatch):
    """NVML as it answers for a GPU held down by power, whose power reading is not supported (as on MIG)."""

    def unsupported(_handle):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    clocks = {pynvml.NVML_CLOCK_SM: 1710, pynvml.NVML_CLOCK_MEM: 3201}
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetClockInfo", lambda _handle, kind: clocks[kind])
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", lambda _handle, _sensor: 61)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", unsupported)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda _handle: 0x1 | 0x4 | 0x20)


def test_what_is_not_supported_is_absent_and_reasons_have_names(nvml):
    state = StateReader("GPU-1").read()
    assert state == GpuState(
        sm_clock_mhz=1710,
        memory_clock_mhz=3201,
        temperature_c=61,
        power_w=None,
        throttle_reasons=("software power cap", "software thermal slowdown"),
    )
    assert GpuState.model_validate_json(state.model_dump_json()) == state


def test_the_reasons_are_nvml_s_own():
    assert pynvml.nvmlClocksThrottleReasonSwPowerCap == 0x4
    assert pynvml.nvmlClocksThrottleReasonSwThermalSlowdown == 0x20
    assert pynvml.nvmlClocksThrottleReasonHwThermalSlowdown == 0x40
    assert pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 0x80
