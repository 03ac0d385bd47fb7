"""A whole operation graph as data: it crosses processes, files and uploads, and hashes to its ``graph_id``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from pydantic import BaseModel, Field, model_validator

from engine.graph.operations import AnyOperation
from engine.graph.operations.base import Operation
from engine.graph.tensors import FROZEN, DataType, Role, TensorSpec, packed_strides


class GraphSpec(BaseModel):
    """Tensors and the operations between them, operations in the order they run.

    ``io_dtype``: type of the real tensors unless they say otherwise; ``compute_dtype``: type of virtual tensors and
    arithmetic.
    """

    model_config = FROZEN

    io_dtype: DataType
    compute_dtype: DataType = DataType.FP32
    tensors: tuple[TensorSpec, ...] = Field(min_length=1, max_length=256)
    operations: tuple[AnyOperation, ...] = Field(min_length=1, max_length=128)

    @model_validator(mode="after")
    def _consistent(self) -> GraphSpec:
        by_uid = {tensor.uid: tensor for tensor in self.tensors}
        if len(by_uid) != len(self.tensors):
            raise ValueError("two tensors share a uid")
        known = {tensor.uid for tensor in self.tensors if tensor.role in (Role.INPUT, Role.SCALAR)}
        for operation in self.operations:
            if set(operation.inputs) != set(operation.input_ports) or set(operation.outputs) != set(
                operation.output_ports
            ):
                raise ValueError(f"operation {operation.name} does not have the ports of a {operation.kind}")
            if missing := set(operation.inputs.values()) - known:
                raise ValueError(f"operation {operation.name} reads tensors {sorted(missing)} before they are made")
            if unknown := set(operation.outputs.values()) - (set(by_uid) - known):
                raise ValueError(f"operation {operation.name} writes tensors {sorted(unknown)} that are not its own")
            inputs = {port: by_uid[uid] for port, uid in operation.inputs.items()}
            if any(operation.input_rank not in (None, len(tensor.dims)) for tensor in inputs.values()):
                raise ValueError(f"operation {operation.name} takes tensors of {operation.input_rank} dims")
            dims = operation.infer(inputs)
            for port, uid in operation.outputs.items():
                if by_uid[uid].dims != dims[port]:
                    raise ValueError(f"operation {operation.name} gives dims {dims[port]}, not {by_uid[uid].dims}")
            known |= set(operation.outputs.values())
        if unmade := set(by_uid) - known:
            raise ValueError(f"no operation makes tensors {sorted(unmade)}")
        return self

    @cached_property
    def by_uid(self) -> dict[int, TensorSpec]:
        """Tensors by uid."""
        return {tensor.uid: tensor for tensor in self.tensors}

    def with_role(self, *roles: Role) -> tuple[TensorSpec, ...]:
        """Tensors that take part in one of these ways, in uid order."""
        return tuple(sorted((t for t in self.tensors if t.role in roles), key=lambda t: t.uid))

    @property
    def real(self) -> tuple[TensorSpec, ...]:
        """Inputs, scalars and outputs: what a variant pack holds."""
        return self.with_role(Role.INPUT, Role.SCALAR, Role.OUTPUT)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the graph writes."""
        return self.with_role(Role.OUTPUT)

    @cached_property
    def graph_id(self) -> str:
        """16 hex digits over operations, attributes, dims, strides and types: no names, no values, no versions."""
        tensors = [[t.uid, t.dims, t.strides, t.dtype, t.role] for t in self.with_role(*Role)]
        operations = [
            [o.kind, sorted(o.inputs.items()), sorted(o.outputs.items()), sorted(o.attributes().items())]
            for o in self.operations
        ]
        text = json.dumps([self.io_dtype, self.compute_dtype, tensors, operations], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def flops(self) -> int:
        """Floating-point operations of the whole graph, a multiply-add counted as two."""
        tensors = self.by_uid
        return sum(
            o.flops({p: tensors[u] for p, u in o.inputs.items()}, {p: tensors[u] for p, u in o.outputs.items()})
            for o in self.operations
        )

    def bytes_moved(self) -> int:
        """The fewest bytes that must cross memory: every real tensor once."""
        return sum(tensor.nbytes for tensor in self.real)

    def walk(
        self, values: Mapping[int, Any], face: Callable[[Operation, dict[str, Any]], dict[str, Any]]
    ) -> dict[int, Any]:
        """Run ``face`` over the operations in order, from the values of inputs and scalars; gives every tensor's
        value by uid."""
        known = dict(values)
        for operation in self.operations:
            made = face(operation, {port: known[uid] for port, uid in operation.inputs.items()})
            known.update({operation.outputs[port]: value for port, value in made.items()})
        return known


class GraphBuilder:
    """Writes a GraphSpec the way one says it: inputs, then operations, then which results are outputs.

    Real tensors get uids 1, 2, 3, ... in the order they are named (inputs and scalars first, then outputs), virtual
    ones from 101. ``strides`` maps the dims of a result to its strides, as cuDNN infers them: an image keeps its layout
    from one operation to the next.
    """

    def __init__(
        self, io_dtype: DataType, strides: Callable[[tuple[int, ...]], tuple[int, ...]] = packed_strides
    ) -> None:
        self._io_dtype = io_dtype
        self._strides = strides
        self._tensors: dict[str, TensorSpec] = {}
        self._operations: list[dict[str, Any]] = []
        self._kinds: list[type[Operation]] = []
        self._outputs: dict[str, tuple[str, DataType]] = {}

    def input(self, name: str, dims: tuple[int, ...], strides: tuple[int, ...] | None = None) -> str:
        """Declare a real input in the I/O type; gives back its name."""
        return self._add(name, dims, strides or packed_strides(dims), self._io_dtype, Role.INPUT)

    def scalar(self, name: str, value: float, rank: int) -> str:
        """Declare a float32 host scalar of dims (1, ...)."""
        ones = (1,) * rank
        return self._add(name, ones, ones, DataType.FP32, Role.SCALAR, value)

    def apply(self, kind: type[Operation], name: str, inputs: dict[str, str], **attributes: Any) -> str:
        """Add an operation with one output; the output is virtual until ``output`` says otherwise. Gives the
        output's name."""
        specs = {port: self._tensors[tensor] for port, tensor in inputs.items()}
        draft = kind(name=name, inputs={p: t.uid for p, t in specs.items()}, outputs={"out": 1}, **attributes)
        dims = draft.infer(specs)["out"]
        made = self._add(f"{name}.out", dims, self._strides(dims), DataType.FP32, Role.VIRTUAL)
        self._kinds.append(kind)
        self._operations.append({"name": name, "inputs": inputs, "outputs": {"out": made}, **attributes})
        return made

    def output(self, tensor: str, name: str, dtype: DataType | None = None) -> None:
        """Make a result real, under a name people know."""
        self._outputs[tensor] = (name, dtype or self._io_dtype)

    def _add(
        self,
        name: str,
        dims: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: DataType,
        role: Role,
        value: float | None = None,
    ) -> str:
        uid = len(self._tensors) + 1
        self._tensors[name] = TensorSpec(
            uid=uid, name=name, dims=dims, strides=strides, dtype=dtype, role=role, value=value
        )
        return name

    def build(self) -> GraphSpec:
        """The finished, validated graph; the intermediate type follows the compute type, float32."""
        final: dict[str, TensorSpec] = {}
        given = [t for t in self._tensors.values() if t.role is not Role.VIRTUAL]
        virtual = [t for t in self._tensors.values() if t.role is Role.VIRTUAL and t.name not in self._outputs]
        for uid, tensor in enumerate(given, 1):
            final[tensor.name] = tensor.model_copy(update={"uid": uid})
        for uid, (made, (name, dtype)) in enumerate(self._outputs.items(), len(given) + 1):
            update = {"uid": uid, "name": name, "dtype": dtype, "role": Role.OUTPUT}
            final[made] = self._tensors[made].model_copy(update=update)
        for uid, tensor in enumerate(virtual, 101):
            final[tensor.name] = tensor.model_copy(update={"uid": uid})
        operations = tuple(
            kind(**{**o, "inputs": _uids(o["inputs"], final), "outputs": _uids(o["outputs"], final)})
            for kind, o in zip(self._kinds, self._operations, strict=True)
        )
        tensors = tuple(sorted(final.values(), key=lambda t: t.uid))
        return GraphSpec(io_dtype=self._io_dtype, tensors=tensors, operations=operations)  # type: ignore[arg-type]


def _uids(ports: dict[str, str], tensors: Mapping[str, TensorSpec]) -> dict[str, int]:
    return {port: tensors[name].uid for port, name in ports.items()}
