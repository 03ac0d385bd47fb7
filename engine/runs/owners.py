"""Which process runs a run: a lock file that the process holds for as long as it lives.

The kernel gives the lock back however a process ends, a reused process id cannot hold it, and processes in different
containers see each other through it, which process ids and start times do not offer. Python opens files
close-on-exec, so worker processes do not inherit it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import IO

_STALE_S = 24 * 3600


class Owner:
    """This process as an owner of runs, by one lock file in ``folder``. Not thread-safe: the writer thread uses it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"

    def claim(self) -> str:
        """The name to record in runs; the lock is taken the first time."""
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = (self._folder / self._name).open("wb")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = file
        return self._name

    def release(self) -> None:
        """Give the lock back: runs still recorded under it count as interrupted from now on."""
        if self._file is not None:
            (self._folder / self._name).unlink(missing_ok=True)
            self._file.close()
            self._file = None


def is_alive(folder: Path, name: str) -> bool:
    """Whether a process holds this lock. A shared lock tells, so that two processes asking at once do not see each
    other."""
    try:
        with (folder / name).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def remove_stale(folder: Path, keep: set[str]) -> None:
    """Remove the locks of killed processes, but those of names in ``keep`` and files younger than a day (whose process
    may not have locked them yet)."""
    if not folder.is_dir():
        return
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            if (
                file.name not in keep
                and time.time() - file.stat().st_mtime > _STALE_S
                and not is_alive(folder, file.name)
            ):
                file.unlink()
