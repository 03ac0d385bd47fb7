"""Clocks, temperature, power and throttling through NVML: works without root and costs about 12 us a reading."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from engine.records.gpu_state import GpuState

logger = logging.getLogger(__name__)
T = TypeVar("T")

_REASONS = {
    0x2: "applications clock setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
"""nvml.h, nvmlClocksEventReason*. Bit 0, idle, is no reason to doubt a measurement."""


class StateReader:
    """Reads the state of one GPU, by the driver's UUID. Where NVML or the GPU does not answer, there is no state."""

    def __init__(self, uuid: str | None) -> None:
        self._nvml: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid or "")
            self._nvml = pynvml
        except ImportError:
            logger.warning("nvidia-ml-py is not installed: clocks and temperature are not recorded")
        except pynvml.NVMLError as error:
            logger.warning("NVML does not answer for GPU %s: %s", uuid, error)

    def read(self) -> GpuState | None:
        """The state at this moment."""
        if self._nvml is None:
            return None
        nvml, handle = self._nvml, self._handle
        power_mw = self._ask(lambda: int(nvml.nvmlDeviceGetPowerUsage(handle)))
        reasons = self._ask(lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))) or 0
        return GpuState(
            sm_clock_mhz=self._ask(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
            memory_clock_mhz=self._ask(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM))),
            temperature_c=self._ask(lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
            power_w=None if power_mw is None else power_mw / 1e3,
            throttle_reasons=tuple(name for bit, name in _REASONS.items() if reasons & bit),
        )

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except self._nvml.NVMLError:
            return None
