"""A pool of builder processes: tasks are handed out one at a time, and a process that dies or hangs costs one task.

Every process belongs to one thread of the pool, which outlives it (see ``protocol.die_with_parent``). Builders take
what is listed and built; one more process, the loader, takes what is loaded, so that a plan is always proven in a
process that has built nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from engine.jobs.activity import activity
from engine.jobs.capacity import default_size
from engine.jobs.protocol import Child, ProtocolError
from engine.jobs.replies import End, Reply
from engine.plans.targets import Target

DEADLINE_S = 180.0
_POLL_S = 0.1
_IDLE_S = 120.0
_log = logging.getLogger(__name__)


@dataclass
class _Task:
    op: str
    content: Mapping[str, Any]
    cancel: threading.Event
    deadline_s: float
    future: Future[Reply]


class BuilderPool:
    """``size`` builders and a loader. ``compute_cache``: leave the driver's cache of compiled kernels on (build times
    are then not those of a first build). ``gpu_uuid``: the one GPU the processes see. Use as a context manager, or
    ``close`` it.

    ``ready_for``: builders get ready for this target as they start, so that what a process does once is done before
    anybody waits for it (see ``wait_until_ready``).
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        compute_cache: bool = False,
        gpu_uuid: str | None = None,
        deadline_s: float = DEADLINE_S,
        module: str = "engine.jobs.builder",
        environment: Mapping[str, str] | None = None,
        ready_for: Target | None = None,
    ) -> None:
        self.size = size or default_size(ready_for if gpu_uuid else None)
        self.compute_cache = compute_cache
        self.gpu_uuid = gpu_uuid
        self._deadline_s = deadline_s
        self._module = module
        self._environment = {"CUDA_CACHE_DISABLE": "0" if compute_cache else "1", **(environment or {})}
        if gpu_uuid is not None:
            self._environment["CUDA_VISIBLE_DEVICES"] = gpu_uuid
        self._ready_for = ready_for
        self._ready = 0
        self._changed = threading.Condition()
        self._waiting: dict[bool, deque[_Task]] = {False: deque(), True: deque()}
        self._closing = False
        self._threads: list[threading.Thread] = []

    @classmethod
    def for_target(cls, target: Target, size: int | None = None, *, compute_cache: bool = False) -> BuilderPool:
        """A pool whose processes see the target's GPU, where it is one of this machine. They get ready with the first
        request."""
        size = size or default_size(target if target.is_local else None)
        return cls(size, compute_cache=compute_cache, gpu_uuid=target.gpu_uuid)

    def start(self) -> BuilderPool:
        """Start the builders; does not wait for them. Called by the first ``submit`` too."""
        with self._changed:
            if not self._threads and not self._closing:
                for index in range(self.size + 1):
                    loader = index == self.size
                    thread = threading.Thread(target=self._work, args=(loader,), name=f"builder-{index}", daemon=True)
                    self._threads.append(thread)
                    thread.start()
        return self

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Whether every builder is ready in time; where ``ready_for`` is not set, whether each has been started."""
        self.start()
        with self._changed:
            return self._changed.wait_for(lambda: self._ready >= self.size or self._closing, timeout_s)

    def submit(
        self,
        op: str,
        content: Mapping[str, Any],
        *,
        cancel: threading.Event | None = None,
        deadline_s: float | None = None,
    ) -> Future[Reply]:
        """Queue a request. The future always gets a Reply, never an exception, also after ``close``.

        ``cancel``, once set, ends the task within a second, at the cost of the process that works on it.
        """
        task = _Task(op, content, cancel or threading.Event(), deadline_s or self._deadline_s, Future())
        self.start()
        with self._changed:
            if not self._closing:
                self._waiting[op == "load"].append(task)
                self._changed.notify_all()
                return task.future
        task.future.set_result(_CLOSED)
        return task.future

    def close(self) -> None:
        """End all processes at once; tasks not ended become CANCELLED."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for queue in self._waiting.values():
            while queue:
                queue.popleft().future.set_result(_CLOSED)

    def __enter__(self) -> BuilderPool:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self, loader: bool) -> None:
        """A thread's life: its process is started at once (the loader's with the first load), again after it was lost,
        and given up while there is nothing to do for long."""
        child = None if loader else self._spawn()
        if child is not None:
            self._get_ready(child)
        while True:
            task = self._take(loader, _IDLE_S if child else None)
            if task is None:
                if child is not None:
                    child.kill()
                    child = None
                if self._closing:
                    return
                continue
            if task.cancel.is_set():
                task.future.set_result(_CANCELLED)
                continue
            if child is None or not child.alive:
                child = self._spawn()
            reply = self._serve(child, task)
            if child is not None and reply.end not in (End.DONE, End.FAILED):
                child.kill()
                # Started before there is a next task, which then need not wait for an import.
                child = None if self._closing or loader else self._spawn()
            task.future.set_result(reply)

    def _get_ready(self, child: Child) -> None:
        """A builder that cannot get ready says so to whatever is asked of it next."""
        if self._ready_for is not None:
            task = _Task(
                "ready", {"target": self._ready_for.model_dump_json()}, threading.Event(), self._deadline_s, Future()
            )
            self._serve(child, task)
        with self._changed:
            self._ready += 1
            self._changed.notify_all()

    def _take(self, loader: bool, idle_s: float | None) -> _Task | None:
        """The next task; None when the pool closes, or has had none for ``idle_s``."""
        queue = self._waiting[loader]
        with self._changed:
            self._changed.wait_for(lambda: queue or self._closing, idle_s)
            return queue.popleft() if queue and not self._closing else None

    def _drop_cancelled(self) -> None:
        """End the tasks that wait and have been cancelled: whoever could take them may be busy for long."""
        with self._changed:
            for queue in self._waiting.values():
                for task in [task for task in queue if task.cancel.is_set()]:
                    queue.remove(task)
                    task.future.set_result(_CANCELLED)

    def _spawn(self) -> Child | None:
        try:
            return Child(self._module, environment=self._environment)
        except OSError as error:
            _log.error("a builder process could not be started: %s", error)
            return None

    def _serve(self, child: Child | None, task: _Task) -> Reply:
        """The task's end, whatever happens: nobody waits for ever."""
        if child is None:
            return Reply(End.CRASHED, message="no builder process could be started.")
        try:
            if task.op == "load":
                return self._converse(child, task)
            with activity.during() as mark:
                reply = self._converse(child, task)
            return replace(reply, contended=mark.contended)
        except ProtocolError as error:
            return Reply(End.CRASHED, message=str(error), pid=child.pid)
        except OSError as error:
            message = f"the builder process ended: {child.describe_end()} ({error})"
            return Reply(End.CRASHED, message=message, pid=child.pid)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in here, somebody waits for the answer
            _log.exception("a builder's thread failed over %s", task.op)
            message = f"an error of Planscope itself: {type(error).__name__}: {error}"
            return Reply(End.CRASHED, message=message, pid=child.pid)

    def _converse(self, child: Child, task: _Task) -> Reply:
        deadline = time.monotonic() + task.deadline_s
        events: list[Mapping[str, Any]] = []
        number = child.send(task.op, **task.content)
        while True:
            if task.cancel.is_set() or self._closing:
                return Reply(End.CANCELLED, message="cancelled.", pid=child.pid)
            if time.monotonic() > deadline:
                message = f"no answer within {task.deadline_s:g} s; the builder was killed."
                return Reply(End.TIMEOUT, message=message, pid=child.pid)
            try:
                event = child.receive(_POLL_S)
            except TimeoutError:
                self._drop_cancelled()
                continue
            if event is None:
                message = f"the builder process ended: {child.describe_end()}"
                return Reply(End.CRASHED, message=message, pid=child.pid)
            if event["id"] != number:
                continue
            if event["event"] == "done":
                return Reply(End.DONE, event, tuple(events), pid=child.pid)
            if event["event"] == "failed":
                return Reply(End.FAILED, event, tuple(events), str(event.get("message")), pid=child.pid)
            events.append(event)


_CANCELLED = Reply(End.CANCELLED, message="cancelled.")
_CLOSED = Reply(End.CANCELLED, message="the pool of builders was closed.")
