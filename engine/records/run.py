"""A run: one graph on one target, everything asked and everything seen."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, Field, field_validator, model_validator

from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN
from engine.records.environment import Environment
from engine.records.gpu_state import GpuState
from engine.records.options import SweepOptions
from engine.records.passport import OutputAccuracy
from engine.records.plan import PlanRecord, Status
from engine.records.reuse import Reuse
from engine.records.samples import Samples
from engine.records.timings import Timings

FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)
"""1 had hot, cold and host samples of every plan and one GPU state; what 2 adds is absent or at its default in a record
of 1."""


class RunKind(StrEnum):
    """``sweep``: plans were measured on a GPU; ``plan``: plans were listed and built only."""

    SWEEP = "sweep"
    PLAN = "plan"


class RunStatus(StrEnum):
    """Life of a run. ``interrupted``: the process that ran it went away; what it had recorded is kept."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Source(StrEnum):
    """Where a target's description comes from; it stands beside the target wherever it is shown."""

    DEVICE = "this machine's GPU"
    READ_OFF = "read off a device"
    SPECIFICATION = "public specification"
    FILE = "properties file"


class TargetInfo(BaseModel):
    """The GPU that plans are for. ``sm`` is 90 for compute capability 9.0."""

    model_config = FROZEN

    name: str
    gpu_name: str
    sm: int = Field(ge=10)
    memory_bytes: int = Field(ge=1)
    source: Source


class Refusal(BaseModel):
    """cuDNN's answer to a graph it has no plan for: its message and the innermost reason of each engine or check."""

    model_config = FROZEN

    message: str
    reasons: tuple[str, ...] = ()


class Baseline(BaseModel):
    """torch eager on the same data, timed the same way."""

    model_config = FROZEN

    name: str
    accuracy: tuple[OutputAccuracy, ...]
    timings: Timings | None
    message: str | None = None


class Confirmation(BaseModel):
    """The winner against the heuristics' first pick once more, in a fresh process: hot samples taken in turns, so that
    sample i of one stands beside sample i of the other. ``winner`` and ``first_pick`` are plan keys. Without samples,
    ``message`` says why there are none."""

    model_config = FROZEN

    winner: str
    first_pick: str
    winner_us: Samples | None = None
    first_pick_us: Samples | None = None
    states: tuple[GpuState, ...] = Field(default=(), max_length=10_000)
    message: str | None = None

    @model_validator(mode="after")
    def _paired(self) -> Confirmation:
        if self.winner == self.first_pick:
            raise ValueError("a plan is not confirmed against itself")
        counts = [samples.count for samples in (self.winner_us, self.first_pick_us) if samples is not None]
        if len(counts) == 1 or len(set(counts)) > 1:
            raise ValueError("samples of a confirmation come in pairs")
        if not counts and not self.message:
            raise ValueError("a confirmation without samples says why")
        return self


class Phases(BaseModel):
    """Seconds of a sweep by phase; they overlap, so they add up to more than the whole. ``verdict_at_s``: from the
    request to the hot verdict; starting worker and builders is in it where they were not started before, and what is
    measured afterwards is not. None where a phase did not take place."""

    model_config = FROZEN

    list_s: float | None = Field(default=None, ge=0)
    build_s: float | None = Field(default=None, ge=0)
    check_s: float | None = Field(default=None, ge=0)
    screen_s: float | None = Field(default=None, ge=0)
    rounds_s: float | None = Field(default=None, ge=0)
    cold_s: float | None = Field(default=None, ge=0)
    host_s: float | None = Field(default=None, ge=0)
    passport_s: float | None = Field(default=None, ge=0)
    confirmation_s: float | None = Field(default=None, ge=0)
    verdict_at_s: float | None = Field(default=None, ge=0)
    total_s: float | None = Field(default=None, ge=0)


def timed(plans: Iterable[PlanRecord]) -> list[PlanRecord]:
    """Right and measured plans, fastest hot median first. A plan whose result is wrong is never among them."""
    right = [p for p in plans if p.status is Status.OK and p.timings is not None]
    return sorted(right, key=lambda p: p.timings.hot.median_us if p.timings else float("inf"))


def first_pick(plans: Iterable[PlanRecord], modes: Iterable[str]) -> PlanRecord | None:
    """The plan of rank 0 in the first of these heuristics modes that lists any."""
    at_hand = tuple(plans)
    return next((p for mode in modes for p in at_hand if p.modes.get(mode) == 0), None)


class RunRecord(BaseModel):
    """Everything of a run but the serialized plans, which stand beside it by their SHA-256.

    ``id``: 32 hex digits. ``parameters``: the pipeline's, as texts. ``title``: what the owner calls it, "" until
    renamed.
    """

    model_config = FROZEN

    format_version: int = FORMAT_VERSION
    id: str = Field(pattern=r"^[0-9a-f]{32}$")
    kind: RunKind
    status: RunStatus
    pipeline: str
    parameters: dict[str, str]
    graph: GraphSpec
    target: TargetInfo
    environment: Environment
    options: SweepOptions
    started_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    title: str = Field(default="", max_length=200)
    message: str | None = None
    refusal: Refusal | None = None
    baseline: Baseline | None = None
    confirmation: Confirmation | None = None
    phases: Phases | None = None
    reuse: Reuse | None = None
    plans: tuple[PlanRecord, ...] = ()

    @field_validator("format_version")
    @classmethod
    def _readable(cls, version: int) -> int:
        """A record in memory is always of the current format."""
        if version not in READABLE_VERSIONS:
            raise ValueError(f"format versions {' and '.join(map(str, READABLE_VERSIONS))} can be read")
        return FORMAT_VERSION

    @property
    def graph_id(self) -> str:
        """The graph's hash."""
        return self.graph.graph_id

    def timed(self) -> list[PlanRecord]:
        """Right and measured plans, fastest hot median first. A plan whose result is wrong is never among them."""
        return timed(self.plans)

    @property
    def best(self) -> PlanRecord | None:
        """The fastest right plan by hot median."""
        return next(iter(self.timed()), None)

    @property
    def first_pick(self) -> PlanRecord | None:
        """The plan that heuristics mode A lists first (then B, then FALLBACK): what a program gets that does not
        sweep."""
        return first_pick(self.plans, self.options.modes)

    def first_picks(self) -> dict[str, PlanRecord]:
        """Each heuristics mode's own first pick, in the order asked; a mode that lists nothing is left out."""
        picks = {mode: first_pick(self.plans, (mode,)) for mode in self.options.modes}
        return {mode: pick for mode, pick in picks.items() if pick is not None}

    @property
    def label(self) -> str:
        """How a run is named where its title is empty: "recorded on ..." is the pages' business, this is what and
        when."""
        return self.title or f"{self.pipeline} {self.started_at:%Y-%m-%d %H:%M} UTC"
