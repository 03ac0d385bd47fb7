"""Cutting a graph into graphs of one operation each, with real tensors between them: what fusing is compared with.

An operation may stand for several (see ``Operation.parts``), which become graphs of their own. A tensor keeps its uid
in every piece; what was virtual becomes real, in the I/O type, as a program that runs operation by operation has it.
Whether cuDNN takes a piece is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import count
from typing import Any

from pydantic import BaseModel, Field, model_validator

from engine.graph.operations.base import Operation, Part
from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN, Role, TensorSpec

FIRST_FRESH = 201
"""Uids of what only a cut graph has begin here; GraphBuilder numbers virtual tensors from 101."""

Face = Callable[[Operation, dict[str, Any]], dict[str, Any]]


class Piece(BaseModel):
    """A graph of one operation. ``origin``: which operation of the whole graph it is, or is a part of."""

    model_config = FROZEN

    spec: GraphSpec
    origin: int = Field(ge=0)

    @model_validator(mode="after")
    def _one_operation(self) -> Piece:
        if len(self.spec.operations) != 1:
            raise ValueError("a piece has one operation")
        return self

    @property
    def operation(self) -> Operation:
        """The one."""
        return self.spec.operations[0]

    @property
    def label(self) -> str:
        """For people."""
        return self.operation.label()


class Cut(BaseModel):
    """A graph and its pieces, in the order they run."""

    model_config = FROZEN

    graph: GraphSpec
    pieces: tuple[Piece, ...] = Field(min_length=1, max_length=512)

    @cached_property
    def owners(self) -> dict[int, TensorSpec]:
        """Every tensor of the pieces by uid, as whoever makes or gives it sees it; readers may see it otherwise."""
        found = {tensor.uid: tensor for tensor in self.graph.real}
        for piece in self.pieces:
            for tensor in piece.spec.tensors:
                found.setdefault(tensor.uid, tensor)
        return found

    @property
    def between(self) -> tuple[TensorSpec, ...]:
        """What one piece writes for another to read, and the whole graph need not have in memory, in uid order."""
        made = {uid for piece in self.pieces for uid in piece.operation.outputs.values()}
        real = {tensor.uid for tensor in self.graph.real}
        return tuple(self.owners[uid] for uid in sorted(made - real))

    @property
    def constants(self) -> tuple[tuple[TensorSpec, Operation, str], ...]:
        """Inputs that only the pieces have: the tensor, and the operation and port whose ``fill`` writes it."""
        return tuple(
            (self.owners[uid], piece.operation, port)
            for piece in self.pieces
            for port, uid in piece.operation.inputs.items()
            if port in piece.operation.constant_ports and uid not in self.graph.by_uid
        )

    @property
    def scalars(self) -> dict[int, float]:
        """Host scalars that only the pieces have, by uid."""
        return {
            tensor.uid: tensor.value
            for tensor in self.owners.values()
            if tensor.value is not None and tensor.uid not in self.graph.by_uid
        }

    def walk(self, values: Mapping[int, Any], face: Face) -> dict[int, Any]:
        """Run ``face`` over the pieces from the values of inputs, scalars and constants; gives what every piece made,
        by uid, and the graph's outputs as the graph sees them. Values are torch's tensors, or what has their
        ``as_strided``."""
        known = {**self.scalars, **values}
        for piece in self.pieces:
            known.update(self.step(piece, known, face))
        return known

    def step(self, piece: Piece, known: Mapping[int, Any], face: Face) -> dict[int, Any]:
        """Run ``face`` on one piece; gives what it made by uid, as its owner sees it."""
        tensors, operation = piece.spec.by_uid, piece.operation
        given = {port: self.seen(known[uid], tensors[uid]) for port, uid in operation.inputs.items()}
        return {
            operation.outputs[port]: self._owned(value, tensors[operation.outputs[port]])
            for port, value in face(operation, given).items()
        }

    def seen(self, value: Any, tensor: TensorSpec) -> Any:
        """A value under the dims and strides of one who touches it."""
        owner = self.owners[tensor.uid]
        if tensor.role is Role.SCALAR or (tensor.dims, tensor.strides) == (owner.dims, owner.strides):
            return value
        return _laid_out(value, owner).as_strided(tensor.dims, tensor.strides)

    def _owned(self, value: Any, tensor: TensorSpec) -> Any:
        owner = self.owners[tensor.uid]
        if (tensor.dims, tensor.strides) == (owner.dims, owner.strides):
            return value
        return _laid_out(value, tensor).as_strided(owner.dims, owner.strides)


def cut(spec: GraphSpec) -> Cut:
    """The smallest graphs that a graph can be cut into."""
    fresh = count(max(FIRST_FRESH, 1 + max(tensor.uid for tensor in spec.tensors)))
    pieces = []
    for origin, operation in enumerate(spec.operations):
        tensors = {port: spec.by_uid[uid] for port, uid in (operation.inputs | operation.outputs).items()}
        for part in operation.parts(tensors, lambda: next(fresh)):
            pieces.append(Piece(spec=_alone(spec, part), origin=origin))
    return Cut(graph=spec, pieces=tuple(pieces))


def _alone(spec: GraphSpec, part: Part) -> GraphSpec:
    """The graph of one operation: what it reads is an input, what it makes an output, all of it real."""
    made, io = set(part.operation.outputs.values()), spec.io_dtype
    tensors = {}
    for tensor in part.tensors:
        role = Role.OUTPUT if tensor.uid in made else tensor.role if tensor.role is Role.SCALAR else Role.INPUT
        dtype = tensor.dtype if tensor.is_real else io
        tensors[tensor.uid] = tensor.model_copy(update={"role": role, "dtype": dtype})
    return GraphSpec(
        io_dtype=io,
        compute_dtype=spec.compute_dtype,
        tensors=tuple(tensors[uid] for uid in sorted(tensors)),
        operations=(part.operation,),  # type: ignore[arg-type]
    )


def _laid_out(value: Any, tensor: TensorSpec) -> Any:
    """The value in the tensor's own strides, copied where torch chose others."""
    if tuple(value.stride()) == tensor.strides:
        return value
    return value.new_empty_strided(tensor.dims, tensor.strides).copy_(value)
