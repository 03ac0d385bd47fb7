"""What building a plan costs, and what every way not to pay it again costs and gives.

Numbers of a machine without a GPU are real as far as they go: builds and loads, no executions. They are of processes
that ran alone, one after the other; contended times of a sweep never come here.
"""

from __future__ import annotations

from enum import StrEnum
from statistics import median
from typing import Annotated

from pydantic import BaseModel, Field, field_validator, model_validator

from engine.graph.tensors import FROZEN
from engine.records.plan import PlanIdentity
from engine.records.samples import Samples

SHORTEST_MS, LONGEST_MS = 1e-6, 1e9
"""A nanosecond and eleven days: nothing here takes less or more."""
Milliseconds = Annotated[float, Field(ge=0, le=LONGEST_MS)]


class Times(BaseModel):
    """Repetitions of one thing, milliseconds, each in a process of its own."""

    model_config = FROZEN

    values_ms: tuple[float, ...] = Field(min_length=1, max_length=1000)

    @field_validator("values_ms")
    @classmethod
    def _possible(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if any(not SHORTEST_MS <= value <= LONGEST_MS for value in values):
            raise ValueError("a time is a nanosecond at least and eleven days at most")
        return values

    @property
    def median_ms(self) -> float:
        """Median."""
        return median(self.values_ms)

    @property
    def range_ms(self) -> tuple[float, float]:
        """Least and largest."""
        return min(self.values_ms), max(self.values_ms)


class PlanCost(BaseModel):
    """One plan, each time in a fresh process that had cuDNN's libraries loaded before it built.

    ``cold_ms``: built with the driver's compute cache off; ``warm_ms``: with a cache that an earlier process had
    filled, which then held ``cache_bytes``. ``again_ms``: a precompiled plan's second build in the same process: its
    first one loads the library that holds its kernel, which is most of what it takes. ``first_load_ms``: the first
    deserialize of a process, which loads libraries too; ``load_ms``: the second. ``precompiled``: whether loading with
    ``enforce_precompiled`` succeeds, so that nothing is compiled again. ``execute_*``: the first execution after each,
    waited for, on a GPU only. ``message``: why something is missing.
    """

    model_config = FROZEN

    identity: PlanIdentity
    plan_name: str
    modes: dict[str, int]
    compiled: bool
    blob_bytes: int | None = None
    cold_ms: Times | None = None
    warm_ms: Times | None = None
    again_ms: Times | None = None
    cache_bytes: int | None = Field(default=None, ge=0)
    first_load_ms: Times | None = None
    load_ms: Times | None = None
    precompiled: bool | None = None
    precompiled_message: str | None = None
    execute_cold_ms: Times | None = None
    execute_warm_ms: Times | None = None
    execute_load_ms: Times | None = None
    message: str | None = None

    @property
    def key(self) -> str:
        """The plan's."""
        return self.identity.key

    @property
    def speedup(self) -> float | None:
        """How many times the second load a build takes: a cold one where the kernel is compiled, else the second of a
        process, for libraries are loaded either way."""
        build = self.cold_ms if self.compiled else self.again_ms
        if build is None or self.load_ms is None:
            return None
        return build.median_ms / self.load_ms.median_ms


class Way(StrEnum):
    """How plans for many sizes come about: each on its own; with a kernel cache they share; or one, for the largest
    size, run at the others by overriding its shapes."""

    STATIC = "static"
    CACHE = "kernel cache"
    OVERRIDE = "override shape"


class SizePlan(BaseModel):
    """The first plan of the heuristics that builds at one size. ``plans``: how many there are to choose from;
    ``refused``: cuDNN's reason where there is none. On a GPU: ``best_name``, where what follows is of another plan, the
    best of all that the heuristics list; ``right``, with ``max_rel`` the largest relative error (``allowed``: what
    passes), and hot samples; of a wrong plan they decide nothing. ``complaint``: what is wrong, or, where ``right`` is
    None, why it does not run."""

    model_config = FROZEN

    size: int
    plans: int = 0
    identity: PlanIdentity | None = None
    plan_name: str | None = None
    list_ms: Milliseconds | None = None
    build_ms: Milliseconds | None = None
    refused: str | None = None
    best_name: str | None = None
    right: bool | None = None
    max_rel: float | None = None
    allowed: float | None = None
    complaint: str | None = None
    hot: Samples | None = None

    @model_validator(mode="after")
    def _built_or_refused(self) -> SizePlan:
        if (self.build_ms is None) == (self.refused is None):
            raise ValueError("a size has a plan, or a reason why it has none")
        return self


class Series(BaseModel):
    """All sizes in one way, in the order asked, in one process. ``cache_bytes``: the kernel cache as it is saved, and
    ``reloaded_ms``: the first size built anew with the cache that another process loaded."""

    model_config = FROZEN

    way: Way
    sizes: tuple[SizePlan, ...]
    cache_bytes: int | None = None
    cache_message: str | None = None
    reloaded_ms: Milliseconds | None = None


class Transplant(BaseModel):
    """A recipe chosen at one size and built at another. ``hot``: there, on a GPU."""

    model_config = FROZEN

    tuned_at: int
    run_at: int
    plan_name: str
    builds: bool
    message: str | None = None
    right: bool | None = None
    hot: Samples | None = None


class DynamicShapes(BaseModel):
    """Many sizes of one letter; each series has all of them, in their order."""

    model_config = FROZEN

    letter: str
    sizes: tuple[int, ...] = Field(min_length=1)
    series: tuple[Series, ...]
    matrix: tuple[Transplant, ...] = ()

    @model_validator(mode="after")
    def _every_size_in_every_way(self) -> DynamicShapes:
        ways = [series.way for series in self.series]
        if len(set(ways)) < len(ways) or len(set(self.sizes)) < len(self.sizes):
            raise ValueError("a way and a size stand in a study once")
        if any(tuple(size.size for size in series.sizes) != self.sizes for series in self.series):
            raise ValueError("every way has the study's sizes, in their order")
        return self

    def of(self, way: Way) -> Series | None:
        """The series of a way."""
        return next((series for series in self.series if series.way is way), None)

    @property
    def tuned_us(self) -> dict[int, float]:
        """What the plan tuned at a size takes there, hot, by size, where it was run and is right."""
        at_home = (one for one in self.matrix if one.tuned_at == one.run_at)
        return {one.run_at: one.hot.median_us for one in at_home if one.hot and one.right}


class GraphUse(BaseModel):
    """A plan and CUDA graphs. ``captured``, ``populated``, ``updated``: whether stream capture, and cuDNN's native
    calls, work, each with the reason where not. ``call_us``: a plain execution in a loop of calls, per call;
    ``replays``: per execution, by executions in a graph. ``new_data``: whether a replay after new data came into the
    same buffers gives the new answer; ``bound``: whether a replay goes on using the buffers it was captured with, so
    that others need an update or a new capture; ``update_right``: whether after an update it uses the others."""

    model_config = FROZEN

    identity: PlanIdentity
    plan_name: str
    compiled: bool
    captured: bool
    capture_message: str | None = None
    populated: bool | None = None
    populate_message: str | None = None
    updated: bool | None = None
    update_message: str | None = None
    call_us: Samples | None = None
    replays: dict[Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}$")], Samples] = Field(default_factory=dict)
    new_data: bool | None = None
    bound: bool | None = None
    update_right: bool | None = None

    @property
    def removed_us(self) -> float | None:
        """Launch overhead that replaying the longest graph removes, per call."""
        if self.call_us is None or not self.replays:
            return None
        return self.call_us.median_us - self.replays[max(self.replays, key=int)].median_us


class Reuse(BaseModel):
    """A study of one graph. ``on_gpu`` False: built and loaded without a GPU, nothing was executed. ``repeats``: fresh
    processes per number."""

    model_config = FROZEN

    on_gpu: bool
    repeats: int = Field(ge=1)
    costs: tuple[PlanCost, ...]
    shapes: DynamicShapes | None = None
    graphs: tuple[GraphUse, ...] = ()
