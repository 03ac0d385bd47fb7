"""One line on stderr that follows the work, where stderr is a terminal; silent in a pipe or a log."""

from __future__ import annotations

import sys
import time


class Progress:
    """``update`` redraws the line at most ten times a second; ``close`` removes it."""

    def __init__(self, shown: bool | None = None) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._width = 0

    def update(self, what: str, done: int, total: int, eta_s: float | None = None) -> None:
        """``done`` of ``total``; without ``eta_s`` the time left is guessed from the pace so far."""
        now = time.monotonic()
        if not self._shown or (now - self._drawn_at < 0.1 and done < total):
            return
        self._drawn_at = now
        if eta_s is None and done:
            eta_s = (now - self._started) / done * (total - done)
        left = f", about {format_seconds(eta_s)} left" if eta_s is not None and done < total else ""
        self._draw(f"{what} {done} of {total}{left}" if total else what)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._width:
            self._draw("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._width = 0

    def _draw(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)


def format_seconds(seconds: float) -> str:
    """A time for people: no more precise than a guess."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 90 else f"{whole // 60} min {whole % 60} s"
