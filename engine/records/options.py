"""What was asked of a run, apart from what was seen."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, Field

from engine.graph.errors import invalid
from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN
from engine.records.plan import PlanIdentity


class Preset(StrEnum):
    """How much time a sweep may spend on being sure."""

    QUICK = "quick"
    STANDARD = "standard"
    THOROUGH = "thorough"


class DataKind(StrEnum):
    """What inputs are drawn from: a normal distribution, uniform numbers of the same variance around zero, or the
    magnitudes of a normal, whose sums grow instead of cancelling."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    POSITIVE = "positive"


class SweepOptions(BaseModel):
    """What was asked for.

    ``compute_cache``: the driver's cache of compiled kernels during builds. ``score_shift``: what is added to every
    score of an attention. The constraints (``workspace_limit_bytes``, ``deterministic_only``, ``capturable_only``) hold
    for the choice of the winner; all plans are measured. ``explicit``: plans to try besides the listed ones;
    ``every_engine``: also engines that no heuristics mode lists; ``knob_budget``: how many further knob choices to try.
    """

    model_config = FROZEN

    modes: tuple[str, ...] = ("A", "B", "FALLBACK")
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    compute_cache: bool = False
    preset: Preset = Preset.STANDARD
    data: DataKind = DataKind.NORMAL
    score_shift: float = Field(default=0.0, ge=-1e4, le=1e4)
    workspace_limit_bytes: int | None = Field(default=None, ge=0, lt=2**63)
    deterministic_only: bool = False
    capturable_only: bool = False
    explicit: tuple[PlanIdentity, ...] = Field(default=(), max_length=1024)
    every_engine: bool = False
    knob_budget: int = Field(default=0, ge=0, le=100_000)


def check_options(options: SweepOptions, graph: GraphSpec) -> None:
    """Whether the options make sense for a graph; raises InvalidInput naming the option."""
    if options.score_shift and not any(operation.kind == "attention" for operation in graph.operations):
        rule = "only an attention has scores to shift."
        raise invalid("score_shift", options.score_shift, rule, "Leave it at 0, or choose a pipeline with attention.")
