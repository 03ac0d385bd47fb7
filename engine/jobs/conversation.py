"""Questions to one worker process and its answers, with what a bare pipe lacks: deadlines, cancelling, one way to be
lost."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.jobs.protocol import KILL_WAIT_S, Child, JobCancelled, JobError, ProtocolError

Content = Mapping[str, Any]
OnPart = Callable[[Content], None]
POLL_S = 0.1
_MESSAGE_LIMIT = 2000


class Lost(Exception):
    """The process is gone: by itself, for breaking the protocol, or (``silent``) because it missed a deadline.

    The message continues a sentence that begins with the process. ``stage``: the last stage it told, "" before any;
    ``key``: the plan it told with that, None where it named none.
    """

    def __init__(self, message: str, stage: str = "", key: str | None = None, silent: bool = False) -> None:
        super().__init__(message[:_MESSAGE_LIMIT])
        self.stage, self.key, self.silent = stage, key, silent


class Declined(Exception):
    """The process answered that it cannot do what it was asked. ``restart``: it says that it ends with this answer.
    ``key``: the plan it blames, None where it blames none; ``hung``: that plan does not come back from the GPU."""

    def __init__(self, message: str, restart: bool, key: str | None = None, hung: bool = False) -> None:
        super().__init__(message[:_MESSAGE_LIMIT])
        self.restart, self.key, self.hung = restart, key, hung


@dataclass
class _Open:
    """A request without an answer yet: where it has come to, and since when."""

    on_part: OnPart | None
    stage: str = ""
    key: str | None = None
    heard_at: float = 0.0


class Conversation:
    """A process that is asked one thing after the other. Once ``Lost`` is raised, it has been killed.

    Start and use it from one long-lived thread (see ``protocol.die_with_parent``); only ``wake`` is for others.
    """

    def __init__(self, module: str, environment: Mapping[str, str], cancel: threading.Event) -> None:
        try:
            self._child = Child(module, environment=environment)
        except OSError as error:
            raise Lost(f"could not be started: {error}") from None
        self._cancel = cancel
        self._open: dict[int, _Open] = {}
        self._answers: dict[int, Content] = {}

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._child.alive

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def ask(self, op: str, on_part: OnPart | None = None, **content: Any) -> int:
        """Send a request without waiting for its answer; gives its number. ``on_part`` hears of what the process tells
        on the way. Raises JobError where the request is too long for a line."""
        try:
            number = self._child.send(op, **content)
        except ProtocolError as error:
            raise JobError(str(error)) from None
        except OSError:
            # It has ended: over what, tells who goes through what it said before. None of that may be skipped.
            number = self._child.last_id
        self._open[number] = _Open(on_part, heard_at=time.monotonic())
        return number

    def told(self, number: int, timeout_s: float = 0.0) -> Content | None:
        """The answer to a request, if it is there in time. Raises Lost and Declined."""
        while number not in self._answers and self._hear(timeout_s):
            pass
        return self._take(number) if number in self._answers else None

    def answer(self, number: int, deadline_s: float, stages: Mapping[str, float] | None = None) -> Content:
        """Wait for the answer to a request; see ``check`` for the deadlines.

        Raises Lost and Declined, and JobCancelled when cancelled; the process is killed then.
        """
        while number not in self._answers:
            self._hear(POLL_S)
            if number not in self._answers:
                self.check(number, deadline_s, stages)
        return self._take(number)

    def check(self, number: int, deadline_s: float, stages: Mapping[str, float] | None = None) -> None:
        """Raises Lost where the process has told nothing of a request for ``deadline_s`` or, in a stage of ``stages``,
        for so many seconds; and JobCancelled when cancelled. The process is killed then."""
        if self._cancel.is_set():
            with contextlib.suppress(Lost):
                while self._hear(0.0):  # What it has told by now is kept.
                    pass
            self.kill()
            raise JobCancelled
        asked = self._open.get(number)
        if asked is None:
            return
        allowed = (stages or {}).get(asked.stage, deadline_s)
        if time.monotonic() - asked.heard_at > allowed:
            where = f" in stage {asked.stage}" if asked.stage else ""
            raise self._lose(f"gave no sign for {allowed:g} s{where} and was killed", asked, silent=True)

    def wake(self) -> None:
        """End a wait for the process now. For other threads."""
        self._child.wake()

    def kill(self) -> None:
        """End the process without waiting for it to be gone."""
        self._child.kill(wait_s=0)

    def close(self, wait_s: float = KILL_WAIT_S) -> None:
        """End the process and wait, for a limited time, until it is gone."""
        self._child.kill(wait_s)

    def _hear(self, timeout_s: float) -> bool:
        """Take in one event; False when none came in time."""
        try:
            event = self._child.receive(timeout_s)
        except TimeoutError:
            return False
        except ProtocolError as error:
            raise self._lose(f"broke the protocol ({error})") from None
        if event is None:
            raise self._lose(f"ended: {self._child.describe_end()}")
        number, kind = event["id"], event["event"]
        if number not in self._open:
            raise self._lose(f"answered what it had not been asked: {str(event)[:200]}")
        self._take_in(number, kind, event)
        return True

    def _take_in(self, number: int, kind: str, event: Content) -> None:
        asked = self._open[number]
        asked.heard_at = time.monotonic()
        if kind == "stage":
            asked.stage, asked.key = str(event.get("stage")), event.get("key")
        elif kind == "part" and asked.on_part is not None:
            asked.on_part(event)
        elif kind in ("done", "failed"):
            del self._open[number]
            self._answers[number] = event
            for other in self._open.values():
                other.heard_at = asked.heard_at  # The next one begins only now.
        else:
            raise self._lose(f"sent an event that is not known here: {kind[:80]!r}")

    def _take(self, number: int) -> Content:
        event = self._answers.pop(number)
        if event["event"] == "failed":
            key = event.get("key")
            raise Declined(str(event.get("message")), bool(event.get("restart")), key, bool(event.get("hung")))
        return event

    def _lose(self, message: str, asked: _Open | None = None, silent: bool = False) -> Lost:
        self.close()
        asked = asked or next(iter(self._open.values()), None)
        stage, key = (asked.stage, asked.key) if asked is not None else ("", None)
        return Lost(message, stage, key, silent)
