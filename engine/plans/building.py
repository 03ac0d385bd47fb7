"""Building one execution plan by its identity, serializing it, and loading such a serialized plan."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from engine.graph.spec import GraphSpec
from engine.graph.tensors import TensorSpec
from engine.plans.candidates import note_names
from engine.plans.context import Context
from engine.plans.lowering import data_type, lower
from engine.plans.refusals import innermost_reason
from engine.records.plan import PlanIdentity, Stage, Status


class PlanFailure(Exception):
    """A plan that could not be built, serialized or loaded: how its record ends."""

    def __init__(self, status: Status, stage: Stage, message: str) -> None:
        super().__init__(message)
        self.status, self.stage, self.message = status, stage, message


@dataclass(frozen=True)
class Built:
    """A built plan. ``build_ms``: creating the plan from its identity and finalizing it, wall clock."""

    blob: bytes
    plan_name: str
    workspace_bytes: int
    behavior_notes: tuple[str, ...]
    numerical_notes: tuple[str, ...]
    build_ms: float


def build(cudnn: Any, spec: GraphSpec, context: Context, identity: PlanIdentity, plan_name: str | None = None) -> Built:
    """Build and serialize the plan of ``identity``; raises PlanFailure.

    ``plan_name``: what the heuristics called it. A replay that gives a plan of another name is not the plan that was
    offered, and fails.
    """
    knobs = _knobs(cudnn, identity)
    try:
        graph = _operation_graph(cudnn, spec, context)
        started = time.perf_counter()
        graph.create_execution_plan(identity.engine_id, knobs)
        created = time.perf_counter()
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        raise PlanFailure(Status.UNSUPPORTED, Stage.BUILD, innermost_reason(str(error))) from None
    name = graph.get_plan_name_at_index(0)
    if plan_name is not None and name != plan_name:
        raise PlanFailure(Status.BUILD_FAILED, Stage.BUILD, f"its identity replays as {name}, not as {plan_name}.")
    notes = _numerical_notes(cudnn, spec, context, identity, knobs)
    try:
        resumed = time.perf_counter()
        graph.build_plan_at_index(0)
        built = time.perf_counter()
        blob = bytes(graph.serialize(as_bytes=True))
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        raise PlanFailure(Status.BUILD_FAILED, Stage.BUILD, innermost_reason(str(error))) from None
    return Built(
        blob=blob,
        plan_name=name,
        workspace_bytes=graph.get_workspace_size_plan_at_index(0),
        behavior_notes=note_names(graph.get_behavior_notes_for_plan_at_index(0)),
        numerical_notes=notes,
        build_ms=(created - started + built - resumed) * 1e3,
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
    """Ask a loaded graph for every real tensor by its uid; raises PlanFailure where dims, strides or type are not the
    spec's."""
    for tensor in spec.real:
        try:
            found = graph.query_tensor_attributes_of_uid(tensor.uid)
        except RuntimeError as error:
            message = f"the loaded plan does not know tensor {tensor.name} (uid {tensor.uid}): {error}"
            raise PlanFailure(Status.BUILD_FAILED, Stage.LOAD, message) from None
        if _geometry(found) != (list(tensor.dims), list(tensor.strides), data_type(cudnn, tensor.dtype)):
            message = f"the loaded plan has another tensor under uid {tensor.uid}, where {_told(tensor)} was built."
            raise PlanFailure(Status.BUILD_FAILED, Stage.LOAD, message)


def _geometry(tensor: Any) -> tuple[list[int], list[int], Any]:
    return list(tensor.get_dim()), list(tensor.get_stride()), tensor.get_data_type()


def _told(tensor: TensorSpec) -> str:
    return f"{tensor.name} {tensor.dims}"


def _operation_graph(cudnn: Any, spec: GraphSpec, context: Context) -> Any:
    graph = lower(cudnn, spec, context)
    graph.validate()
    graph.build_operation_graph()
    return graph


def _knobs(cudnn: Any, identity: PlanIdentity) -> dict[Any, int]:
    known = cudnn.knob_type.__members__
    if unknown := [name for name in identity.knobs if name not in known]:
        message = f"this cuDNN version has no knob {', '.join(unknown)}."
        raise PlanFailure(Status.UNSUPPORTED, Stage.BUILD, message)
    return {known[name]: value for name, value in identity.knobs.items()}


def _numerical_notes(
    cudnn: Any, spec: GraphSpec, context: Context, identity: PlanIdentity, knobs: dict[Any, int]
) -> tuple[str, ...]:
    """Names of the plan's numerical notes. No call gives them: each is asked for by excluding plans that carry it from
    a graph that holds this plan alone. Exclusions add up, so a note that was found costs a fresh graph."""
    found: list[str] = []
    graph = None
    for name, note in cudnn.numerical_note.__members__.items():
        if name == "NOT_SET":
            continue
        if graph is None:
            graph = _operation_graph(cudnn, spec, context)
            graph.create_execution_plan(identity.engine_id, knobs)
        graph.deselect_numeric_notes([note])
        try:
            graph.check_support()
        except (cudnn.cudnnGraphNotSupportedError, RuntimeError):
            found.append(name)
            graph = None
    return tuple(found)
