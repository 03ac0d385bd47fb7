"""Processes that stand by: a batch of them starts at once, so that they share what starting takes, and is asked one
after the other, so that nothing is ever timed beside anything else.

While a batch is asked nobody starts and nobody ends: who has answered waits, as those do whose turn is still to come,
for a line on its pipe, which takes neither a core nor the GPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.jobs.conversation import Content, Conversation, Declined, Lost, OnPart
from engine.jobs.protocol import KILL_WAIT_S, JobCancelled, JobError
from engine.jobs.reuser import ON_GPU
from engine.plans.targets import Target

REUSER_MODULE = "engine.jobs.reuser"
READY_S, WORK_S = 180.0, 300.0
STEPS = 2
"""Of a question: its process stands by, and it is answered."""
OnSteps = Callable[[str, int], None]
"""What is being done, and how many steps have been taken since the last time."""


@dataclass(frozen=True)
class Question:
    """For a process of its own. ``what``: in words.

    ``cache``: the folder of the driver's compute cache, which is off without one. ``ready``: whether the process has
    had cuDNN load its libraries before it is asked, or has done no more than import them. ``group``: once one of a
    group has failed, the others of it are not asked and end as it did; "" for none.
    """

    what: str
    op: str
    content: Mapping[str, Any]
    group: str = ""
    cache: Path | None = None
    ready: bool = True
    on_part: OnPart | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What its process has to be started with."""
        if self.cache is None:
            return {"CUDA_CACHE_DISABLE": "1"}
        return {"CUDA_CACHE_DISABLE": "0", "CUDA_CACHE_PATH": str(self.cache)}


class Standby:
    """Processes for one graph (``spec``, as JSON) and target, ``size`` at once. Use it from one long-lived thread (see
    ``protocol.die_with_parent``)."""

    def __init__(
        self,
        spec: str,
        target: Target,
        cancel: threading.Event,
        on_gpu: bool,
        size: int = 1,
        module: str = REUSER_MODULE,
        on_steps: OnSteps = lambda what, steps: None,
    ) -> None:
        self._common: dict[str, Any] = {"spec": spec, "target": target.model_dump_json()}
        self._cancel, self._size, self._module, self._on_steps = cancel, size, module, on_steps
        self._environment = {"CUDA_VISIBLE_DEVICES": target.gpu_uuid} if target.gpu_uuid else {}
        if on_gpu:
            self._environment[ON_GPU] = "1"
        self._failed: dict[str, JobError] = {}

    def answers(self, questions: Sequence[Question]) -> list[Content | JobError]:
        """To each its answer, or what went wrong with it alone, in order. A process may have been started before what
        is asked of others was done: what it has to find at its start takes a call before. Raises JobCancelled."""
        found: list[Content | JobError] = []
        for first in range(0, len(questions), self._size):
            found += self._batch(questions[first : first + self._size])
        return found

    def answer(self, question: Question) -> Content:
        """To a single one. Raises JobError with what went wrong, and JobCancelled."""
        (answer,) = self.answers([question])
        if isinstance(answer, JobError):
            raise answer
        return answer

    def _batch(self, questions: Sequence[Question]) -> list[Content | JobError]:
        if self._cancel.is_set():
            raise JobCancelled
        starting = f"starting processes for {questions[0].what}"
        self._on_steps(starting, 0)
        started: list[_Process] = []
        try:
            for question in questions:
                process = _Process(question, self._common, self._failed.get(question.group))
                started.append(process)
                process.start(self._module, {**self._environment, **question.environment}, self._cancel)
            for process in started:
                process.wait()
                self._on_steps(starting, 1)
            return [self._ask(process) for process in started]
        finally:
            _end(started)

    def _ask(self, process: _Process) -> Content | JobError:
        question = process.question
        self._on_steps(question.what, 0)
        answer = self._failed.get(question.group) or process.ask()
        if isinstance(answer, JobError) and question.group:
            self._failed[question.group] = answer
        self._on_steps(question.what, 1)
        return answer


class _Process:
    """One question's. ``failed``: why it will give no answer; it is not even started where that is known before."""

    def __init__(self, question: Question, common: Mapping[str, Any], failed: JobError | None) -> None:
        self.question, self.failed = question, failed
        self.conversation: Conversation | None = None
        self._common, self._number = common, 0

    def start(self, module: str, environment: Mapping[str, str], cancel: threading.Event) -> None:
        """Does not wait."""

        def act() -> None:
            self.conversation = process = Conversation(module, environment, cancel)
            op, content = ("ready", self._common) if self.question.ready else ("imports", {})
            self._number = process.ask(op, None, **content)

        self._try(act)

    def wait(self) -> None:
        """Until it stands by. Raises JobCancelled."""
        self._try(lambda: self._answer(READY_S))

    def ask(self) -> Content | JobError:
        """The question. Raises JobCancelled."""

        def act() -> Content:
            assert self.conversation is not None
            content = {**self._common, **self.question.content}
            self._number = self.conversation.ask(self.question.op, self.question.on_part, **content)
            return self._answer(WORK_S)

        answer = self._try(act)
        return answer if answer is not None else self.failed or JobError("the process gave no answer")

    def _answer(self, deadline_s: float) -> Content:
        assert self.conversation is not None
        return self.conversation.answer(self._number, deadline_s)

    def _try(self, act: Callable[[], Content | None]) -> Content | None:
        if self.failed is not None:
            return None
        try:
            return act()
        except (Declined, JobError) as error:
            self.failed = JobError(str(error))
        except Lost as error:
            self.failed = JobError(f"the process {error}")
        if self.conversation is not None:
            self.conversation.close()  # It may be at work still.
        return None


def _end(processes: Sequence[_Process]) -> None:
    """All at once, and wait, for a limited time, until they are gone."""
    going = [process.conversation for process in processes if process.conversation is not None]
    for conversation in going:
        conversation.kill()
    end = time.monotonic() + KILL_WAIT_S
    for conversation in going:
        conversation.close(max(0.0, end - time.monotonic()))
