"""What the measuring process finds out about a plan, as it tells its parent. Pure; no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, Field

from engine.graph.tensors import FROZEN
from engine.records.gpu_state import GpuState
from engine.records.passport import OutputAccuracy
from engine.records.plan import Stage, Status
from engine.records.samples import Samples

OnStage = Callable[[Stage], None]


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


class Attempt:
    """A finding while it is being made. ``on_stage`` hears of every stage before it begins."""

    def __init__(self, key: str, on_stage: OnStage) -> None:
        self._key, self._on_stage = key, on_stage
        self._stage = Stage.LOAD
        self._found: dict[str, Any] = {}

    def enter(self, stage: Stage) -> None:
        """The next stage begins."""
        self._stage = stage
        self._on_stage(stage)

    def found(self, **values: Any) -> Attempt:
        """Fields of the finding that are known now."""
        self._found.update(values)
        return self

    def ended(self, status: Status, message: str | None) -> Finding:
        """The finding, of the stage that was entered last."""
        return Finding(key=self._key, status=status, stage=self._stage, message=message, **self._found)
