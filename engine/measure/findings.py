"""What the measuring process finds out about a plan, as it tells its parent. Pure; no torch."""

from __future__ import annotations

from pydantic import BaseModel, Field

from engine.graph.tensors import FROZEN
from engine.records.gpu_state import GpuState
from engine.records.passport import OutputAccuracy
from engine.records.plan import Stage, Status
from engine.records.samples import Samples


class Finding(BaseModel):
    """How a plan was received: loaded, executed, compared and screened, as far as it came.

    ``screening``: a few hot samples of a right plan; of one that is far from the best a single one, about what its one
    execution took. ``state``: the GPU's, meanwhile. ``check_s``, ``screen_s``: how long that took.
    """

    model_config = FROZEN

    key: str
    status: Status
    stage: Stage
    message: str | None = None
    deserialize_ms: float | None = Field(default=None, ge=0)
    accuracy: tuple[OutputAccuracy, ...] = ()
    capturable: bool | None = None
    screening: Samples | None = None
    state: GpuState | None = None
    check_s: float = Field(default=0.0, ge=0)
    screen_s: float = Field(default=0.0, ge=0)
