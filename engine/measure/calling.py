"""The ways to execute a loaded plan on prepared memory: as a program writes it first, and as cheaply as the frontend
allows."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

logger = logging.getLogger(__name__)

Call = Callable[[], object]
_TRIALS = 10
# What a form of call raises that this frontend does not take.
_NOT_TAKEN = (RuntimeError, ValueError, TypeError)


def as_called(graph: Any, pack: Mapping[int, Any], workspace: Any, handle: Any) -> Call:
    """A dict of tensors by uid, looked at anew in every call."""

    def call() -> None:
        graph.execute(pack, workspace, handle=handle)

    return call


def made_ready(graph: Any, pack: Mapping[int, Any], workspace: Any, handle: Any) -> Call | None:
    """The cheapest call of the public interface with everything looked up before; None where the frontend has none.

    Which one that is differs by version: buffers in a fixed order with their uids (frontend 1.3x), or addresses.
    """
    timed = [
        (cost, call) for call in _ready_forms(graph, pack, workspace, handle) if (cost := _cost_ns(call)) is not None
    ]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def _ready_forms(graph: Any, pack: Mapping[int, Any], workspace: Any, handle: Any) -> Iterator[Call]:
    uids = tuple(sorted(pack))
    if _takes(graph.execute, "tensor_uids"):
        buffers = tuple(pack[uid] for uid in uids)

        def ordered() -> None:
            graph.execute(buffers, workspace, handle, tensor_uids=uids)

        yield ordered
    addresses, room = {uid: int(pack[uid].data_ptr()) for uid in uids}, int(workspace.data_ptr())

    def by_address() -> None:
        graph.execute(addresses, room, handle)

    yield by_address


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a compiled function without a signature
        return False


def _cost_ns(call: Call) -> int | None:
    """The cheapest of a few calls; None where the frontend does not take this form."""
    costs = []
    try:
        for _ in range(_TRIALS):
            began = time.perf_counter_ns()
            call()
            costs.append(time.perf_counter_ns() - began)
    except _NOT_TAKEN as error:
        logger.info("a form of call that this frontend does not take: %s", error)
        return None
    return min(costs)
