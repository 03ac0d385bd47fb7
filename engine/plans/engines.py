"""Engines asked by id instead of through the heuristics: how many there are, what their knobs allow, and whether cuDNN
takes a choice of them.

Nothing here compiles: cuDNN finalizes an engine config in about a millisecond, and says no to most that cannot work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, model_validator

from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN
from engine.plans.building import PlanFailure
from engine.plans.candidates import note_names
from engine.plans.context import Context
from engine.plans.knobs import NOT_SET, unnamed_knobs
from engine.plans.lowering import lower
from engine.plans.refusals import innermost_reason
from engine.plans.sources import Replay
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Stage, Status


class KnobRange(BaseModel):
    """The values a knob takes: ``low``, ``low + stride``, ... up to ``high``."""

    model_config = FROZEN

    name: str
    low: int
    high: int
    stride: int = 1

    @model_validator(mode="after")
    def _not_empty(self) -> KnobRange:
        if self.stride < 1 or self.high < self.low:
            raise ValueError("a knob has at least one value")
        return self

    @property
    def values(self) -> range:
        """All of them."""
        return range(self.low, self.high + 1, self.stride)


@dataclass(frozen=True)
class EngineAnswer:
    """What one engine says to a graph: its knobs, and the plan of its default knobs, each with cuDNN's words where it
    has none to give."""

    knobs: tuple[KnobRange, ...]
    no_knobs: str | None
    plan: PlanRecord | None
    refused: str | None


def engine_count(cudnn: Any, spec: GraphSpec, context: Context) -> int:
    """How many engines cuDNN has for graphs of this kind; ids are 0 to that less one. Raises what cuDNN raises."""
    return int(_open_graph(cudnn, spec, context).get_engine_count())


def ask_engine(cudnn: Any, spec: GraphSpec, context: Context, engine_id: int) -> EngineAnswer:
    """Ask one engine.

    cuDNN tells knobs without regard to device properties: where the GPU is elsewhere, engines written for its
    architecture tell none, and those of the others may not be its.
    """
    ranges: tuple[KnobRange, ...] = ()
    no_knobs = refused = None
    try:
        ranges = _ranges(_open_graph(cudnn, spec, context).get_knobs_for_engine(engine_id))
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        no_knobs = innermost_reason(str(error))
    try:
        plan = check(cudnn, spec, context, PlanIdentity(engine_id=engine_id), PlanOrigin.ENGINE_LIST)
    except PlanFailure as failure:
        plan, refused = None, failure.message
    return EngineAnswer(ranges, no_knobs, plan, refused)


def check(cudnn: Any, spec: GraphSpec, context: Context, identity: PlanIdentity, origin: PlanOrigin) -> PlanRecord:
    """The plan as LISTED, where cuDNN finalizes it; raises PlanFailure where it does not. Builds nothing."""
    if unnamed := unnamed_knobs(cudnn, identity.knobs):
        raise PlanFailure(Status.UNSUPPORTED, Stage.LIST, f"this cuDNN frontend cannot set {', '.join(unnamed)}.")
    try:
        replay = Replay(cudnn, spec, context, identity)
        replay.check_support()
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        raise PlanFailure(Status.UNSUPPORTED, Stage.LIST, innermost_reason(str(error))) from None
    return PlanRecord(
        identity=identity,
        plan_name=replay.plan_name,
        modes={},
        origin=origin,
        status=Status.LISTED,
        stage=Stage.LIST,
        behavior_notes=note_names(replay.behavior_notes),
    )


def ranges_of(plans: Mapping[str, PlanRecord], engine_id: int) -> tuple[KnobRange, ...]:
    """Knob ranges as far as an engine's listed plans show them, for an engine that tells none: from the least value to
    the largest."""
    seen: dict[str, set[int]] = {}
    for plan in plans.values():
        if plan.identity.engine_id == engine_id:
            for name, value in plan.identity.knobs.items():
                seen.setdefault(name, set()).add(value)
    return tuple(KnobRange(name=name, low=min(values), high=max(values)) for name, values in sorted(seen.items()))


def _open_graph(cudnn: Any, spec: GraphSpec, context: Context) -> Any:
    """A graph that cuDNN itself holds. The frontend puts that off where it has a kernel of its own for it (attention);
    asking for the key makes up for it."""
    graph = lower(cudnn, spec, context)
    graph.validate()
    graph.build_operation_graph()
    if not hasattr(graph, "get_engine_count"):
        graph.key()
    return graph


def _ranges(knobs: Any) -> tuple[KnobRange, ...]:
    """Without those that the frontend has no name for: it could not set them."""
    return tuple(
        KnobRange(name=knob.type.name, low=knob.min_value, high=knob.max_value, stride=max(1, knob.stride))
        for knob in knobs
        if knob.type.name != NOT_SET and knob.max_value >= knob.min_value
    )
