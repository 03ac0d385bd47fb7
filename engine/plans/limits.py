"""What can be said about a graph on a target without asking cuDNN: whether its tensors fit into the GPU's memory.

Limits that are cuDNN's (head dims, channel multiples, the oldest architecture of an operation) are cuDNN's to state:
see ``candidates``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.graph.errors import FieldError, InvalidInput, invalid
from engine.graph.pipelines import Parameters, Pipeline
from engine.graph.spec import GraphSpec
from engine.records.run import TargetInfo

GIB = 2**30


def check_memory(
    spec: GraphSpec, target: TargetInfo, pipeline: Pipeline[Any] | None = None, given: Mapping[str, Any] | None = None
) -> None:
    """Raise InvalidInput when the graph's real tensors alone exceed the target's memory.

    With ``pipeline`` and the parameters ``given`` to it, the error names the size letter that saves most, and the
    largest value of it that fits, found by building the graph with smaller ones.
    """
    total = sum(tensor.nbytes for tensor in spec.real)
    if total <= target.memory_bytes:
        return
    rule = f"the tensors of this graph take {_size(total)}, but {target.gpu_name} has {_size(target.memory_bytes)}."
    if pipeline is not None:
        parameters = pipeline.parse(given or {})
        for letter in _heaviest_letters(pipeline, parameters, total):
            value = getattr(parameters, letter)
            if (fitting := _largest_that_fits(pipeline, parameters, letter, target.memory_bytes)) is not None:
                raise InvalidInput(FieldError(letter, f"{value:,}", rule, f"{letter} = {fitting:,} or less fits."))
        for letter in _heaviest_letters(pipeline, parameters, total)[:1]:
            value = getattr(parameters, letter)
            remedy = f"Even {letter} = 1 does not fit: reduce another size as well."
            raise InvalidInput(FieldError(letter, f"{value:,}", rule, remedy))
    largest = max(spec.real, key=lambda tensor: tensor.nbytes)
    dims = "x".join(map(str, largest.dims))
    raise invalid(largest.name, dims, rule, f"Its largest tensor is {largest.name} with {_size(largest.nbytes)}.")


def _size(count: int) -> str:
    size = count / GIB
    for unit in ("GiB", "TiB", "PiB"):
        if size < 10_000:
            return f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} EiB"


def _heaviest_letters(pipeline: Pipeline[Any], parameters: Parameters, total: int) -> list[str]:
    """Size letters whose halving saves memory, those that save most first (ties in the pipeline's order)."""
    savings: dict[str, int] = {}
    for field in pipeline.fields():
        value = getattr(parameters, field.letter)
        if field.kind != "int" or not isinstance(value, int) or value < 2:
            continue
        smaller = _bytes_with(pipeline, parameters, field.letter, value // 2)
        if smaller is not None and smaller < total:
            savings[field.letter] = total - smaller
    return sorted(savings, key=lambda letter: -savings[letter])


def _bytes_with(pipeline: Pipeline[Any], parameters: Parameters, letter: str, value: int) -> int | None:
    """Bytes of the real tensors with one letter changed; None where that is no legal graph."""
    try:
        spec = pipeline.graph({**parameters.model_dump(), letter: value})
    except InvalidInput:
        return None
    return sum(tensor.nbytes for tensor in spec.real)


def _largest_that_fits(pipeline: Pipeline[Any], parameters: Parameters, letter: str, memory: int) -> int | None:
    """By bisection, for memory grows with every size; None where no legal smaller value fits."""
    low, high = 0, int(getattr(parameters, letter))
    while high - low > 1:
        middle = (low + high) // 2
        count = _bytes_with(pipeline, parameters, letter, middle)
        if count is not None and count > memory:
            high = middle
        else:
            low = middle
    count = _bytes_with(pipeline, parameters, letter, low) if low else None
    return low if count is not None and count <= memory else None
