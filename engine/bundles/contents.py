"""What stands in a bundle's JSON files, as records: what writes them and what reads them share these. FORMAT.md is
their description for people."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN, DataType, Role
from engine.records.environment import Environment
from engine.records.options import SweepOptions
from engine.records.passport import OutputAccuracy
from engine.records.plan import PlanIdentity, PlanRecord
from engine.records.run import RunKind, TargetInfo
from engine.records.samples import Samples

FORMAT: Literal["planscope-bundle"] = "planscope-bundle"
VERSION: Literal[2] = 2
Dims = tuple[int, ...]


class GraphEntry(BaseModel):
    """A graph in the index: the dims and uids by which a loader picks it; ``pipeline`` and ``parameters`` are words."""

    model_config = FROZEN

    number: int = Field(ge=1)
    graph_id: str
    pipeline: str
    parameters: dict[str, str]
    dims: dict[str, Dims]
    uids: dict[str, int]


class PlanEntry(BaseModel):
    """A plan in the index, and the graph it is of."""

    model_config = FROZEN

    number: int = Field(ge=1)
    graph: int = Field(ge=1)
    plan_name: str
    plan_key: str
    measured: bool


class Manifest(BaseModel):
    """The index. The first plan of a graph is its default. ``label``: one sentence on what this is."""

    model_config = FROZEN

    format: Literal["planscope-bundle"] = FORMAT
    version: Literal[2] = VERSION
    label: str
    cudnn_backend: str
    cudnn_frontend: str
    target: TargetInfo
    graphs: tuple[GraphEntry, ...] = Field(min_length=1)
    plans: tuple[PlanEntry, ...] = Field(min_length=1)


class TensorEntry(BaseModel):
    """A tensor that a call takes: what memory it is, in words of cuDNN and of torch. ``value``: a scalar's, filled in
    where the call does not give another."""

    model_config = FROZEN

    uid: int
    name: str
    dims: Dims
    strides: Dims
    dtype: DataType
    role: Role
    value: float | None
    cudnn_dtype: str
    torch_dtype: str
    bytes: int


class Call(BaseModel):
    """One call on a ``cudnn.pygraph``, as ``engine.plans.calls`` records them."""

    model_config = FROZEN

    method: str
    arguments: dict[str, Any]
    results: tuple[dict[str, Any], ...]


class GraphFile(BaseModel):
    """graph-N.json. ``spec``: the graph as Planscope knows it; ``types`` and ``calls``: as cudnn builds it."""

    model_config = FROZEN

    graph_id: str
    spec: GraphSpec
    tensors: tuple[TensorEntry, ...]
    types: dict[str, Any]
    calls: tuple[Call, ...]


class Contender(BaseModel):
    """A plan of the tie set, or the heuristics' first pick: how to build it, and its hot samples when it was chosen."""

    model_config = FROZEN

    identity: PlanIdentity
    plan_name: str
    workspace_bytes: int | None
    hot: Samples


class Judged(BaseModel):
    """Who won, hot, and how sure that was. ``tie_set``: plan keys, the fastest first; ``contenders``: those of them,
    and the heuristics' first pick, as far as it was measured."""

    model_config = FROZEN

    winner: str | None
    reason: str | None
    tie_set: tuple[str, ...]
    first_pick: str | None
    sentences: tuple[str, ...]
    contenders: tuple[Contender, ...]


class RunFile(BaseModel):
    """run-N.json: where, when and how the plans of graph N were made, and measured if they were. ``chosen``: why the
    default is the default."""

    model_config = FROZEN

    run_id: str
    kind: RunKind
    started_at: AwareDatetime
    target: TargetInfo
    environment: Environment
    options: SweepOptions
    chosen: str
    verdict: Judged | None


class Recipe(BaseModel):
    """What names a plan for this graph: with it another cuDNN version may be able to build it anew."""

    model_config = FROZEN

    plan_name: str
    plan_key: str
    engine_id: int
    knobs: dict[str, int]
    graph_id: str
    cudnn_backend: str


class Measured(BaseModel):
    """Summaries of a plan's samples for people, microseconds; the samples themselves are in the record."""

    model_config = FROZEN

    gpu: str
    driver: str | None
    hot_us: dict[str, float | int]
    cold_us: dict[str, float | int] | None
    host_us: dict[str, float | int] | None
    accuracy: tuple[OutputAccuracy, ...]


class PlanFile(BaseModel):
    """plan-N.json. ``record``: the plan's whole record, samples included."""

    model_config = FROZEN

    recipe: Recipe
    workspace_bytes: int | None
    serialized_sha256: str
    serialized_bytes: int
    arithmetic: str | None
    measured: Measured | None
    record: PlanRecord
