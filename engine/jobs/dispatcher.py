"""A queue of jobs and the one thread that works it off.

The thread lives as long as its queue, because the kernel kills a worker process when the *thread* that started it ends:
whatever a job starts, it starts from here. No error of a job ends the thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from engine.jobs.job import Job
from engine.jobs.snapshots import JobState

logger = logging.getLogger(__name__)


class Dispatcher:
    """Runs jobs one after the other, in the order they came.

    ``work`` runs one job to its end, on this thread; ``rest`` is called, on this thread too, once the queue has been
    empty for ``idle_s``, and before the thread ends: it gives back what was kept ready for a next job.
    """

    def __init__(self, name: str, work: Callable[[Job], None], rest: Callable[[], None], idle_s: float) -> None:
        self._work, self._rest, self._idle_s = work, rest, idle_s
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._stopping = False
        self._changed = threading.Condition()
        # A daemon: a server that ends does not wait for a sweep, and the kernel ends the sweep's processes with it.
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job. Raises RuntimeError after ``stop``."""
        with self._changed:
            if self._stopping:
                raise RuntimeError("the dispatcher has been stopped")
            self._waiting.append(job)
            self._changed.notify()

    def remove(self, job: Job) -> bool:
        """Take a job out of the queue; False when it no longer waits there."""
        with self._changed:
            if job not in self._waiting:
                return False
            self._waiting.remove(job)
            return True

    def position(self, job: Job) -> int:
        """How many jobs come before this one, the running one included; 0 when it does not wait."""
        with self._changed:
            if job not in self._waiting:
                return 0
            return self._waiting.index(job) + (self._running is not None)

    def unfinished(self) -> tuple[Job, ...]:
        """The running job and those that wait, in order."""
        with self._changed:
            return (*([self._running] if self._running else []), *self._waiting)

    def stop(self) -> None:
        """Take no more jobs and cancel what there is. Does not wait."""
        with self._changed:
            self._stopping = True
            jobs = (*self._waiting, *([self._running] if self._running else []))
            self._waiting.clear()
            self._changed.notify()
        for job in jobs:
            job.cancel.set()
            if job is not self._running:
                job.end(JobState.CANCELLED, "the server was stopped")

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread after ``stop``; False when it did not end in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        rested = True
        while True:
            with self._changed:
                while not self._waiting and not self._stopping:
                    if not self._changed.wait(None if rested else self._idle_s):
                        break
                self._running = self._waiting.popleft() if self._waiting else None
                job, stopping = self._running, self._stopping
            if job is not None:
                rested = False
                self._run(job)
            elif not rested:
                rested = True
                self._run_rest()
            if stopping:
                return

    def _run(self, job: Job) -> None:
        try:
            self._work(job)
        except Exception as error:  # Whatever a job does wrong, the next one is to run.
            logger.exception("job %s (%s of %s) failed", job.id, job.request.kind, job.request.pipeline)
            job.end(JobState.FAILED, f"an error of Planscope itself: {type(error).__name__}: {error}")
        finally:
            with self._changed:
                self._running = None

    def _run_rest(self) -> None:
        try:
            self._rest()
        except Exception:
            logger.exception("giving back idle processes failed")
