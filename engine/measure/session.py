"""One graph on one GPU: data and reference made once, then plan after plan executed, compared and timed on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cudnn
import torch

from engine.graph.spec import GraphSpec
from engine.graph.tensors import TensorSpec
from engine.measure.accuracy import compare, explain, scale_of, tolerance
from engine.measure.baselines.eager import NAME, eager
from engine.measure.buffers import Buffers, required_bytes
from engine.measure.device import Device
from engine.measure.gpu_state import StateReader
from engine.measure.reference import WIDE, reference, reference_bytes
from engine.measure.timing import Flush, estimate_us, span_us, time_call
from engine.plans.building import PlanFailure, check_loaded, load
from engine.plans.context import Context
from engine.records.plan import OutputAccuracy, PlanRecord, Stage, Status, Timings
from engine.records.run import Baseline

OnStage = Callable[[Stage], None]

# What executing a plan may raise: torch's and cudnn's errors are RuntimeErrors, except this one of cudnn's.
FAILURES = (RuntimeError, ValueError, cudnn.cudnnGraphNotSupportedError)


class TooLarge(RuntimeError):
    """The graph does not fit the GPU's memory; the message has the numbers."""


class Session:
    """Holds the memory of one graph. Not reusable after the device is lost."""

    def __init__(self, device: Device, spec: GraphSpec, seed: int) -> None:
        self._device, self._spec = device, spec
        self.reference_dtype = _affordable(device, spec)
        self.buffers = Buffers(spec, seed, device.torch_device)
        self._wanted = reference(spec, self.buffers.values, self.reference_dtype)
        self._scales = {t.uid: scale_of(t, self._wanted[t.uid]) for t in spec.outputs}
        torch.cuda.empty_cache()
        self._flush = Flush(device.l2_bytes, device.torch_device)
        self._reader = StateReader(device.info.uuid)
        self._best_us: float | None = None
        self._loaded_before = False
        torch.cuda.synchronize()

    def measure(self, plan: PlanRecord, blob: bytes, on_stage: OnStage) -> PlanRecord:
        """The plan's record, completed with how it ended here. ``on_stage`` hears of every stage before it begins."""
        attempt = _Attempt(plan, on_stage)
        try:
            attempt.enter(Stage.LOAD)
            graph, milliseconds = self._load(blob)
            attempt.found(deserialize_ms=milliseconds)

            attempt.enter(Stage.EXECUTE)
            workspace = self._workspace(max(graph.get_workspace_size(), plan.workspace_bytes or 0))
            self.buffers.poison()
            pack, handle = self.buffers.pack, self._device.handle

            def call() -> None:
                graph.execute(pack, workspace, handle=handle)

            first_us = span_us(call)

            attempt.enter(Stage.CHECK)
            accuracy = self._compare(self.buffers.outputs, unfused=False)
            attempt.found(accuracy=accuracy)
            if complaint := explain(accuracy):
                return attempt.ended(Status.WRONG_RESULT, complaint)

            attempt.enter(Stage.TIME)
            timings = self._time(call, first_us)
            self._best_us = min(timings.hot.median_us, self._best_us or timings.hot.median_us)
            return attempt.found(timings=timings).ended(Status.OK, plan.message)  # what building it remarked stays true
        except PlanFailure as failure:
            return attempt.ended(failure.status, failure.message)
        except FAILURES as error:
            return attempt.ended(Status.EXEC_FAILED, _text(error))

    def baseline(self) -> Baseline:
        """torch eager on the same data, timed the same way."""
        run = eager(self._spec, self.buffers.values)
        accuracy: tuple[OutputAccuracy, ...] = ()
        try:
            accuracy = self._compare(run(), unfused=True)
            return Baseline(name=NAME, accuracy=accuracy, timings=self._time(run, span_us(run)))
        except RuntimeError as error:
            return Baseline(name=NAME, accuracy=accuracy, timings=None, message=_text(error))

    def _load(self, blob: bytes) -> tuple[Any, float]:
        """The plan ready to run, and how long that took; raises PlanFailure, also for a plan of other tensors.

        The first load of a process also loads cuDNN's libraries, up to 100 ms: it is done twice, so that the first
        plan's time is the plan's own.
        """
        context = Context(handle=self._device.handle)
        if not self._loaded_before:
            load(cudnn, context, blob)
            self._loaded_before = True
        graph, milliseconds = load(cudnn, context, blob)
        check_loaded(cudnn, graph, self._spec)
        return graph, milliseconds

    def _workspace(self, nbytes: int) -> Any:
        try:
            return self.buffers.workspace(nbytes)
        except torch.OutOfMemoryError:
            free = self._device.free_bytes()
            raise TooLarge(f"its workspace of {_gib(nbytes)} does not fit: {_gib(free)} are free") from None

    def _compare(self, outputs: dict[int, Any], *, unfused: bool) -> tuple[OutputAccuracy, ...]:
        def judge(tensor: TensorSpec) -> OutputAccuracy:
            scale = self._scales[tensor.uid]
            allowed = tolerance(self._spec, scale, unfused=unfused)
            return compare(tensor, outputs[tensor.uid], self._wanted[tensor.uid], scale, allowed)

        return tuple(judge(tensor) for tensor in self._spec.outputs)

    def _time(self, call: Callable[[], object], first_us: float) -> Timings:
        return time_call(call, self._flush, estimate_us(call, first_us), self._best_us, self._reader.read)


class _Attempt:
    """A plan's record while it is being made."""

    def __init__(self, plan: PlanRecord, on_stage: OnStage) -> None:
        self._plan, self._on_stage = plan, on_stage
        self._stage = Stage.LOAD
        self._found: dict[str, Any] = {}

    def enter(self, stage: Stage) -> None:
        self._stage = stage
        self._on_stage(stage)

    def found(self, **values: Any) -> _Attempt:
        self._found.update(values)
        return self

    def ended(self, status: Status, message: str | None) -> PlanRecord:
        ending = {"status": status, "stage": self._stage, "message": message}
        return PlanRecord.model_validate({**dict(self._plan), **self._found, **ending})


def _affordable(device: Device, spec: GraphSpec) -> Any:
    """The widest reference type that fits the free memory; raises TooLarge where none does."""
    free, beside = device.free_bytes(), required_bytes(spec) + Flush.required_bytes(device.l2_bytes)
    for dtype in WIDE:
        if beside + reference_bytes(spec, dtype) <= free:
            return dtype
    wanted, total = reference_bytes(spec, WIDE[-1]), device.info.memory_bytes
    raise TooLarge(
        f"the graph's tensors need {_gib(beside)} and its float32 reference {_gib(wanted)} beside them, but only "
        f"{_gib(free)} of {device.info.name}'s {_gib(total)} are free. Use smaller sizes."
    )


def _gib(nbytes: int) -> str:
    return f"{nbytes / 2**30:,.1f} GiB"


def _text(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__)[:2000]
