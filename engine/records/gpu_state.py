"""What a GPU was doing while it was timed: without it, a slower clock looks like a slower plan."""

from __future__ import annotations

from pydantic import BaseModel, Field

from engine.graph.tensors import FROZEN

LOW_CLOCK = 0.75
"""Of the rated SM clock: what is sampled below is set aside. Two samples that are kept differ by a third at most for
their clocks' sake."""


class GpuState(BaseModel):
    """Clocks, heat and power at one moment; None where the driver does not tell (a MIG instance, for example).

    ``throttle_reasons``: why the clock is below its maximum, as NVML names the reasons; empty when nothing holds it.
    """

    model_config = FROZEN

    sm_clock_mhz: int | None = Field(default=None, ge=0, le=1_000_000)
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
