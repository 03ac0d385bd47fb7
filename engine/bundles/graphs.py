"""A graph as a bundle carries it: in Planscope's own words, as tensors for a caller, and as calls for a builder."""

from __future__ import annotations

import json
from typing import Any

from engine.bundles.contents import Call, GraphEntry, GraphFile, TensorEntry
from engine.graph.errors import invalid
from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role, TensorSpec
from engine.plans.calls import record_calls
from engine.records.run import RunRecord


def graph_file(graph: GraphSpec) -> GraphFile:
    """All of it."""
    types, calls = graph_calls(graph)
    return GraphFile(graph_id=graph.graph_id, spec=graph, tensors=tensor_entries(graph), types=types, calls=calls)


def graph_entry(run: RunRecord, number: int) -> GraphEntry:
    """What the index says of a run's graph."""
    taken = [tensor for tensor in run.graph.real if tensor.role is not Role.SCALAR]
    return GraphEntry(
        number=number,
        graph_id=run.graph_id,
        pipeline=run.pipeline,
        parameters=dict(run.parameters),
        dims={tensor.name: tensor.dims for tensor in taken},
        uids={tensor.name: tensor.uid for tensor in run.graph.real},
    )


def tensor_entries(graph: GraphSpec) -> tuple[TensorEntry, ...]:
    """Every tensor that a call takes."""
    return tuple(map(_tensor, graph.real))


def graph_calls(graph: GraphSpec) -> tuple[dict[str, Any], tuple[Call, ...]]:
    """What makes the graph on a ``cudnn.pygraph``."""
    recorded = record_calls(graph)
    return recorded["types"], tuple(Call.model_validate_json(json.dumps(call)) for call in recorded["calls"])


def _tensor(tensor: TensorSpec) -> TensorEntry:
    if tensor.role is Role.SCALAR and tensor.dtype.torch_name not in ("float32", "float16"):
        raise invalid(tensor.name, tensor.dtype, "a bundle passes scalars as fp32 or fp16.", "Change its type.")
    return TensorEntry(
        uid=tensor.uid,
        name=tensor.name,
        dims=tensor.dims,
        strides=tensor.strides,
        dtype=tensor.dtype,
        role=tensor.role,
        value=tensor.value,
        cudnn_dtype=tensor.dtype.cudnn_name,
        torch_dtype=tensor.dtype.torch_name,
        bytes=tensor.elements * tensor.dtype.itemsize,
    )
