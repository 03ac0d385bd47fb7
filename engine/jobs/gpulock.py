"""One measurement per GPU at a time, on the whole machine: a server, a command line and a test exclude each other.

The lock is the kernel's (``flock`` on a file named after the GPU's UUID), so it ends with the process that holds it,
however that ends. The file's content only tells those who wait whom they wait for. It stands where every user can reach
it: hence the care about links and modes that somebody else may have put there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import re
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from engine.jobs.protocol import JobCancelled, JobError

# Not tempfile.gettempdir(): users with a TMPDIR of their own would not exclude each other.
LOCK_FOLDER = Path("/tmp")
POLL_S = 0.2
_NOTE_LIMIT = 2048


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, by its own account: process id, what it does, since when, which user."""

    pid: int
    what: str
    since: datetime
    user: str

    def __str__(self) -> str:
        return f"{self.what} (process {self.pid} of {self.user}, since {self.since:%H:%M:%S} UTC)"


class GpuLock:
    """The lock of one GPU. ``with GpuLock(uuid, "sweep of matmul").acquired(cancel, on_wait): ...`` holds it.

    ``what`` is shown to those who wait. Not reentrant: two locks of one process exclude each other as well.
    """

    def __init__(self, gpu_uuid: str, what: str, folder: Path = LOCK_FOLDER) -> None:
        # A UUID comes from the driver, but it becomes a file name: nothing that leads out of the folder.
        self._path = folder / f"planscope-{re.sub(r'[^A-Za-z0-9_-]', '_', gpu_uuid)[:120]}.lock"
        self._what = what
        self._descriptor: int | None = None

    def try_acquire(self) -> Holder | None:
        """Take the lock if it is free: None when taken, else who holds it. Raises JobError when the file is no use."""
        while True:
            descriptor = _open(self._path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _read_note(descriptor)
                os.close(descriptor)
                return holder
            except BaseException:
                os.close(descriptor)
                raise
            if _is_file_at(descriptor, self._path):
                _write_note(descriptor, self._what)
                self._descriptor = descriptor
                return None
            os.close(descriptor)  # A cleaner of old files removed it in between: others now lock its successor.

    def acquired(self, cancel: threading.Event, on_wait: Callable[[Holder], None] | None = None) -> GpuLock:
        """Wait for the lock, telling ``on_wait`` each new holder; raises JobCancelled when ``cancel`` is set."""
        told = None
        while not cancel.is_set():
            holder = self.try_acquire()
            if holder is None:
                return self
            if on_wait is not None and holder != told:
                on_wait(holder)
            told = holder
            cancel.wait(POLL_S)
        raise JobCancelled

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __enter__(self) -> GpuLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _open(path: Path) -> int:
    """The lock file, made where it is missing. Never through a link, and nothing but a plain file."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = _open_or_create(path, flags)
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise JobError(f"the GPU's lock file {path} cannot be used: {why}; remove it, or ask its owner to") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise JobError(f"the GPU's lock file {path} is not a plain file; remove it, or ask its owner to")
    return descriptor


def _open_or_create(path: Path, flags: int) -> int:
    # Without O_CREAT first: with it, the kernel's fs.protected_regular refuses another user's file in a sticky folder.
    for _ in range(10):
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        os.fchmod(descriptor, 0o666)  # Whatever the umask: the next one may be another user.
        return descriptor
    raise FileNotFoundError(errno.ENOENT, "it comes and goes", str(path))


def _is_file_at(descriptor: int, path: Path) -> bool:
    held = os.fstat(descriptor)
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)


def _write_note(descriptor: int, what: str) -> None:
    note = {"pid": os.getpid(), "what": what[:200], "since": datetime.now(UTC).isoformat(), "user": _user()}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(note).encode(), 0)


def _read_note(descriptor: int) -> Holder:
    """The holder's note; anybody can write anything there, and it may be half written."""
    try:
        note = json.loads(os.pread(descriptor, _NOTE_LIMIT, 0))
        since = datetime.fromisoformat(str(note["since"])).astimezone(UTC)
        return Holder(int(note["pid"]), _printable(note["what"]), since, _printable(note["user"]))
    except (ValueError, TypeError, KeyError, OverflowError):
        return Holder(0, "somebody who left no note", datetime.fromtimestamp(os.fstat(descriptor).st_mtime, UTC), "?")


def _printable(text: object) -> str:
    return "".join(c for c in str(text)[:200] if c.isprintable())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user id without an entry, as containers have.
        return str(os.getuid())
