"""JSON lines between a parent and its worker processes.

A request is ``{"id": int, "op": str, ...}``; a worker answers with any number of events ``{"id", "event": str, ...}``
and ends each request with ``"event": "done"`` or ``"event": "failed"`` (with ``"message"``). A request stays under
64 KB, which a pipe takes without waiting for its reader, and an event under 4 MB: serialized plans travel as files, and
lists as one event per record. The protocol runs on a duplicate of stdout, and stdout itself is pointed at stderr,
because libraries print.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REQUEST_LIMIT, EVENT_LIMIT = 64 << 10, 4 << 20
"""Bytes of a line. Most of an event is samples: the longest, torch's of a thorough sweep, has 8,000 of 180 bytes each
(see ``Rule.most``), with the GPU's state beside every one."""
ROOT = Path(__file__).resolve().parents[2]
# How long a killed process may take to be gone: one that sleeps inside the GPU driver is left behind, not waited for.
KILL_WAIT_S = 2.0
_WAKE: dict[str, Any] = {}
_PARENT = "PLANSCOPE_PARENT_PID"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ProtocolError(RuntimeError):
    """The other side sent something that is not a line of this protocol."""


class JobError(RuntimeError):
    """A job cannot go on; the message is for the person who asked for it."""


class JobCancelled(Exception):
    """Somebody asked for the job to end."""


class Channel:
    """The worker's side. Make it before anything that may print is imported."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def requests(self) -> Iterator[dict[str, Any]]:
        """Requests until the parent closes the pipe; then the worker should end."""
        for line in sys.stdin.buffer:
            yield json.loads(line)

    def send(self, request: Mapping[str, Any], event: str, **content: Any) -> None:
        """Answer a request with one event."""
        line = json.dumps({"id": request["id"], "event": event, **content}, separators=(",", ":")).encode()
        if len(line) >= EVENT_LIMIT:
            raise ProtocolError(f"a {event} event of {len(line)} bytes does not fit a line of {EVENT_LIMIT}")
        with self._lock:
            self._out.write(line + b"\n")
            self._out.flush()


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends: a build can hold the GIL for seconds,
    so noticing a closed pipe is not enough. Called first thing in a worker; ends it if the parent is already gone."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Not "is it 1": in a container the server may well be process 1.
    if os.environ.get(_PARENT) not in (None, str(os.getppid())):
        os._exit(1)


class Child:
    """The parent's side of one worker process: its own process group, a reader thread, and the tail of its stderr.

    Start it from a thread that outlives it (see ``die_with_parent``). Only ``kill`` and ``wake`` may be called from
    other threads.
    """

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {}), _PARENT: str(os.getpid())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._stderr: deque[str] = deque(maxlen=40)
        self._last_id = 0
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """The worker's process id, which is also its process group."""
        return self._process.pid

    @property
    def last_id(self) -> int:
        """The id of the request sent last, or tried to be sent."""
        return self._last_id

    def send(self, op: str, **content: Any) -> int:
        """Send a request; gives its id. Raises BrokenPipeError when the worker is gone."""
        assert self._process.stdin is not None
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "op": op, **content}, separators=(",", ":")).encode()
        if len(line) >= REQUEST_LIMIT:
            raise ProtocolError(f"a {op} request of {len(line)} bytes does not fit a line of {REQUEST_LIMIT}")
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()
        return self._last_id

    def wake(self) -> None:
        """End a wait in ``receive`` as if its time were up. For other threads."""
        self._events.put(_WAKE)

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """The next event; None when the worker has ended. Raises TimeoutError, or ProtocolError on any other line."""
        try:
            event = self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get_nowait()
        except queue.Empty:
            raise TimeoutError from None
        if event is _WAKE:
            raise TimeoutError
        if event is None:
            self._events.put(None)
        elif "garbage" in event:
            raise ProtocolError(f"the worker wrote a line that is no event: {event['garbage']!r}")
        return event

    def describe_end(self) -> str:
        """How the process ended, with the last lines it wrote to stderr."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "still running"
        self._drainer.join(timeout=1)  # What it wrote last may still be in the pipe.
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        tail = "\n".join(self._stderr).strip()
        return f"{how}; its last words: {tail}" if tail else how

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def close(self, timeout_s: float = 5.0) -> None:
        """Let the worker end by closing its pipe; kill it when it does not."""
        self._hang_up()
        try:
            self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self, wait_s: float = KILL_WAIT_S) -> None:
        """End the worker's whole process group at once. Returns within ``wait_s``, also where the kernel is slower."""
        if self._process.returncode is None:  # Once it has been reaped its number may be somebody else's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=wait_s)
        self._hang_up()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            while line := pipe.readline(EVENT_LIMIT + 1):
                self._events.put(_parse(line))
        self._events.put(None)

    def _drain(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            for line in pipe:
                self._stderr.append(line.decode(errors="replace").rstrip()[:500])


def _parse(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {"garbage": line[:200].decode(errors="replace")}
    if not isinstance(event, dict) or not isinstance(event.get("event"), str) or not isinstance(event.get("id"), int):
        return {"garbage": line[:200].decode(errors="replace")}
    return event
