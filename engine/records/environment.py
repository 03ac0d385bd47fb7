"""Where a run happened: recorded once per run, so that no number stands without it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from engine.graph.tensors import FROZEN


class GpuInfo(BaseModel):
    """One GPU. ``uuid`` is the driver's (a MIG instance has its own); ``compute_capability`` like "9.0";
    ``rated_sm_clock_mhz``: the fastest its SMs run, as the driver says."""

    model_config = FROZEN

    name: str
    uuid: str | None = None
    compute_capability: str
    sm_count: int = Field(ge=1)
    memory_bytes: int = Field(ge=1)
    l2_bytes: int | None = None
    driver: str | None = None
    rated_sm_clock_mhz: int | None = Field(default=None, ge=1)


class Environment(BaseModel):
    """Versions and machine of a run. ``gpu`` is the GPU that measured; None where planning was done without one.

    ``cudnn_backend`` is the full version, patch level included ("9.19.0"): a serialized plan loads in that version
    only.
    """

    model_config = FROZEN

    gpu: GpuInfo | None
    cudnn_backend: str
    cudnn_frontend: str
    cuda: str | None = None
    torch: str | None = None
    python: str
    host: str
    os: str
