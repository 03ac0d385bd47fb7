"""What was asked of a run, apart from what was seen."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, Field

from engine.graph.errors import invalid
from engine.graph.operations import Attention
from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN, DataType
from engine.records.plan import PlanIdentity

LARGEST = {DataType.BF16: 3e38, DataType.FP16: 65504.0, DataType.FP32: 3e38}
"""About the largest finite value of each type."""


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


def shift_channels(head_dim: int) -> int:
    """How many channels of q and k carry a shift of the scores: one in eight."""
    return max(1, head_dim // 8)


def check_options(options: SweepOptions, graph: GraphSpec) -> None:
    """Whether the options make sense for a graph; raises InvalidInput naming the option."""
    if not options.score_shift:
        return
    shift, attentions = options.score_shift, [o for o in graph.operations if isinstance(o, Attention)]
    if not attentions:
        rule = "only an attention has scores to shift."
        raise invalid("score_shift", shift, rule, "Leave it at 0, or choose a pipeline with attention.")
    for attention in attentions:
        channels = shift_channels(graph.by_uid[attention.inputs["q"]].dims[-1])
        most = abs(attention.scale) * channels * LARGEST[graph.io_dtype]
        if abs(shift) > most:
            rule = f"with a score scale of {attention.scale:g}, {graph.io_dtype} holds shifts up to {most:.4g}."
            raise invalid("score_shift", shift, rule, "Use a smaller shift, a larger scale or bf16.")
