"""A graph as one would write it in torch: calls that compute several operations at once, found by rewrite rules.

A rule is keyed on a sequence of operations, each reading what the one before it makes and nobody else reads; it knows
nothing of pipelines. What no rule takes runs by its own eager face.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.graph.operations import Attention, Binary, Convolution, Matmul
from engine.graph.operations.base import Operation
from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role

Values = Mapping[int, Any]
Test = Callable[[GraphSpec, Operation], bool]


@dataclass(frozen=True)
class Rule:
    """``tests``: one per operation of the sequence. ``run``: torch, the operations and all values by uid in, the last
    operation's output out."""

    name: str
    tests: tuple[Test, ...]
    run: Callable[[Any, Sequence[Any], Values], Any]


@dataclass(frozen=True)
class Call:
    """A step of the rewritten graph. ``label``: what is called; ``operations``: their places in the graph."""

    label: str
    operations: tuple[int, ...]
    run: Callable[[Any, Values], dict[int, Any]]


def calls(spec: GraphSpec) -> tuple[Call, ...]:
    """The graph as calls, each where its last operation stood; of two rules that fit, the longer one."""
    taken: dict[int, tuple[Rule, tuple[int, ...]]] = {}
    covered: set[int] = set()
    for first in range(len(spec.operations)):
        chain = _chain(spec, first)
        for rule in RULES:
            part = chain[: len(rule.tests)]
            fits = len(part) == len(rule.tests) and not covered.intersection(part)
            if fits and all(test(spec, spec.operations[i]) for test, i in zip(rule.tests, part, strict=True)):
                taken[part[-1]] = (rule, part)
                covered.update(part)
                break
    made = []
    for index, operation in enumerate(spec.operations):
        if index in taken:
            made.append(_rewritten(spec, *taken[index]))
        elif index not in covered:
            made.append(_plain(index, operation))
    return tuple(made)


def run_calls(torch: Any, steps: Sequence[Call], values: Values) -> dict[int, Any]:
    """Every value there is after the calls, by uid."""
    known = dict(values)
    for step in steps:
        known.update(step.run(torch, known))
    return known


def _chain(spec: GraphSpec, first: int) -> tuple[int, ...]:
    """Operations that follow from one another, from this one on: each the only reader of a virtual tensor."""
    places = [first]
    while True:
        (made, *others) = spec.operations[places[-1]].outputs.values()
        readers = [i for i, o in enumerate(spec.operations) if made in o.inputs.values()]
        if others or len(readers) != 1 or spec.by_uid[made].role is not Role.VIRTUAL:
            return tuple(places)
        follower = spec.operations[readers[0]]
        if follower.inputs[follower.input_ports[0]] != made:
            return tuple(places)
        places.append(readers[0])


def _rewritten(spec: GraphSpec, rule: Rule, places: tuple[int, ...]) -> Call:
    operations = tuple(spec.operations[i] for i in places)
    out = operations[-1].outputs["out"]
    return Call(rule.name, places, lambda torch, values: {out: rule.run(torch, operations, values)})


def _plain(index: int, operation: Operation) -> Call:
    def run(torch: Any, values: Values) -> dict[int, Any]:
        made = operation.eager(torch, {port: values[uid] for port, uid in operation.inputs.items()})
        return {operation.outputs[port]: value for port, value in made.items()}

    return Call(operation.label(), (index,), run)


def _is(kind: type[Operation]) -> Test:
    return lambda spec, operation: isinstance(operation, kind)


def _scales(spec: GraphSpec, operation: Operation) -> bool:
    """Times a host scalar."""
    scalar = isinstance(operation, Binary) and operation.mode == "mul"
    return scalar and spec.by_uid[operation.inputs["operand"]].role is Role.SCALAR


def _adds_channels(spec: GraphSpec, operation: Operation) -> bool:
    """Plus one number per channel."""
    if not isinstance(operation, Binary) or operation.mode != "add":
        return False
    dims = spec.by_uid[operation.inputs["operand"]].dims
    return len(dims) == 4 and dims[0] == 1 and dims[2:] == (1, 1)


def _adds_tensor(spec: GraphSpec, operation: Operation) -> bool:
    """Plus something that is in memory."""
    adds = isinstance(operation, Binary) and operation.mode == "add"
    return adds and spec.by_uid[operation.inputs["operand"]].role is not Role.SCALAR


def _conv_with_bias(torch: Any, operations: Sequence[Any], values: Values) -> Any:
    conv, bias = operations
    image, weight, added = values[conv.inputs["image"]], values[conv.inputs["weight"]], values[bias.inputs["operand"]]
    how = {"stride": conv.stride, "padding": conv.padding, "dilation": conv.dilation}
    return torch.nn.functional.conv2d(image, weight, added.reshape(-1).expand(weight.shape[0]), **how)


def _baddbmm(torch: Any, operations: Sequence[Any], values: Values) -> Any:
    product, *middle, bias = operations
    a, b, added = values[product.inputs["a"]], values[product.inputs["b"]], values[bias.inputs["operand"]]
    alpha = values[middle[0].inputs["operand"]] if middle else 1.0
    return torch.baddbmm(added.expand(a.shape[0], a.shape[1], b.shape[2]), a, b, alpha=alpha)


def _attention(torch: Any, operations: Sequence[Any], values: Values) -> Any:
    (attention,) = operations
    ports = {port: values[uid] for port, uid in attention.inputs.items()}
    return attention.eager(torch, ports)["out"]


RULES: tuple[Rule, ...] = (
    Rule("baddbmm with alpha", (_is(Matmul), _scales, _adds_tensor), _baddbmm),
    Rule("baddbmm", (_is(Matmul), _adds_tensor), _baddbmm),
    Rule("conv2d with bias", (_is(Convolution), _adds_channels), _conv_with_bias),
    Rule("scaled_dot_product_attention", (_is(Attention),), _attention),
)
"""Longer ones first."""


def calls_bytes(spec: GraphSpec) -> int:
    """What the calls must read and write: each its inputs and outputs once, what was virtual in the I/O type."""
    total = 0
    for step in calls(spec):
        operations = [spec.operations[i] for i in step.operations]
        made = {uid for operation in operations for uid in operation.outputs.values()}
        read = {uid for operation in operations for uid in operation.inputs.values()} - made
        written = {uid for uid in made if spec.by_uid[uid].is_real or uid == operations[-1].outputs.get("out")}
        for tensor in (spec.by_uid[uid] for uid in read | written):
            total += tensor.nbytes if tensor.is_real else tensor.elements * spec.io_dtype.itemsize
    return total
