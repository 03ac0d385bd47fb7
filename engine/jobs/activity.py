"""Which builders are at work, over all pools of this process: a build time taken beside others is not one taken
alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(eq=False)
class Mark:
    """One span of work. ``contended``: whether another was going on at any time during it."""

    contended: bool = False


class Activity:
    """The spans going on now. Safe for use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: set[Mark] = set()

    @contextmanager
    def during(self) -> Iterator[Mark]:
        """A span; its mark is final when it ends."""
        mark = Mark()
        with self._lock:
            self._marks.add(mark)
            if len(self._marks) > 1:
                for other in self._marks:
                    other.contended = True
        try:
            yield mark
        finally:
            with self._lock:
                self._marks.discard(mark)


activity = Activity()
"""Of this process."""
