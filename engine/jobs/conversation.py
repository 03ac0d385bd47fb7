"""Questions to one worker process and its answers, with what a bare pipe lacks: deadlines, cancelling, one way to be
lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from engine.jobs.protocol import Child, JobCancelled, JobError, ProtocolError

Content = Mapping[str, Any]
POLL_S = 0.1
_MESSAGE_LIMIT = 2000


class Lost(Exception):
    """The process is gone: by itself, for breaking the protocol, or (``silent``) because it missed a deadline.

    The message continues a sentence that begins with the process. ``stage``: the last stage it told, "" before any.
    """

    def __init__(self, message: str, stage: str = "", silent: bool = False) -> None:
        super().__init__(message[:_MESSAGE_LIMIT])
        self.stage, self.silent = stage, silent


class Declined(Exception):
    """The process answered that it cannot do what it was asked. ``restart``: it says that it ends with this answer."""

    def __init__(self, message: str, restart: bool) -> None:
        super().__init__(message[:_MESSAGE_LIMIT])
        self.restart = restart


class Conversation:
    """A process that is asked one thing after the other. Once ``Lost`` is raised, it has been killed.

    Start and use it from one long-lived thread (see ``protocol.die_with_parent``).
    """

    def __init__(self, module: str, environment: Mapping[str, str], cancel: threading.Event) -> None:
        try:
            self._child = Child(module, environment=environment)
        except OSError as error:
            raise Lost(f"could not be started: {error}") from None
        self._cancel = cancel
        self._open: dict[int, str] = {}  # requests without an answer yet, and the stage each has come to
        self._answers: dict[int, Content] = {}

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._child.alive

    def ask(self, op: str, **content: Any) -> int:
        """Send a request without waiting for its answer; gives its number. Raises Lost, and JobError where the request
        is too long for a line."""
        try:
            number = self._child.send(op, **content)
        except ProtocolError as error:
            raise JobError(str(error)) from None
        except OSError:
            raise self._lose(self._child.describe_end()) from None
        self._open[number] = ""
        return number

    def told(self, number: int) -> Content | None:
        """The answer to a request, if it is there by now. Raises Lost and Declined."""
        while number not in self._answers and self._hear(0.0):
            pass
        return self._take(number) if number in self._answers else None

    def answer(self, number: int, deadline_s: float, stages: Mapping[str, float] | None = None) -> Content:
        """Wait for the answer to a request; each of ``stages`` that it enters has a deadline of its own, in seconds.

        Raises Lost and Declined, and JobCancelled when cancelled; the process is killed then.
        """
        stage, began = self._open.get(number, ""), time.monotonic()
        while number not in self._answers:
            if self._cancel.is_set():
                self.kill()
                raise JobCancelled
            self._hear(POLL_S)
            entered = self._open.get(number, stage)
            if entered != stage:
                stage, began, deadline_s = entered, time.monotonic(), (stages or {}).get(entered, deadline_s)
            elif number not in self._answers and time.monotonic() - began > deadline_s:
                where = f" in stage {stage}" if stage else ""
                raise self._lose(f"gave no sign for {deadline_s:g} s{where} and was killed", stage, silent=True)
        return self._take(number)

    def kill(self) -> None:
        """End the process without waiting for it to be gone."""
        self._child.kill(wait_s=0)

    def close(self) -> None:
        """End the process and wait, for a limited time, until it is gone."""
        self._child.kill()

    def _hear(self, timeout_s: float) -> bool:
        """Take in one event; False when none came in time."""
        stage = next(iter(self._open.values()), "")
        try:
            event = self._child.receive(timeout_s)
        except TimeoutError:
            return False
        except ProtocolError as error:
            raise self._lose(f"broke the protocol ({error})", stage) from None
        if event is None:
            raise self._lose(f"ended: {self._child.describe_end()}", stage)
        number, kind = event["id"], event["event"]
        if number not in self._open:
            raise self._lose(f"answered what it had not been asked: {str(event)[:200]}", stage)
        if kind == "stage":
            self._open[number] = str(event.get("stage"))
        elif kind in ("done", "failed"):
            del self._open[number]
            self._answers[number] = event
        else:
            raise self._lose(f"sent an event that is not known here: {kind[:80]!r}", stage)
        return True

    def _take(self, number: int) -> Content:
        event = self._answers.pop(number)
        if event["event"] == "failed":
            raise Declined(str(event.get("message")), bool(event.get("restart")))
        return event

    def _lose(self, message: str, stage: str = "", silent: bool = False) -> Lost:
        self.close()
        return Lost(message, stage, silent)
