"""How a builder's task ends, for whoever asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class End(StrEnum):
    """How a task ended."""

    DONE = "done"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Reply:
    """A task's end: the last event's content, the events before it, and a message where it is not DONE.

    ``contended``: whether another builder of this process was listing or building at any time meanwhile. Loads, a
    millisecond each, are not counted.
    """

    end: End
    content: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()
    message: str = ""
    contended: bool = False
    pid: int | None = None
