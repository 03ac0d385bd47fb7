"""How fast plans were seen to be, told by who measures to who looks for faster ones, while both are at work."""

from __future__ import annotations

import threading
from collections.abc import Iterable

_POLL_S = 0.1


class Scores:
    """Used by several threads."""

    def __init__(self) -> None:
        self._known: dict[str, float | None] = {}
        self._changed = threading.Condition()

    def enter(self, key: str, time_us: float | None) -> None:
        """A plan was received; ``time_us`` is None where it failed or is wrong."""
        with self._changed:
            self._known[key] = time_us
            self._changed.notify_all()

    def wait_for(self, keys: Iterable[str], cancel: threading.Event) -> dict[str, float]:
        """The times of all that are right and were measured, once all of ``keys`` were entered or ``cancel`` is set."""
        wanted = set(keys)
        with self._changed:
            while not (wanted <= self._known.keys() or cancel.is_set()):
                self._changed.wait(_POLL_S)
            return {key: time for key, time in self._known.items() if time is not None}
