"""A graph as the list of calls that makes it on a ``cudnn.pygraph``, in plain values.

A bundle carries this list, so that a loader which knows no operation by name can build the graph anew. It is recorded
from the same ``lower`` that builds every graph here: an operation that is added needs nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.graph.spec import GraphSpec
from engine.plans.context import Context
from engine.plans.lowering import lower

RESULTS = {
    "sdpa": 2,
    "sdpa_backward": 3,
    "genstats": 2,
    "layernorm": 3,
    "layernorm_backward": 3,
    "adalayernorm": 3,
    "adalayernorm_backward": 3,
    "rmsnorm": 2,
    "rmsnorm_backward": 3,
    "instancenorm": 3,
    "instancenorm_backward": 3,
    "batchnorm": 5,
    "batchnorm_backward": 3,
    "block_scale_quantize": 2,
}
"""Methods of ``cudnn.pygraph`` that give more than one tensor, and how many (cudnn-frontend 1.32)."""


def record_calls(spec: GraphSpec) -> dict[str, Any]:
    """``types``: what ``cudnn.pygraph`` is made with. ``calls``: each with its ``method``, its ``arguments`` by name,
    and one of ``results`` per tensor it gives: what is set on it, by setter without ``set_``, or None where nothing is.

    An argument is a plain value, {"enum": "data_type.FLOAT"} or {"tensor": n}, the n-th of all results so far.
    """
    context = _Recording()
    lower(_Names(), spec, context)
    return {"types": context.types, "calls": context.calls}


class _Names:
    """Stands for the cudnn module: every enum's every member, by name."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def __getattr__(self, name: str) -> _Names:
        return _Names(f"{self.path}.{name}" if self.path else name)


class _Tensor:
    """The ``number``-th result of all; keeps what is set on it."""

    def __init__(self, number: int, settings: dict[str, Any]) -> None:
        self.number, self._settings = number, settings

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("set_"):
            raise AttributeError(f"a recorded tensor has no {name}: what is asked of a graph cannot be recorded.")

        def keep(value: Any) -> _Tensor:
            self._settings[name.removeprefix("set_")] = _plain(value)
            return self

        return keep


class _Recording(Context):
    """Stands for a context and the one graph that is made in it."""

    def __init__(self) -> None:
        super().__init__()
        self.types: dict[str, Any] = {}
        self.calls: list[dict[str, Any]] = []
        self._count = 0

    def graph(self, cudnn: Any, **types: Any) -> Any:
        """Itself."""
        self.types = {name: _plain(value) for name, value in types.items()}
        return self

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(**arguments: Any) -> Any:
            made = list(self._results(RESULTS.get(method, 1)))
            given = {name: _plain(value) for name, value in arguments.items() if value is not None}
            self.calls.append({"method": method, "arguments": given, "results": [settings for _, settings in made]})
            tensors = tuple(tensor for tensor, _ in made)
            return tensors if len(tensors) > 1 else tensors[0]

        return call

    def _results(self, count: int) -> Iterator[tuple[_Tensor, dict[str, Any]]]:
        for _ in range(count):
            settings: dict[str, Any] = {}
            yield _Tensor(self._count, settings), settings
            self._count += 1


def _plain(value: Any) -> Any:
    if isinstance(value, _Tensor):
        return {"tensor": value.number}
    if isinstance(value, _Names):
        return {"enum": value.path}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be recorded")
