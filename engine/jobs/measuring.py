"""The parent's side of the process that measures: starts it, prepares it, asks it, and outlives its crashes and hangs.

What takes the process with it is told as a Setback, with the plan to blame where it is known; the next request finds a
new process, prepared like the last. Which plans that one has loaded is told by ``loaded``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from engine.graph.spec import GraphSpec
from engine.jobs.conversation import Content, Conversation, Declined, Lost, OnPart
from engine.jobs.protocol import JobError
from engine.records.environment import Environment
from engine.records.options import SweepOptions
from engine.records.plan import Stage, Status

WORKER_MODULE = "engine.jobs.worker"
M = TypeVar("M", bound=BaseModel)
_PREPARED = -1
"""In place of a request's number, once it is answered."""


@dataclass(frozen=True)
class Deadlines:
    """How long the measuring process may be silent, in seconds.

    ``start_s``: importing torch from a cold disk and making the CUDA context; ``prepare_s``: data and float64 reference
    of the largest graph; the others per plan. A plan executes once in ``execute_s`` and some dozen times in ``time_s``.
    ``rounds_s``: once around all plans, where the process itself notices a hang long before.
    """

    start_s: float = 180.0
    prepare_s: float = 300.0
    load_s: float = 60.0
    execute_s: float = 30.0
    check_s: float = 120.0
    time_s: float = 120.0
    rounds_s: float = 600.0

    @property
    def stages(self) -> dict[str, float]:
        """By the stage's name, as the process tells it."""
        return {
            Stage.LOAD.value: self.load_s,
            Stage.EXECUTE.value: self.execute_s,
            Stage.CHECK.value: self.check_s,
            Stage.TIME.value: self.time_s,
        }


class Setback(Exception):
    """A request came to nothing. ``key``: the plan to blame, None where that is not known; ``status``, ``stage``: how
    such a plan ends. ``begun`` is False where the process had not begun with the request."""

    def __init__(self, message: str, key: str | None, status: Status, stage: Stage, begun: bool = True) -> None:
        super().__init__(message)
        self.message, self.key, self.status, self.stage, self.begun = message, key, status, stage, begun


class GpuWorker:
    """A measuring process, and the next one where it is lost. Use it from one long-lived thread (see
    ``protocol.die_with_parent``) and ``close`` it.

    Whatever waits here raises JobCancelled soon after ``cancel`` is set, with the process killed.
    """

    def __init__(
        self,
        gpu_uuid: str | None,
        cancel: threading.Event,
        module: str = WORKER_MODULE,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._cancel, self._module = cancel, module
        self.deadlines = deadlines or Deadlines()
        self._visible = {} if gpu_uuid is None else {"CUDA_VISIBLE_DEVICES": gpu_uuid}
        self._process: Conversation | None = None
        self._asked_environment: int | None = None
        self._asked_prepare: int | None = None
        self._wanted: dict[str, Any] | None = None
        self._environment: Environment | None = None
        self._losses = 0
        self.loaded: set[str] = set()
        self.prepare_s: float | None = None
        """What preparing took the process, once it is prepared."""

    @property
    def process(self) -> Conversation:
        """The process, started where there is none. Raises Lost."""
        if self._process is None:
            self._process = Conversation(self._module, self._visible, self._cancel)
            self.loaded.clear()
            self._environment = None
            self._asked_environment = self._process.ask("environment")
            self._asked_prepare = None
        if self._wanted is not None and self._asked_prepare is None:
            self._asked_prepare = self._process.ask("prepare", **self._wanted)
        return self._process

    def start(self) -> None:
        """Start the process. Does not wait; a loss shows later."""
        try:
            _ = self.process
        except Lost:
            self.close()

    def begin(self, graph: GraphSpec, options: SweepOptions, compares: bool = True) -> None:
        """Prepare the process for a graph, in place of the last one's. Does not wait."""
        content = {"graph": graph.model_dump(mode="json"), "options": options.model_dump(mode="json")}
        self._wanted, self._asked_prepare, self._losses = {**content, "compares": compares}, None, 0
        self.loaded.clear()
        self.start()

    def glance(self) -> Environment | None:
        """The environment, if the process has told it by now. Does not wait."""
        self.is_ready(0.0)
        return self._environment

    def ready(self) -> Environment:
        """Wait until the process is prepared, starting it where it does not run; gives its environment.

        Raises JobError where it says that it cannot, or is lost twice on the way.
        """
        while not self.is_ready(0.1):
            pass
        assert self._environment is not None
        return self._environment

    def is_ready(self, timeout_s: float) -> bool:
        """Whether the process is prepared, after at most so long. Raises as ``ready`` does."""
        try:
            return self._advance(timeout_s)
        except Declined as reason:
            self.close()
            raise JobError(f"the measuring process cannot prepare this graph: {reason}") from None
        except Lost as reason:
            self.close()
            self._losses += 1
            if self._losses == 2:
                words = "the measuring process was lost twice before it could measure; the second time it"
                raise JobError(f"{words} {reason}") from None
            return False

    def request(self, op: str, on_part: OnPart | None = None, **content: Any) -> Content:
        """Ask a prepared process and wait for its answer. Raises Setback, and JobError as ``ready`` does."""
        self.ready()
        try:
            process = self.process
            number = process.ask(op, on_part, **content)
            answer = process.answer(number, self.deadlines.rounds_s, self.deadlines.stages)
        except (Lost, Declined) as error:
            raise self.setback(error) from None
        if answer.get("restart"):
            self.close()
        return answer

    def setback(self, error: Lost | Declined) -> Setback:
        """What it means that a request ended so; the process is gone where it has to be."""
        if isinstance(error, Declined):
            if error.restart:
                self.close()
            status = Status.TIMEOUT if error.hung else Status.EXEC_FAILED
            return Setback(str(error), error.key, status, Stage.TIME if error.hung else Stage.EXECUTE)
        self.close()
        status = Status.TIMEOUT if error.silent else Status.CRASHED
        stage = Stage(error.stage) if error.stage in set(Stage) else Stage.LOAD
        begun = bool(error.stage) or error.silent  # Else it was already ending.
        return Setback(f"the measuring process {error}", error.key, status, stage, begun)

    def wake(self) -> None:
        """End a wait for the process now. For other threads."""
        process = self._process
        if process is not None:
            process.wake()

    def kill(self) -> None:
        """End the process without waiting for it to be gone."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process and wait, for a limited time, until it is gone."""
        if self._process is not None:
            self._process.close()
            self._process = None
        self._asked_environment = self._asked_prepare = None
        self.loaded.clear()

    def _advance(self, timeout_s: float) -> bool:
        process, deadlines = self.process, self.deadlines
        if self._asked_environment is not None:
            answer = process.told(self._asked_environment, timeout_s)
            if answer is None:
                process.check(self._asked_environment, deadlines.start_s)
                return False
            self._environment = read(Environment, answer.get("environment"))
            self._asked_environment = None
        if self._asked_prepare not in (None, _PREPARED):
            answer = process.told(self._asked_prepare, timeout_s)
            if answer is None:
                process.check(self._asked_prepare, deadlines.prepare_s)
                return False
            self.prepare_s = answer.get("seconds")
            self._asked_prepare = _PREPARED
            self._losses = 0
        return True


def read(model: type[M], content: object) -> M:
    """Raises Lost: a process that sends no record where one is due is of no more use."""
    try:
        return model.model_validate_json(json.dumps(content))  # As JSON: a parsed list is no tuple to a strict model.
    except ValidationError as error:
        raise Lost(f"sent something that is no {model.__name__}: {error}") from None


def by_key(content: object) -> Mapping[str, Any]:
    """A mapping by plan. Raises Lost where it is none."""
    if not isinstance(content, dict):
        raise Lost(f"sent something that is no mapping: {str(content)[:200]}")
    return content
