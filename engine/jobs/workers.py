"""The measuring processes of one sweep."""

from __future__ import annotations

from collections.abc import Callable

from engine.jobs.measuring import GpuWorker


class Workers:
    """``first`` measures; ``make`` gives another one, for the confirmation."""

    def __init__(self, first: GpuWorker, make: Callable[[], GpuWorker]) -> None:
        self.first = first
        self._make = make
        self._second: GpuWorker | None = None

    def second(self) -> GpuWorker:
        """A fresh one, started now where it was not."""
        if self._second is None:
            self._second = self._make()
            self._second.start()
        return self._second

    def kill(self) -> None:
        """End all without waiting."""
        for worker in (self.first, self._second):
            if worker is not None:
                worker.kill()

    def close(self) -> None:
        """End all and wait."""
        self.kill()  # First of all all: each takes a while to go.
        for worker in (self.first, self._second):
            if worker is not None:
                worker.close()
