"""The process that owns a GPU: ``python -m engine.jobs.worker``, the GPU picked by CUDA_VISIBLE_DEVICES (a UUID).

It imports torch and cudnn, speaks ``engine.jobs.protocol`` and works off one request at a time:

``environment`` -> ``done {"environment": Environment}``; its ``gpu`` is null where this process sees no GPU.
``properties`` -> ``done {"properties": {...}}``: the device properties as a target file holds them.
``prepare {"graph": GraphSpec, "options": SweepOptions, "compares": bool}`` -> ``done {"reference_dtype", "bytes",
    "seconds"}``.
    Makes data and, with ``compares``, the reference, in place of the last graph's. Needed before what follows, and
    again after a restart.
``admit {"key", "blob": PATH, "sha256", "workspace_bytes", "best_us"}`` -> ``stage {"stage", "key"}`` before each of
    load, execute, check, time; then ``done {"finding": Finding}``. A plan that fails to load, run or give the right
    values is such a finding, not a failure of the request. The plan stays loaded.
``reload {"key", "blob", "sha256", "workspace_bytes", "executions"}`` -> ``stage``s, ``done``: a plan found right
    before.
``rounds {"executions": {KEY: int | null}, "rule", "seed", "keep": [KEY], "before": {KEY: {"count", ...}}, "spent_s",
    "careful": bool}`` -> ``part``s as ``rounds_part`` makes them, then ``done {"stopped": {KEY: ...}}``.
    With ``careful`` a ``stage {"stage": "time", "key"}`` before every replay.
``regimes {"keys": [KEY], "regimes": [Regime], "seed"}`` -> ``stage``s, ``part {"key", "samples": {Regime: Samples}}``,
    ``done``.
``repeat {"keys": [KEY]}`` -> ``stage``s, ``part {"key", "repeats": Repeatability}``, ``done``.
``baseline {"rule", "seed"}`` -> ``stage {"stage": "time"}``, ``done {"baseline": Baseline}``.

Every other end is ``failed {"message", "restart": bool, "key": KEY | null, "hung": bool}``: no GPU, too little memory
(with the numbers), nothing prepared, an unreadable blob, an unknown op; ``key``: the plan to blame, where one is.
``restart`` true, in this or in ``done``: an error has spoilt the CUDA context (an illegal access, for example) or a
plan hangs on the GPU, and the worker exits with status EXIT_DEVICE_LOST after this line. A hang that stops the worker
itself is the parent's to notice, by the stage it has heard of last. Records travel as their JSON.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from engine.jobs.protocol import Channel, die_with_parent
from engine.machine.driver import load_libcuda

EXIT_DEVICE_LOST = 3
Content = dict[str, Any]

logger = logging.getLogger(__name__)


class Worker:
    """The state between requests: the device, and what is asked of a graph."""

    def __init__(self, channel: Channel) -> None:
        # Only here: importing this module (its constants) must not load torch and cudnn.
        from engine.jobs import questions
        from engine.measure import device

        self._channel = channel
        self._device_module, self._questions_module = device, questions
        self._device: device.Device | None = None
        self._questions: questions.Questions | None = None

    def device(self) -> Any:
        """The GPU; opened at the first request that needs it. Raises NoGpu."""
        if self._device is None:
            self._device = self._device_module.Device()
        return self._device

    def answer(self, request: Content) -> bool:
        """Work off one request, to its ``done`` or ``failed``; False when this process cannot go on."""
        op = request.get("op")
        blamed: Content = {}
        try:
            content, event = self._answer(op, request), "done"
        except self._questions_module.Blamed as error:
            blamed = {"key": error.key, "hung": error.hung}
            content, event = {"message": str(error)}, "failed"
        except (RuntimeError, ValueError, OSError, KeyError) as error:
            logger.warning("%s failed", op, exc_info=True)
            content, event = {"message": describe(error)}, "failed"
        suspect = event == "failed" or content.pop("suspect", False)
        lost = blamed.get("hung") or (suspect and self._device is not None and self._device.is_lost())
        self._channel.send(request, event, **content, **blamed, restart=bool(lost))
        return not lost

    def _answer(self, op: Any, request: Content) -> Content:
        own = {"environment": self._environment, "properties": self._properties, "prepare": self._prepare}
        if op in own:
            return own[op](request)
        if op not in self._questions_module.OPS:
            raise self._questions_module.BadRequest(f"no such op: {op!r}")
        if self._questions is None:
            raise self._questions_module.BadRequest("nothing is prepared")
        content: Content = getattr(self._questions, op)(request)
        return content

    def _environment(self, request: Content) -> Content:
        try:
            gpu = self.device().info
        except self._device_module.NoGpu:
            gpu = None
        return {"environment": self._device_module.environment(gpu).model_dump(mode="json")}

    def _properties(self, request: Content) -> Content:
        return {"properties": self.device().properties()}

    def _prepare(self, request: Content) -> Content:
        device = self.device()
        self._questions = None  # before the next one asks how much memory is free
        self._questions, told = self._questions_module.prepare(device, request, self._channel)
        return dict(told)


def describe(error: BaseException) -> str:
    """An error in words, for the parent."""
    if isinstance(error, KeyError):
        return f"the request lacks {error}"
    return (str(error).strip() or type(error).__name__)[:4000]


def main(make: Callable[[Channel], Worker] = Worker) -> int:
    """Serve until the parent closes the pipe. ``make``: the worker, or one that answers more."""
    die_with_parent()
    channel = Channel()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    load_libcuda()
    worker = make(channel)
    for request in channel.requests():
        if not worker.answer(request):
            # Not sys.exit: tearing down a spoilt context can hang or abort.
            sys.stderr.flush()
            os._exit(EXIT_DEVICE_LOST)
    return 0


if __name__ == "__main__":
    sys.exit(main())
