"""A graph grown one operation at a time: what each operation added to an epilogue costs, fused and unfused."""

from __future__ import annotations

from dataclasses import dataclass

from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role, TensorSpec


@dataclass(frozen=True)
class Stage:
    """The first operations of a graph as a graph. ``added``: the label of the last of them."""

    added: str
    spec: GraphSpec


def growth(spec: GraphSpec) -> tuple[Stage, ...]:
    """The graph of the first operation, of the first two, and so on; the last one is the graph itself.

    Tensors keep their uids. What nobody in a stage reads any more becomes its output, in the I/O type.
    """
    return tuple(
        Stage(operation.label(), spec if last == len(spec.operations) else _prefix(spec, last))
        for last, operation in enumerate(spec.operations, 1)
    )


def _prefix(spec: GraphSpec, length: int) -> GraphSpec:
    operations = spec.operations[:length]
    read = {uid for operation in operations for uid in operation.inputs.values()}
    made = {uid for operation in operations for uid in operation.outputs.values()}

    def as_there(tensor: TensorSpec) -> TensorSpec:
        if tensor.uid not in made or tensor.uid in read or tensor.role is not Role.VIRTUAL:
            return tensor
        return tensor.model_copy(update={"role": Role.OUTPUT, "dtype": spec.io_dtype})

    tensors = tuple(as_there(tensor) for tensor in spec.tensors if tensor.uid in read | made)
    return GraphSpec(io_dtype=spec.io_dtype, compute_dtype=spec.compute_dtype, tensors=tensors, operations=operations)
