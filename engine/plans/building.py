"""Building one execution plan by its identity, serializing it, and loading such a serialized plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.graph.spec import GraphSpec
from engine.plans.candidates import note_names
from engine.plans.context import Context
from engine.plans.lowering import data_type
from engine.plans.refusals import innermost_reason
from engine.plans.sources import open_source
from engine.records.plan import PlanIdentity, Stage, Status


class PlanFailure(Exception):
    """A plan that could not be built, serialized or loaded: how its record ends."""

    def __init__(self, status: Status, stage: Stage, message: str) -> None:
        super().__init__(message)
        self.status, self.stage, self.message = status, stage, message


@dataclass(frozen=True)
class Built:
    """A built plan. ``build_ms``: creating the plan from its identity and finalizing it, wall clock. ``remark``: what
    its record should say beside."""

    blob: bytes
    plan_name: str
    workspace_bytes: int
    behavior_notes: tuple[str, ...]
    numerical_notes: tuple[str, ...]
    build_ms: float
    remark: str | None = None


def build(
    cudnn: Any,
    spec: GraphSpec,
    context: Context,
    identity: PlanIdentity,
    plan_name: str | None = None,
    modes: Sequence[str] = (),
) -> Built:
    """Build and serialize the plan of ``identity``; raises PlanFailure.

    ``plan_name``: what the heuristics called it. Where the identity replays as another plan, or cannot be replayed, the
    plan is taken from the list of one of ``modes`` instead, and the remark says so.
    """
    try:
        source, remark = open_source(cudnn, spec, context, identity, plan_name, modes)
    except LookupError as error:
        raise PlanFailure(Status.UNSUPPORTED, Stage.BUILD, str(error.args[0])) from None
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        raise PlanFailure(Status.UNSUPPORTED, Stage.BUILD, innermost_reason(str(error))) from None
    notes = tuple(
        name
        for name, note in cudnn.numerical_note.__members__.items()
        if name != "NOT_SET" and source.excluded_by(note)
    )
    try:
        graph, index, build_ms = source.build()
        blob = bytes(graph.serialize(as_bytes=True))
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        raise PlanFailure(Status.BUILD_FAILED, Stage.BUILD, innermost_reason(str(error))) from None
    return Built(
        blob=blob,
        plan_name=graph.get_plan_name_at_index(index),
        workspace_bytes=graph.get_workspace_size_plan_at_index(index),
        behavior_notes=note_names(graph.get_behavior_notes_for_plan_at_index(index)),
        numerical_notes=notes,
        build_ms=build_ms,
        remark=remark,
    )


def load(cudnn: Any, context: Context, blob: bytes) -> tuple[Any, float]:
    """A graph that holds the serialized plan, and the milliseconds that took; raises PlanFailure."""
    graph = context.graph(cudnn)
    started = time.perf_counter()
    try:
        graph.deserialize(blob) if context.handle is None else graph.deserialize(context.handle, blob)
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        raise PlanFailure(Status.BUILD_FAILED, Stage.LOAD, innermost_reason(str(error))) from None
    return graph, (time.perf_counter() - started) * 1e3


def check_loaded(cudnn: Any, graph: Any, spec: GraphSpec) -> None:
    """Ask a loaded graph for every real tensor by its uid; raises PlanFailure where it is not the memory that the spec
    describes. Axes may come in another order: cuDNN up to 9.20 keeps an attention's K as its transpose."""
    for tensor in spec.real:
        try:
            found = graph.query_tensor_attributes_of_uid(tensor.uid)
        except RuntimeError as error:
            message = f"the loaded plan does not know tensor {tensor.name} (uid {tensor.uid}): {error}"
            raise PlanFailure(Status.BUILD_FAILED, Stage.LOAD, message) from None
        axes = sorted(zip(found.get_dim(), found.get_stride(), strict=True))
        wanted = sorted(zip(tensor.dims, tensor.strides, strict=True))
        if axes != wanted or found.get_data_type() != data_type(cudnn, tensor.dtype):
            message = f"the loaded plan has another tensor under uid {tensor.uid}, where {tensor.name} was built."
            raise PlanFailure(Status.BUILD_FAILED, Stage.LOAD, message)
