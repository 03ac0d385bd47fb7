"""What the drawing of an operation graph says: its nodes with their lines of text, and the facts behind each. Pure.

Names may come from a stranger's run file: they are cleaned of control characters here, and escaped where drawn.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from app.graph_layers import Arrow, Box
from app.theme import fmt_bytes, fmt_flops, fmt_number
from engine.graph.operations.base import Operation
from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role, TensorSpec

Shape = Literal["operation", "input", "output", "scalar", "virtual"]
ROLE_WORDS: dict[Role, str] = {
    Role.INPUT: "input",
    Role.OUTPUT: "output",
    Role.VIRTUAL: "virtual",
    Role.SCALAR: "host scalar",
}
NAME_PX, VALUE_PX, SMALL_PX = 13.0, 12.0, 10.5
"""Font sizes of a name, of dims, and of strides and attributes."""
PADDING = 10.0
_ADVANCE = 0.605
"""Width of a character of a monospaced font, in font sizes: 0.6 for Source Code Pro, 0.602 for DejaVu Sans Mono."""
_NAME_LIMIT, _LINE_LIMIT, _NUMBER_LIMIT = 18, 26, 15


@dataclass(frozen=True)
class Node:
    """A node of the drawing. ``id`` survives a change of shapes; ``title`` is its name, ``tag`` its type; ``values``
    are dims, ``small`` strides or attributes, an entry per line; ``spoken`` is its whole text for a screen reader."""

    id: str
    shape: Shape
    title: str
    tag: str
    values: tuple[str, ...]
    small: tuple[str, ...]
    spoken: str

    @property
    def box(self) -> Box:
        """The room its text needs."""
        head = (len_wide(self.title) + (len_wide(self.tag) + 1.5 if self.tag else 0)) * NAME_PX
        widths = [head, *(len_wide(v) * VALUE_PX for v in self.values), *(len_wide(s) * SMALL_PX for s in self.small)]
        height = 2 * PADDING + NAME_PX + 4 + len(self.values) * (VALUE_PX + 4) + len(self.small) * (SMALL_PX + 3.5)
        return Box(self.id, max(max(widths) * _ADVANCE + 2 * PADDING, 72.0), max(height - 4, 44.0))


def tensor_id(tensor: TensorSpec) -> str:
    """Id of a tensor's node."""
    return f"t{tensor.uid}.{tensor.name}"


def operation_id(index: int, operation: Operation) -> str:
    """Id of an operation's node; ``index`` is its place in the graph."""
    return f"o{index}.{operation.name}"


def graph_nodes(spec: GraphSpec) -> tuple[Node, ...]:
    """Every operation and every tensor as a node, tensors first."""
    operations = (_operation_node(i, operation) for i, operation in enumerate(spec.operations))
    return (*(_tensor_node(tensor) for tensor in spec.tensors), *operations)


def graph_arrows(spec: GraphSpec) -> tuple[Arrow, ...]:
    """An arrow into each operation per input port, and out of it per output port."""
    arrows = []
    for i, operation in enumerate(spec.operations):
        own = operation_id(i, operation)
        arrows += [Arrow(tensor_id(spec.by_uid[uid]), own) for uid in operation.inputs.values()]
        arrows += [Arrow(own, tensor_id(spec.by_uid[uid])) for uid in operation.outputs.values()]
    return tuple(dict.fromkeys(arrows))


def node_facts(spec: GraphSpec, node_id: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """Title and facts of a node for the panel beside the drawing; None where the graph has no such node."""
    for tensor in spec.tensors:
        if tensor_id(tensor) == node_id:
            return cleaned(tensor.name), _tensor_facts(spec, tensor)
    for i, operation in enumerate(spec.operations):
        if operation_id(i, operation) == node_id:
            return cleaned(operation.label()), _operation_facts(spec, operation)
    return None


def graph_facts(spec: GraphSpec) -> tuple[tuple[str, str], ...]:
    """What the whole graph costs, for the panel while no node is chosen."""
    flops, moved = spec.flops(), spec.bytes_moved()
    virtual = spec.with_role(Role.VIRTUAL)
    facts = [
        ("operations", ", ".join(cleaned(o.label()) for o in spec.operations)),
        ("real tensors", f"{len(spec.real)}, {fmt_bytes(moved)} that must cross memory at least once"),
        ("work", f"{fmt_flops(flops)}, {fmt_number(flops / max(moved, 1))} per byte"),
        ("types", f"I/O {spec.io_dtype}, compute {spec.compute_dtype}"),
        ("graph id", spec.graph_id),
    ]
    if virtual:
        saved = fmt_bytes(2 * sum(t.elements * spec.io_dtype.itemsize for t in virtual))
        facts.insert(
            2, ("virtual tensors", f"{len(virtual)}; unfused, writing and reading them would move {saved} more")
        )
    return tuple(facts)


def graph_table(spec: GraphSpec) -> pd.DataFrame:
    """The drawing as a table, in the order the graph runs: the same content for those who cannot see it."""
    rows: list[tuple[str, ...]] = []
    seen: set[int] = set()

    def add(uids: Iterable[int]) -> None:
        for uid in (u for u in uids if u not in seen):
            t = spec.by_uid[uid]
            seen.add(uid)
            rows.append(
                (cleaned(t.name), f"{ROLE_WORDS[t.role]} tensor", dims_text(t), strides_text(t), str(t.dtype), "")
            )

    for operation in spec.operations:
        add(operation.inputs.values())
        joins = f"{_names(spec, operation.inputs)} → {_names(spec, operation.outputs)}"
        rows.append((cleaned(operation.label()), "operation", "", "", str(spec.compute_dtype), joins))
        add(operation.outputs.values())
    return pd.DataFrame(rows, columns=["node", "what it is", "dims", "strides", "type", "reads → writes"], dtype="str")


def cleaned(text: str) -> str:
    """The text without control, formatting (also direction-changing) and unassigned characters."""
    return "".join("\ufffd" if unicodedata.category(c)[0] == "C" else c for c in text)


def len_wide(text: str) -> int:
    """Columns a text takes in a monospaced font."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def dims_text(tensor: TensorSpec) -> str:
    """32×128×56×56"""
    return "×".join(map(_number, tensor.dims))


def strides_text(tensor: TensorSpec) -> str:
    """401408, 1, 7168, 128: in elements, per dim."""
    return ", ".join(map(_number, tensor.strides))


def _tensor_node(tensor: TensorSpec) -> Node:
    name, word = cleaned(tensor.name), ROLE_WORDS[tensor.role]
    values = _wrapped([_number(d) for d in tensor.dims], "×")
    small = _wrapped([_number(s) for s in tensor.strides], ", ")
    if tensor.role is Role.SCALAR:
        values, small = (f"= {tensor.value:g}",), (f"dims {dims_text(tensor)}", f"strides {strides_text(tensor)}")
    spoken = f"{name}, {word} tensor, {tensor.dtype}, dims {dims_text(tensor)}, strides {strides_text(tensor)}"
    return Node(tensor_id(tensor), _shape(tensor), _shorter(name), str(tensor.dtype), values, small, spoken)


def _shape(tensor: TensorSpec) -> Shape:
    return {Role.INPUT: "input", Role.OUTPUT: "output", Role.SCALAR: "scalar", Role.VIRTUAL: "virtual"}[tensor.role]  # type: ignore[return-value]


def _operation_node(index: int, operation: Operation) -> Node:
    facts = [f"{name} {value}" for name, value in _attributes(operation)]
    title = cleaned(operation.label())
    spoken = ", ".join([f"{title}, operation {cleaned(operation.name)}", *facts])
    shown = tuple(_shorter(fact, _LINE_LIMIT) for fact in facts)
    return Node(operation_id(index, operation), "operation", _shorter(title), "", (), shown, spoken)


def _attributes(operation: Operation) -> list[tuple[str, str]]:
    """Attributes that the label does not already say: numbers, not modes and switches."""
    values = [(name, v) for name, v in operation.attributes().items() if not isinstance(v, bool | str)]
    return [(name.replace("_", " "), _attribute(value)) for name, value in values if value is not None]


def _attribute(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "×".join(map(_attribute, value))
    return (
        f"{value:g}" if isinstance(value, float) else _number(value) if isinstance(value, int) else cleaned(str(value))
    )


def _tensor_facts(spec: GraphSpec, tensor: TensorSpec) -> tuple[tuple[str, str], ...]:
    made = [o.label() for o in spec.operations if tensor.uid in o.outputs.values()]
    used = [o.label() for o in spec.operations if tensor.uid in o.inputs.values()]
    role = ROLE_WORDS[tensor.role] + (": never reaches memory" if tensor.role is Role.VIRTUAL else "")
    facts = [("role", role), ("dims", dims_text(tensor)), ("strides", f"{strides_text(tensor)} (elements)")]
    facts += [("type", str(tensor.dtype)), ("uid", str(tensor.uid)), ("elements", f"{tensor.elements:,}")]
    if tensor.role is Role.SCALAR:
        facts.append(("value", f"{tensor.value:g}, passed by value from the host"))
    elif tensor.is_real:
        facts.append(("size", fmt_bytes(tensor.nbytes)))
    facts.append(("made by", cleaned(", ".join(made)) or "the caller"))
    facts.append(("read by", cleaned(", ".join(used)) or "the caller"))
    return tuple(facts)


def _operation_facts(spec: GraphSpec, operation: Operation) -> tuple[tuple[str, str], ...]:
    inputs = {port: spec.by_uid[uid] for port, uid in operation.inputs.items()}
    outputs = {port: spec.by_uid[uid] for port, uid in operation.outputs.items()}
    attributes = [(name.replace("_", " "), _plain(value)) for name, value in operation.attributes().items()]
    facts = [("operation", operation.kind), ("name", cleaned(operation.name)), *attributes]
    facts += [(f"reads {port}", f"{cleaned(t.name)} ({dims_text(t)} {t.dtype})") for port, t in inputs.items()]
    facts += [(f"writes {port}", f"{cleaned(t.name)} ({dims_text(t)} {t.dtype})") for port, t in outputs.items()]
    facts += [("compute type", str(spec.compute_dtype)), ("work", fmt_flops(operation.flops(inputs, outputs)))]
    return tuple(facts)


def _plain(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else _attribute(value)


def _names(spec: GraphSpec, ports: dict[str, int]) -> str:
    return ", ".join(cleaned(spec.by_uid[uid].name) for uid in ports.values())


def _number(value: int) -> str:
    return _shorter(str(value), _NUMBER_LIMIT)


def _shorter(text: str, limit: int = _NAME_LIMIT) -> str:
    return text if len(text) <= limit else text[: limit // 2] + "…" + text[-(limit - limit // 2 - 1) :]


def _wrapped(parts: Sequence[str], separator: str) -> tuple[str, ...]:
    """The parts joined, over as many lines as their length asks for; a line that goes on ends in the separator."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(separator) + len(part) <= _LINE_LIMIT:
            lines[-1] += separator + part
        else:
            lines[-1] += separator.rstrip()
            lines.append(part)
    return tuple(lines)
