"""A job while it goes on: what was asked, who asks for it, how far it is. Others see its frozen snapshots only."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime

from engine.jobs.request import Progress, Request
from engine.jobs.snapshots import JobSnapshot, JobState

GONE_S = 5.0
"""A client that has not looked at its job for so long is gone: pages look every second."""


class Job:
    """One request on its way. Safe for use from several threads; the first end it comes to is the one that counts."""

    def __init__(self, request: Request, client: str) -> None:
        self.id = uuid.uuid4().hex
        self.request = request
        self._seen = {client: time.monotonic()}  # Guarded by the manager's lock, as what reads and writes it.
        self.cancel = threading.Event()
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._submitted_at = datetime.now(UTC)
        self._state, self._message = JobState.QUEUED, ""
        self._progress = Progress()
        self._progress_at = self._started = self._finished = time.monotonic()
        self._version = 0

    def join(self, client: str) -> None:
        """The client waits for it, and was seen doing so just now."""
        self._seen[client] = time.monotonic()

    def leave(self, client: str) -> None:
        """The client waits for it no longer."""
        self._seen.pop(client, None)

    def waits(self, client: str) -> bool:
        """Whether the client asked for it and has not left."""
        return client in self._seen

    def waited_for(self, but: str | None = None) -> bool:
        """Whether anybody but this client waits for it and was seen lately: a page that was closed or loaded anew never
        says that it is gone."""
        return any(who != but and time.monotonic() - seen < GONE_S for who, seen in self._seen.items())

    @property
    def state(self) -> JobState:
        """Where in its life it is."""
        return self._state

    def start(self) -> None:
        """It runs now."""
        with self._lock:
            if self._state is JobState.QUEUED:
                self._state, self._started = JobState.RUNNING, time.monotonic()
                self._version += 1

    def report(self, progress: Progress) -> None:
        """It has come this far. Ignored once it has ended."""
        with self._lock:
            if not self._state.ended:
                self._progress, self._progress_at = progress, time.monotonic()
                self._version += 1

    def end(self, state: JobState, message: str) -> None:
        """It has come to its end, and why."""
        with self._lock:
            if self._state.ended:
                return
            if self._state is JobState.QUEUED:
                self._started = time.monotonic()
            self._state, self._message, self._finished = state, message, time.monotonic()
            self._version += 1
        self.ended.set()

    def snapshot(self, position: int) -> JobSnapshot:
        """Now, with its place in the queue as the manager knows it."""
        with self._lock:
            request, progress, now = self.request, self._progress, time.monotonic()
            # An estimate that has run out is none: a second left would be said for as long as the step takes.
            left = None if progress.eta_s is None else progress.eta_s - (now - self._progress_at)
            eta = None if left is None or left <= 0 else max(1.0, left)
            elapsed = {JobState.QUEUED: 0.0, JobState.RUNNING: now - self._started}
            return JobSnapshot(
                id=self.id,
                kind=request.kind,
                state=self._state,
                pipeline=request.pipeline,
                parameters=request.parameters,
                graph_id=request.graph.graph_id,
                target=request.target.info,
                submitted_at=self._submitted_at,
                done=progress.done,
                total=progress.total,
                eta_s=None if self._state.ended else eta,
                elapsed_s=elapsed.get(self._state, self._finished - self._started),
                message=self._message if self._state.ended else progress.message,
                position=position,
                plans=progress.plans,
                refusal=progress.refusal,
                baseline=progress.baseline,
                environment=progress.environment,
                remarks=progress.remarks,
                run_id=progress.run_id,
                version=self._version,
            )
