"""The parent's side of the process that measures: asks it plan by plan, and outlives its crashes and hangs.

A plan that takes the process with it costs that plan: for the next one a new process is started and prepared.
"""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from engine.graph.spec import GraphSpec
from engine.jobs.conversation import Content, Conversation, Declined, Lost
from engine.jobs.protocol import JobError
from engine.records.environment import Environment
from engine.records.plan import PlanRecord, Stage, Status
from engine.records.run import Baseline

WORKER_MODULE = "engine.jobs.worker"
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Deadlines:
    """How long the measuring process may be silent, in seconds.

    ``start_s``: importing torch from a cold disk and making the CUDA context; ``prepare_s``: data and float64 reference
    of the largest graph; the others per plan. A plan executes once in ``execute_s`` and a dozen times in ``time_s``.
    """

    start_s: float = 180.0
    prepare_s: float = 300.0
    load_s: float = 60.0
    execute_s: float = 30.0
    check_s: float = 120.0
    time_s: float = 300.0

    @property
    def stages(self) -> dict[str, float]:
        """By the stage's name, as the process tells it."""
        return {
            Stage.LOAD.value: self.load_s,
            Stage.EXECUTE.value: self.execute_s,
            Stage.CHECK.value: self.check_s,
            Stage.TIME.value: self.time_s,
        }


class GpuWorker:
    """One graph on one GPU. Use it from one long-lived thread (see ``protocol.die_with_parent``) and ``close`` it.

    Whatever waits here raises JobCancelled soon after ``cancel`` is set, with the process killed.
    """

    def __init__(
        self,
        graph: GraphSpec,
        seed: int,
        gpu_uuid: str | None,
        cancel: threading.Event,
        module: str = WORKER_MODULE,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._graph, self._seed, self._cancel, self._module = graph, seed, cancel, module
        self._deadlines = deadlines or Deadlines()
        self._visible = {} if gpu_uuid is None else {"CUDA_VISIBLE_DEVICES": gpu_uuid}
        self._process: Conversation | None = None
        self._first: tuple[int, int] | None = None  # numbers of environment and prepare, until both are answered
        self._told: Environment | None = None

    def start(self) -> None:
        """Start the process and let it prepare while plans are built. Does not wait; a loss shows in ``prepare``."""
        with contextlib.suppress(Lost):
            self._start()

    def glance(self) -> Environment | None:
        """The environment, if the process has told it by now. Does not wait; a lost process is for ``prepare``."""
        if self._told is None and self._process is not None and self._first is not None:
            try:
                answer = self._process.told(self._first[0])
                self._told = None if answer is None else _parse(Environment, answer.get("environment"))
            except (Lost, Declined):
                self.close()
        return self._told

    def prepare(self) -> Environment:
        """Wait until the process is ready to measure, starting it where it does not run; gives its environment.

        Raises JobError where it says that it cannot, or is lost twice on the way.
        """
        for attempt in (1, 2):
            try:
                return self._prepare()
            except Declined as reason:
                raise JobError(f"the measuring process cannot prepare this graph: {reason}") from None
            except Lost as reason:
                self.close()
                if attempt == 2:
                    message = (
                        f"the measuring process was lost twice before it could measure; the second time it {reason}"
                    )
                    raise JobError(message) from None
        raise AssertionError("unreachable")

    def measure(self, plan: PlanRecord, blob: Path) -> PlanRecord:
        """The plan's record, completed, whatever becomes of the process. Raises JobError where none can be started."""
        self.prepare()
        try:
            answer = self._ask("measure", plan=plan.model_dump(mode="json"), blob=str(blob))
            record = _parse(PlanRecord, answer.get("plan"))
            if record.key != plan.key:
                raise Lost(f"answered for another plan, {record.key}")
            return record
        except Lost as lost:
            self.close()
            status = Status.TIMEOUT if lost.silent else Status.CRASHED
            return _ended(plan, status, lost.stage, f"the measuring process {lost}")
        except Declined as declined:
            if declined.restart:
                self.close()
            return _ended(plan, Status.EXEC_FAILED, Stage.LOAD, str(declined))

    def baseline(self) -> Baseline:
        """What torch takes; without timings and with a message where that fails."""
        self.prepare()
        try:
            return _parse(Baseline, self._ask("baseline").get("baseline"))
        except Lost as lost:
            self.close()
            message = f"the measuring process {lost}"
        except Declined as declined:
            if declined.restart:
                self.close()
            message = str(declined)
        return Baseline(name="torch eager", accuracy=(), timings=None, message=message)

    def kill(self) -> None:
        """End the process without waiting for it to be gone."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process and wait, for a limited time, until it is gone."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _start(self) -> Conversation:
        process = Conversation(self._module, self._visible, self._cancel)
        graph = self._graph.model_dump(mode="json")
        self._first = (process.ask("environment"), process.ask("prepare", graph=graph, seed=self._seed))
        self._process, self._told = process, None
        return process

    def _prepare(self) -> Environment:
        if self._process is not None and self._first is None and not self._process.alive:
            self.close()  # Ended while nothing was asked of it: no plan is to blame.
        process = self._process or self._start()
        if self._first is not None:
            environment, prepare = self._first
            if self._told is None:
                answer = process.answer(environment, self._deadlines.start_s)
                self._told = _parse(Environment, answer.get("environment"))
            process.answer(prepare, self._deadlines.prepare_s)
            self._first = None
        assert self._told is not None
        return self._told

    def _ask(self, op: str, again: bool = True, **content: Any) -> Content:
        assert self._process is not None
        try:
            number = self._process.ask(op, **content)
            answer = self._process.answer(number, self._deadlines.load_s, self._deadlines.stages)
        except Lost as lost:
            if lost.stage or lost.silent or not again:
                raise
            # It had not begun with this: it was already ending, and this plan is not to blame.
            self.close()
            self.prepare()
            return self._ask(op, again=False, **content)
        if answer.get("restart"):
            self.close()
        return answer


def _parse(model: type[M], content: Any) -> M:
    """Raises Lost: a process that sends no record where one is due is of no more use."""
    try:
        return model.model_validate_json(json.dumps(content))  # As JSON: a parsed list is no tuple to a strict model.
    except ValidationError as error:
        raise Lost(f"sent something that is no {model.__name__}: {error}") from None


def _ended(plan: PlanRecord, status: Status, stage: str, message: str) -> PlanRecord:
    where = Stage(stage) if stage in set(Stage) else Stage.LOAD
    return PlanRecord.model_validate({**dict(plan), "status": status, "stage": where, "message": message})
