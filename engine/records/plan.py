"""One execution plan's record: its identity, how it was offered, and how it ended."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from engine.graph.tensors import FROZEN
from engine.records.gpu_state import GpuState
from engine.records.samples import Samples


class Status(StrEnum):
    """How a candidate ended. ``listed``: offered by a heuristics mode and not (or not yet) built."""

    LISTED = "listed"
    OK = "ok"
    UNSUPPORTED = "unsupported"
    BUILD_FAILED = "build_failed"
    EXEC_FAILED = "exec_failed"
    WRONG_RESULT = "wrong_result"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    CANCELLED = "cancelled"


class Stage(StrEnum):
    """Where in its life a candidate was when it ended."""

    LIST = "list"
    BUILD = "build"
    LOAD = "load"
    EXECUTE = "execute"
    CHECK = "check"
    TIME = "time"


class PlanIdentity(BaseModel):
    """What names a plan for a given graph and cuDNN version: engine id and knob choices, never an index."""

    model_config = FROZEN

    engine_id: int = Field(ge=0)
    knobs: dict[str, int] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        """A text for URLs and dictionaries, such as ``4;KERNEL_CFG=43``; knobs sorted by name."""
        return ";".join([str(self.engine_id), *(f"{name}={value}" for name, value in sorted(self.knobs.items()))])


class OutputAccuracy(BaseModel):
    """One output against the reference. Errors are over the elements that are finite in both; None where there are
    none.

    ``max_rel``: largest |got - want| / max(|want|, floor) with ``floor`` = rms of the reference; ``unwritten``:
    elements still
    holding the poison; ``nonfinite``: NaN or Inf where the reference is finite; ``tolerance``: the max_rel that passes.
    """

    model_config = FROZEN

    name: str
    max_abs: float | None
    max_rel: float | None
    unwritten: int = Field(ge=0)
    nonfinite: int = Field(ge=0)
    elements: int = Field(ge=1)
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether every element was written, is finite where it should be, and lies within the tolerance."""
        return not self.unwritten and not self.nonfinite and self.max_rel is not None and self.max_rel <= self.tolerance


class Timings(BaseModel):
    """Samples by regime, never mixed: ``hot`` GPU time by CUDA-graph replay, ``cold`` GPU time with the L2 flushed
    before each
    execution, ``host`` time the calling thread spends per call. ``gpu``: the GPU's state while the hot samples were
    taken, None where it could not be read."""

    model_config = FROZEN

    hot: Samples
    cold: Samples
    host: Samples
    gpu: GpuState | None = None

    @property
    def dominates(self) -> Literal["host", "gpu"]:
        """Which takes longer per call. Where it is the host, a loop of calls runs no faster with a faster plan; a CUDA
        graph does."""
        return "host" if self.host.median_us > self.hot.median_us else "gpu"


class PlanRecord(BaseModel):
    """A candidate and its outcome.

    ``modes``: heuristics mode -> rank (0 is its first pick). ``build_ms``: wall-clock build in a builder process, with
    ``build_contended`` telling whether other builders were at work; ``deserialize_ms``: loading its serialized form
    in the
    measuring process (or, without a GPU, in another builder). ``blob_sha256``/``blob_bytes``: that serialized form.
    """

    model_config = FROZEN

    identity: PlanIdentity
    plan_name: str
    modes: dict[str, int]
    status: Status
    stage: Stage
    message: str | None = None
    workspace_bytes: int | None = Field(default=None, ge=0)
    behavior_notes: tuple[str, ...] = ()
    numerical_notes: tuple[str, ...] = ()
    build_ms: float | None = Field(default=None, ge=0)
    build_contended: bool | None = None
    deserialize_ms: float | None = Field(default=None, ge=0)
    blob_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    blob_bytes: int | None = Field(default=None, ge=1)
    accuracy: tuple[OutputAccuracy, ...] = ()
    timings: Timings | None = None

    @model_validator(mode="after")
    def _metrics_fit_the_outcome(self) -> PlanRecord:
        if self.timings is not None and self.status is not Status.OK:
            raise ValueError(f"a plan that ended as {self.status} has no timings")
        if self.status is Status.OK and any(not output.passed for output in self.accuracy):
            raise ValueError("a plan with a wrong output cannot be ok")
        if self.status not in (Status.OK, Status.LISTED) and not self.message:
            raise ValueError(f"a plan that ended as {self.status} says why")
        return self

    @property
    def key(self) -> str:
        """The identity as text."""
        return self.identity.key
