"""What a comparison of fused and unfused versions of one graph asked and saw.

All versions come from one GraphSpec and ran on the same data, interleaved. A version that failed, or whose result is
wrong, has a message and no timings; nothing is left out for it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, Field, model_validator

from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN, LARGEST
from engine.records.environment import Environment
from engine.records.options import Preset
from engine.records.passport import OutputAccuracy
from engine.records.run import Refusal, RunStatus, TargetInfo
from engine.records.samples import Samples
from engine.records.timings import Timings

Count = Annotated[int, Field(ge=0, le=LARGEST)]
"""Of bytes, operations, plans."""


class VersionKind(StrEnum):
    """A way to run the graph. ``eager``: torch, operation by operation; ``idiomatic``: torch as one would write it;
    ``compiled``, ``autotuned``: that by torch.compile, default and max-autotune; ``unfused``: cuDNN, a graph per
    operation; ``first_pick``, ``tuned``: cuDNN, one graph, with the heuristics' first plan and with the fastest; the
    others: torch's attention with one backend alone."""

    EAGER = "eager"
    IDIOMATIC = "idiomatic"
    COMPILED = "compiled"
    AUTOTUNED = "autotuned"
    UNFUSED = "unfused"
    FIRST_PICK = "first_pick"
    TUNED = "tuned"
    FLASH = "sdpa_flash"
    EFFICIENT = "sdpa_efficient"
    CUDNN = "sdpa_cudnn"
    MATH = "sdpa_math"

    @property
    def is_torch(self) -> bool:
        """Whether torch runs it."""
        return self not in (VersionKind.UNFUSED, VersionKind.FIRST_PICK, VersionKind.TUNED)

    @property
    def words(self) -> str:
        """For people."""
        return WORDS[self]


WORDS = {
    VersionKind.EAGER: "torch eager, operation by operation",
    VersionKind.IDIOMATIC: "torch eager, as one writes it",
    VersionKind.COMPILED: "torch.compile",
    VersionKind.AUTOTUNED: "torch.compile, max-autotune",
    VersionKind.UNFUSED: "cuDNN unfused",
    VersionKind.FIRST_PICK: "cuDNN fused, first pick",
    VersionKind.TUNED: "cuDNN fused, tuned",
    VersionKind.FLASH: "torch SDPA, flash",
    VersionKind.EFFICIENT: "torch SDPA, memory-efficient",
    VersionKind.CUDNN: "torch SDPA, cuDNN",
    VersionKind.MATH: "torch SDPA, math",
}
OTHERS = {"fill": "memset", "copy": "memcpy"}
"""What the GPU does in an execution and is no kernel."""
SDPA_BACKENDS = (VersionKind.FLASH, VersionKind.EFFICIENT, VersionKind.CUDNN, VersionKind.MATH)


class Launch(BaseModel):
    """One piece of work on the GPU in one execution, as the profiler saw it."""

    model_config = FROZEN

    name: str = Field(max_length=300)
    kind: Literal["kernel", "copy", "fill"]
    us: float = Field(ge=0)


class Version(BaseModel):
    """One version and what it gave.

    ``detail``: what runs, in a few words. ``plan``: a cuDNN plan's key and name. ``launches``: None where the profiler
    saw nothing. ``bytes_moved``: what must cross memory by the version's own steps, of which a call of torch is one
    whatever it launches; None where those are not known, as in compiled code. ``memory_bytes``: allocated beside the
    inputs while it ran, outputs included. ``compile_s``: the first call, with everything that happens once.
    """

    model_config = FROZEN

    kind: VersionKind
    detail: str = Field(default="", max_length=500)
    plan: tuple[str, str] | None = None
    timings: Timings | None = None
    launches: tuple[Launch, ...] | None = Field(default=None, max_length=1000)
    bytes_moved: Count | None = None
    accuracy: tuple[OutputAccuracy, ...] = ()
    memory_bytes: Count | None = None
    compile_s: float | None = Field(default=None, ge=0)
    message: str | None = None

    @model_validator(mode="after")
    def _timed_where_right(self) -> Version:
        if self.timings is None and not self.message:
            raise ValueError(f"{self.kind}: a version without timings says why")
        if self.timings is not None and not (self.accuracy and all(output.passed for output in self.accuracy)):
            raise ValueError(f"{self.kind}: only a version whose outputs were found right has timings")
        return self

    @property
    def kernels(self) -> int | None:
        """Launched per execution; copies and fills are no kernels."""
        return None if self.launches is None else sum(launch.kind == "kernel" for launch in self.launches)

    @property
    def launched(self) -> str | None:
        """Kernels, and beside them the copies and fills, which are none but take their time too."""
        if self.launches is None:
            return None
        kinds = [launch.kind for launch in self.launches]
        others = [f"{kinds.count(kind)} {word}" for kind, word in OTHERS.items() if kind in kinds]
        return " + ".join([str(self.kernels), *others])


class PieceRecord(BaseModel):
    """One graph of those the whole was cut into. ``runs_on``: torch where cuDNN refuses the piece alone, which
    ``refusal`` tells; ``hot``: its own GPU time; ``contracts``: whether it sums products."""

    model_config = FROZEN

    label: str
    origin: int = Field(ge=0)
    contracts: bool
    runs_on: Literal["cudnn", "torch"]
    plan: tuple[str, str] | None = None
    plans: Count = 0
    refusal: Refusal | None = None
    bytes_moved: Count
    flops: Count
    hot: Samples | None = None

    @model_validator(mode="after")
    def _says_why(self) -> PieceRecord:
        if (self.runs_on == "torch") != (self.refusal is not None):
            raise ValueError(f"piece {self.label}: torch runs what cuDNN refuses, and nothing else")
        return self


class GrowthRecord(BaseModel):
    """The graph's first operations, fused and unfused. ``added``: the last of them."""

    model_config = FROZEN

    added: str
    graph_id: str
    pieces: tuple[PieceRecord, ...]
    fused_bytes: Count
    unfused_bytes: Count
    versions: tuple[Version, ...] = ()
    refusal: Refusal | None = None

    def version(self, kind: VersionKind) -> Version | None:
        """The version of a kind."""
        return next((version for version in self.versions if version.kind is kind), None)


class MeasuredCeilings(BaseModel):
    """What this GPU did in the same run: copying ``copy_bytes`` (read and written: twice a buffer), one large matmul of
    ``matmul_flops`` in the I/O type, and the smallest kernel there is, each per execution in a CUDA graph."""

    model_config = FROZEN

    copy_bytes: int = Field(ge=1, le=LARGEST)
    copy_us: Samples
    matmul_flops: int = Field(ge=1, le=LARGEST)
    matmul_us: Samples
    launch_us: Samples

    @property
    def copy_gbps(self) -> float:
        """Bandwidth, GB/s."""
        return self.copy_bytes / self.copy_us.median_us * 1e-3

    @property
    def matmul_tflops(self) -> float:
        """Matrix rate, TFLOP/s."""
        return self.matmul_flops / self.matmul_us.median_us * 1e-6


class FusionRecord(BaseModel):
    """The whole comparison. Without ``versions`` it was only planned. ``parameters``: the pipeline's, as texts;
    ``fused_refusal``: cuDNN's, where it has no plan for the whole graph."""

    model_config = FROZEN

    format_version: Literal[1] = 1
    id: str = Field(pattern=r"^[0-9a-f]{32}$")
    status: RunStatus
    pipeline: str
    parameters: dict[str, str]
    graph: GraphSpec
    target: TargetInfo
    environment: Environment
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    preset: Preset = Preset.STANDARD
    started_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    message: str | None = None
    pieces: tuple[PieceRecord, ...] = ()
    fused_plans: Count = 0
    fused_refusal: Refusal | None = None
    versions: tuple[Version, ...] = ()
    growth: tuple[GrowthRecord, ...] = ()
    ceilings: MeasuredCeilings | None = None
    remarks: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _measured_somewhere(self) -> FusionRecord:
        if self.versions and self.environment.gpu is None:
            raise ValueError("what was measured was measured on a GPU")
        if len({version.kind for version in self.versions}) != len(self.versions):
            raise ValueError("a version stands in a record once")
        return self

    @property
    def single(self) -> bool:
        """Whether the graph is one operation that is no several, with nothing to fuse."""
        return len(self.pieces) == 1

    @property
    def measured(self) -> bool:
        """Whether anything has a time."""
        return any(version.timings is not None for version in self.versions)

    def version(self, kind: VersionKind) -> Version | None:
        """The version of a kind."""
        return next((version for version in self.versions if version.kind is kind), None)

    def timed(self, kind: VersionKind) -> Timings | None:
        """Its timings."""
        version = self.version(kind)
        return None if version is None else version.timings

    @property
    def what(self) -> str:
        """The pipeline and its parameters."""
        return " ".join((self.pipeline, *(f"{letter}={value}" for letter, value in self.parameters.items() if value)))

    @property
    def label(self) -> str:
        """What and when."""
        return f"{self.what} ({self.started_at:%Y-%m-%d %H:%M} UTC)"
