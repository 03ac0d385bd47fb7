"""A plan in the measuring process: loaded, with memory to run on, and captured for replays."""

from __future__ import annotations

from typing import Any

import torch

from engine.measure.calling import Call, as_called, made_ready
from engine.measure.timing import CannotCapture, Replay, Replays, capture, executions_in_replay

ENOUGH = 1.25
"""Times the executions in a replay: where so many more fit into its time, it is captured again."""
_DELAY_CYCLES = 100_000
"""Of an idle kernel ahead of a loop that cannot be captured: some 50 us per call, in which the host gets ahead."""


class Replayable:
    """A call that enqueues one execution on the current stream, and its replays. ``execution_us``: about how long one
    execution takes, to be set before replays are asked for; ``capturable`` is known after."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.execution_us = 1.0
        self.capturable: bool | None = None
        self._replay: Replay | None = None

    def replay(self, executions: int | None = None) -> Replay:
        """Captured executions, as many as asked for or as make a replay long enough; a loop of calls where they cannot
        be captured."""
        wanted = executions or (self._replay.executions if self._replay else executions_in_replay(self.execution_us))
        if self._replay is None or self._replay.executions != wanted:
            self._replay = Replay(self._captured(wanted), wanted, self.execution_us)
        return self._replay

    def settle(self) -> Replay:
        """A replay that is long enough by the time a first one takes: the time of calls, which its number of executions
        came from, is often the host's."""
        replay = self.replay()
        source = Replays({"": replay})
        ticket = source.enqueue("")
        torch.cuda.synchronize()
        self.execution_us = source.microseconds(ticket)
        wanted = executions_in_replay(self.execution_us)
        return self.replay(wanted) if wanted > ENOUGH * replay.executions else replay

    def try_capture(self) -> None:
        """Find out whether an execution can be captured, without another one."""
        self._captured(1, run=False)

    def _captured(self, executions: int, run: bool = True) -> Any:
        if self.capturable is not False:
            try:
                graph = capture(self.call, executions, run)
                self.capturable = True
                return graph
            except CannotCapture:
                torch.cuda.synchronize()  # Raises where the device is lost, which is no matter of capturing.
                self.capturable = False
        return Loop(self.call, executions)


class Contestant(Replayable):
    """A loaded plan. Its workspace belongs to all plans together: it may be taken away for a larger one."""

    def __init__(self, graph: Any, pack: dict[int, Any], workspace: Any, handle: Any) -> None:
        self._graph, self._pack, self._handle = graph, pack, handle
        self._executions: int | None = None
        super().__init__(as_called(graph, pack, workspace, handle))
        self._workspace = workspace
        self._ready: Call | None = None
        self._asked_ready = False

    @property
    def ready(self) -> Call | None:
        """The call with a ready variant pack, where the frontend has one."""
        if not self._asked_ready:
            self._ready = made_ready(self._graph, self._pack, self._workspace, self._handle)
            self._asked_ready = True
        return self._ready

    @ready.setter
    def ready(self, call: Call | None) -> None:
        self._ready, self._asked_ready = call, True

    def replay(self, executions: int | None = None) -> Replay:
        """As before, also after the workspace was another one: samples of different replays do not mix."""
        found = super().replay(executions or self._executions)
        self._executions = found.executions
        return found

    def bind(self, workspace: Any) -> None:
        """Run on this workspace from now on; None: let go of the one there is."""
        self._workspace, self._replay, self._ready, self._asked_ready = workspace, None, None, False
        self.call = as_called(self._graph, self._pack, workspace, self._handle)


class Loop:
    """Stands in for a CUDA graph where a plan cannot be captured: so many calls in a row, ``lead`` ahead of them."""

    def __init__(self, call: Call, executions: int) -> None:
        self._call, self._executions = call, executions

    def lead(self) -> None:
        """Keep the GPU waiting while the host enqueues the first calls, before the time starts."""
        torch.cuda._sleep(_DELAY_CYCLES * self._executions)

    def replay(self) -> None:
        """All the calls."""
        for _ in range(self._executions):
            self._call()
