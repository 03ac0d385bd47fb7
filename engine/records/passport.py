"""The numeric passport of a plan: how far its outputs are from the reference, and whether they repeat bit by bit."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, model_validator

from engine.graph.tensors import FROZEN

REPEATED_RUNS = 10
MOST_REPEATING_US = 200_000.0
"""What all runs together may cost; slower plans are not repeated."""


class OutputAccuracy(BaseModel):
    """One output against the reference. Errors are over the elements that are finite in both; None where there are
    none, or where they were not asked for (records of format 1 lack all but ``max_abs`` and ``max_rel``).

    ``max_rel``: largest |got - want| / max(|want|, floor) with ``floor`` = rms of the reference; ``rel_norm``:
    ||got - want|| / ||want||; ``max_ulp``: largest |got - want| in units of the spacing that the output's type has at
    max(|want|, floor); ``unwritten``: elements still holding the poison; ``nan``, ``inf``: elements computed as
    these, whatever the reference; ``nonfinite``: those of them where the reference is finite; ``tolerance``: the
    max_rel that passes; ``reference_dtype``: the type the reference was computed in.

    The floor, in both: an element near 0 is a sum whose terms cancel, or what a ReLU cut off just below or just above
    0. Its error is a share of the terms, which are as large as the other elements, and not of its own value: in units
    of the spacing there, the right answer 0 for a wrong 1e-5 would be 1e33 units off.
    """

    model_config = FROZEN

    name: str
    max_abs: float | None
    max_rel: float | None
    rel_norm: float | None = None
    max_ulp: float | None = None
    unwritten: int = Field(ge=0)
    nonfinite: int = Field(ge=0)
    nan: int | None = Field(default=None, ge=0)
    inf: int | None = Field(default=None, ge=0)
    elements: int = Field(ge=1)
    tolerance: float
    reference_dtype: Literal["float64", "float32"] | None = None

    @model_validator(mode="after")
    def _counts_fit(self) -> OutputAccuracy:
        if self.nan is not None and self.inf is not None:
            if self.nonfinite > self.nan + self.inf:
                raise ValueError(f"output {self.name}: more elements not finite than NaN and Inf together")
            if self.nan + self.inf + self.unwritten > self.elements:
                raise ValueError(f"output {self.name}: more elements counted than there are")
        return self

    @property
    def passed(self) -> bool:
        """Whether every element was written, is finite where it should be, and lies within the tolerance."""
        return not self.unwritten and not self.nonfinite and self.max_rel is not None and self.max_rel <= self.tolerance


class Repeatability(BaseModel):
    """What running a plan again on the same data gave: ``differing`` elements, of ``elements`` in all outputs together,
    had other bits than in the first run in at least one of ``runs`` runs (the first one counted)."""

    model_config = FROZEN

    runs: int = Field(ge=2)
    differing: int = Field(ge=0)
    elements: int = Field(ge=1)

    @model_validator(mode="after")
    def _at_most_all(self) -> Repeatability:
        if self.differing > self.elements:
            raise ValueError("more elements differ than there are")
        return self

    @property
    def bitwise(self) -> bool:
        """Whether every run gave the same bits."""
        return self.differing == 0
