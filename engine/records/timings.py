"""What a plan costs, by regime; numbers of different regimes are never mixed."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field

from engine.graph.tensors import FROZEN
from engine.records.gpu_state import GpuState
from engine.records.samples import Samples


class Regime(StrEnum):
    """``hot``: GPU time by replaying a CUDA graph of several executions. ``cold``: GPU time of an execution that finds
    nothing of its own in the L2 cache (flushed, or inputs rotated). ``host``: time the calling thread spends per call,
    as called (a dict of tensors); ``host_ready``: the same with a variant pack made ready before. ``end_to_end``:
    wall-clock time of an eager call and waiting for it."""

    HOT = "hot"
    COLD = "cold"
    HOST = "host"
    HOST_READY = "host_ready"
    END_TO_END = "end_to_end"

    @property
    def on_gpu(self) -> bool:
        """Whether it is the GPU's own time."""
        return self in (Regime.HOT, Regime.COLD)


Stopped = Literal["precise", "budget", "screened"]
"""Why hot sampling ended: the standard error became small enough, the budget of time or samples was used up, or
screening had shown the plan to be beyond any doubt far from the best."""


class Timings(BaseModel):
    """Samples by regime. Only ``hot`` always exists: a plan that was screened out has no others, and those of a
    survivor come after the hot verdict.

    ``gpu``: the GPU's state while the hot samples were taken. ``states``: the same per round, in the order of the
    run's rounds from its first, as far as the plan took part; empty where it could not be read. ``set_aside``: hot
    samples not among the kept ones because the SM clock was below 75 % of the rated one while they were taken.
    """

    model_config = FROZEN

    hot: Samples
    cold: Samples | None = None
    host: Samples | None = None
    host_ready: Samples | None = None
    end_to_end: Samples | None = None
    gpu: GpuState | None = None
    states: tuple[GpuState, ...] = Field(default=(), max_length=10_000)
    set_aside: int = Field(default=0, ge=0)
    stopped: Stopped | None = None

    def of(self, regime: Regime | str) -> Samples | None:
        """The samples of a regime, None where there are none. Raises ValueError where there is no such regime."""
        found: Samples | None = getattr(self, Regime(regime).value)
        return found

    @property
    def dominates(self) -> Literal["host", "gpu"] | None:
        """Which takes longer per call; None where the host's cost was not measured. Where it is the host, a loop of
        calls runs no faster with a faster plan; a CUDA graph does."""
        if self.host is None:
            return None
        return "host" if self.host.median_us > self.hot.median_us else "gpu"
