"""One execution plan's record: its identity, how it was offered, and how it ended."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, Field, model_validator

from engine.graph.tensors import FROZEN
from engine.records.passport import OutputAccuracy, Repeatability
from engine.records.timings import Timings

RUNTIME_COMPILED = "RUNTIME_COMPILATION"
"""cuDNN's behavior note on engines whose kernel is compiled when a plan is built."""


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


class PlanOrigin(StrEnum):
    """How a plan came into its run. One that a heuristics mode lists is the heuristics', however else it was asked
    for."""

    HEURISTICS = "heuristics"
    ENGINE_LIST = "engine list"
    KNOB_SEARCH = "knob search"
    EXPLICIT = "explicit"


class PlanRecord(BaseModel):
    """A candidate and its outcome.

    ``modes``: heuristics mode -> rank (0 is its first pick). ``build_ms``: wall-clock build in a builder process, with
    ``build_contended`` telling whether other builders were at work; ``deserialize_ms``: loading its serialized form
    in the
    measuring process (or, without a GPU, in another builder). ``blob_sha256``/``blob_bytes``: that serialized form.
    ``engine_name``: what cuDNN calls the engine, where it says. ``capturable``: whether a CUDA graph could be captured
    from its execution; None where that was not tried.
    """

    model_config = FROZEN

    identity: PlanIdentity
    plan_name: str
    modes: dict[str, int]
    status: Status
    stage: Stage
    message: str | None = None
    origin: PlanOrigin = PlanOrigin.HEURISTICS
    engine_name: str | None = Field(default=None, max_length=200)
    workspace_bytes: int | None = Field(default=None, ge=0)
    behavior_notes: tuple[str, ...] = ()
    numerical_notes: tuple[str, ...] = ()
    build_ms: float | None = Field(default=None, ge=0)
    build_contended: bool | None = None
    deserialize_ms: float | None = Field(default=None, ge=0)
    blob_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    blob_bytes: int | None = Field(default=None, ge=1)
    accuracy: tuple[OutputAccuracy, ...] = ()
    repeats: Repeatability | None = None
    capturable: bool | None = None
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

    @model_validator(mode="after")
    def _executed_where_repeated(self) -> PlanRecord:
        if self.repeats is not None and self.status not in (Status.OK, Status.WRONG_RESULT):
            raise ValueError(f"a plan that ended as {self.status} was not run again and again")
        if self.modes and self.origin is not PlanOrigin.HEURISTICS:
            raise ValueError(f"a plan that a heuristics mode lists is the heuristics', not of the {self.origin}")
        return self

    @property
    def key(self) -> str:
        """The identity as text."""
        return self.identity.key

    @property
    def is_compiled(self) -> bool:
        """Whether building it compiles its kernel: half a second or two, where others take milliseconds."""
        return RUNTIME_COMPILED in self.behavior_notes
