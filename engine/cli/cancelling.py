"""Ctrl-C: the first one asks the work to end, a second one ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from engine.cli.output import say

CANCELLED = 130
"""Exit status of a command that was cancelled: 128 + SIGINT, as shells have it."""


@contextmanager
def cancelling() -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM sets while the block runs.

    Work that heeds it ends within a second and its processes with it; a second signal raises KeyboardInterrupt.
    """
    event = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()
        say("\ncancelling")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
