"""From a GraphSpec to a ``cudnn.pygraph``, with every uid, name, dim, stride and type said, so that nothing is left to
guess."""

from __future__ import annotations

from typing import Any

from engine.graph.operations.base import Operation
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType, Role, TensorSpec
from engine.plans.context import Context


def lower(cudnn: Any, spec: GraphSpec, context: Context) -> Any:
    """A new graph of ``spec``, not yet validated.

    Virtual tensors get the strides of the spec too: an image whose layout were left to default would lose engines.
    """
    graph = context.graph(
        cudnn,
        io_data_type=data_type(cudnn, spec.io_dtype),
        intermediate_data_type=data_type(cudnn, spec.compute_dtype),
        compute_data_type=data_type(cudnn, spec.compute_dtype),
    )

    def face(operation: Operation, inputs: dict[str, Any]) -> dict[str, Any]:
        made = operation.lower(cudnn, graph, inputs)
        for port, tensor in made.items():
            _describe(cudnn, tensor, spec.by_uid[operation.outputs[port]])
        return made

    given = spec.with_role(Role.INPUT, Role.SCALAR)
    spec.walk({tensor.uid: _declare(cudnn, graph, tensor) for tensor in given}, face)
    return graph


def data_type(cudnn: Any, dtype: DataType) -> Any:
    """The member of ``cudnn.data_type``."""
    return getattr(cudnn.data_type, dtype.cudnn_name)


def _declare(cudnn: Any, graph: Any, tensor: TensorSpec) -> Any:
    return graph.tensor(
        name=tensor.name,
        dim=list(tensor.dims),
        stride=list(tensor.strides),
        data_type=data_type(cudnn, tensor.dtype),
        is_pass_by_value=tensor.role is Role.SCALAR,
        uid=tensor.uid,
    )


def _describe(cudnn: Any, made: Any, tensor: TensorSpec) -> None:
    made.set_uid(tensor.uid)
    made.set_name(tensor.name)
    made.set_dim(list(tensor.dims))
    made.set_stride(list(tensor.strides))
    made.set_data_type(data_type(cudnn, tensor.dtype))
    made.set_output(tensor.is_real)
