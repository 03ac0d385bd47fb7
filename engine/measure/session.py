"""One graph on one GPU: data and reference made once; plans loaded, executed, compared and sampled on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cudnn
import torch

from engine.graph.spec import GraphSpec
from engine.graph.tensors import TensorSpec
from engine.measure.accuracy import Scale, compare, explain, scale_of, tolerance
from engine.measure.buffers import Buffers, required_bytes
from engine.measure.contestant import Contestant
from engine.measure.device import Device
from engine.measure.findings import Attempt, Finding, OnStage
from engine.measure.gpu_state import StateReader
from engine.measure.reference import WIDE, reference, reference_bytes
from engine.measure.rounds import Rounds
from engine.measure.sampling import Announce, Report, Sampler
from engine.measure.screening import FAR, is_far
from engine.measure.timing import REPLAY_US, Flush, Replays, estimate_us, first_execution
from engine.plans.building import PlanFailure, check_loaded, load
from engine.plans.context import Context
from engine.records.options import SweepOptions
from engine.records.passport import OutputAccuracy
from engine.records.plan import Stage, Status
from engine.records.samples import Samples

# What executing a plan may raise: torch's and cudnn's errors are RuntimeErrors, except this one of cudnn's.
FAILURES = (RuntimeError, ValueError, cudnn.cudnnGraphNotSupportedError)
SCREENING_SAMPLES = 4


class TooLarge(RuntimeError):
    """The graph does not fit the GPU's memory; the message has the numbers."""


class NotLoaded(ValueError):
    """A plan was asked for that this process has not loaded, or has had to forget."""


class Session:
    """Holds the memory of one graph and the plans loaded for it. Not reusable after the device is lost.

    ``compares``: whether a reference is made to hold outputs against; without one, plans can only be timed.
    """

    def __init__(self, device: Device, spec: GraphSpec, options: SweepOptions, compares: bool = True) -> None:
        self.device, self.spec, self._options = device, spec, options
        self.reference_dtype = _affordable(device, spec)
        self.buffers = Buffers(spec, options.seed, device.torch_device, options.data, options.score_shift)
        self._wanted: dict[int, Any] = {}
        if compares:
            self._wanted = reference(spec, self.buffers.values, self.reference_dtype)
        self._scales = {uid: scale_of(spec.by_uid[uid], want) for uid, want in self._wanted.items()}
        torch.cuda.empty_cache()
        self.flush = Flush(device.l2_bytes, device.torch_device)
        self.reader = StateReader(device.info.uuid)
        self._contestants: dict[str, Contestant] = {}
        self._loaded_before = False
        torch.cuda.synchronize()

    def admit(self, key: str, blob: bytes, workspace_bytes: int, best_us: float | None, on_stage: OnStage) -> Finding:
        """Load a plan, execute it on poisoned outputs, compare these, and screen it where they are right.

        ``on_stage`` hears of every stage before it begins; ``best_us``: the best plan's time so far.
        """
        attempt = Attempt(key, on_stage)
        try:
            attempt.enter(Stage.LOAD)
            contestant, milliseconds = self._load(blob, workspace_bytes)
            attempt.found(deserialize_ms=milliseconds)

            attempt.enter(Stage.EXECUTE)
            self.buffers.poison()
            first = first_execution(contestant.call)

            attempt.enter(Stage.CHECK)
            began = time.perf_counter()
            accuracy = self.compare(self.buffers.outputs, unfused=False)
            attempt.found(accuracy=accuracy, check_s=time.perf_counter() - began)
            if complaint := explain(accuracy):
                return attempt.ended(Status.WRONG_RESULT, complaint)

            attempt.enter(Stage.TIME)
            began = time.perf_counter()
            contestant.execution_us = first.own_us
            far = is_far(first.at_least_us, best_us) or first.at_least_us > 50 * REPLAY_US
            if far:  # Also the first plan of all, where it is slow: whether it is far will be known later.
                contestant.try_capture()
                samples = Samples.of([first.own_us])
            else:
                contestant.execution_us = estimate_us(contestant.call, first)
                samples = self._screen(contestant, best_us)
            self._contestants[key] = contestant
            attempt.found(screening=samples, capturable=contestant.capturable, state=self.reader.read())
            return attempt.found(screen_s=time.perf_counter() - began).ended(Status.OK, None)
        except PlanFailure as failure:
            return attempt.ended(failure.status, failure.message)
        except FAILURES as error:
            return attempt.ended(Status.EXEC_FAILED, describe(error))

    def reload(self, key: str, blob: bytes, workspace_bytes: int, executions: int | None, on_stage: OnStage) -> None:
        """Load a plan that was found right before, and get it ready for replays. Raises what loading and running
        raise."""
        on_stage(Stage.LOAD)
        contestant, _ = self._load(blob, workspace_bytes)
        on_stage(Stage.EXECUTE)
        contestant.execution_us = estimate_us(contestant.call, first_execution(contestant.call))
        on_stage(Stage.TIME)
        if executions is None:
            contestant.settle()
        else:
            contestant.replay(executions)
        self._contestants[key] = contestant

    def sample(
        self,
        rounds: Rounds,
        executions: Mapping[str, int | None],
        report: Report,
        announce: Announce | None,
    ) -> None:
        """Sample the plans of ``executions`` (by key: how many in a replay, where that is settled) until ``rounds`` has
        enough. Raises Hung, and what replaying raises."""
        replays = {}
        for key, wanted in executions.items():
            if announce is not None:
                announce(key)
            replays[key] = self.contestant(key).replay(wanted)
        source, rated = Replays(replays), self.device.info.rated_sm_clock_mhz
        Sampler(rounds, source, self.reader.read, report, rated, announce).run()

    def check_ready(self, key: str) -> None:
        """Make sure that the call with a ready variant pack computes the same; take it away where it does not."""
        contestant = self.contestant(key)
        if contestant.ready is not None:
            self.buffers.poison()
            contestant.ready()
            torch.cuda.synchronize()
            if explain(self.compare(self.buffers.outputs, unfused=False)):
                contestant.ready = None

    def executions(self, keys: Iterable[str]) -> dict[str, int]:
        """How many executions the replays of these plans hold."""
        return {key: self.contestant(key).replay().executions for key in keys}

    def contestant(self, key: str) -> Contestant:
        """A loaded plan. Raises NotLoaded."""
        try:
            return self._contestants[key]
        except KeyError:
            raise NotLoaded(f"plan {key} is not loaded") from None

    def compare(self, outputs: Mapping[int, Any], *, unfused: bool) -> tuple[OutputAccuracy, ...]:
        """Outputs by uid, held against the reference."""
        score_shift = self._options.score_shift
        return self.judge(outputs, lambda scale: tolerance(self.spec, scale, score_shift=score_shift, unfused=unfused))

    def judge(self, outputs: Mapping[int, Any], allowed: Callable[[Scale], float]) -> tuple[OutputAccuracy, ...]:
        """The same, with a tolerance of the caller's by the scale of an output's reference."""

        def judged(tensor: TensorSpec) -> OutputAccuracy:
            scale = self._scales[tensor.uid]
            return compare(tensor, outputs[tensor.uid], self._wanted[tensor.uid], scale, allowed(scale))

        return tuple(judged(tensor) for tensor in self.spec.outputs)

    def _load(self, blob: bytes, workspace_bytes: int) -> tuple[Contestant, float]:
        """The plan ready to run, and how long loading took. Raises PlanFailure, also for a plan of other tensors, and
        TooLarge.

        The first load of a process also loads cuDNN's libraries, up to 100 ms: it is done twice, so that the first
        plan's time is the plan's own.
        """
        context = Context(handle=self.device.handle)
        if not self._loaded_before:
            load(cudnn, context, blob)
            self._loaded_before = True
        graph, milliseconds = load(cudnn, context, blob)
        check_loaded(cudnn, graph, self.spec)
        self._make_room(max(graph.get_workspace_size(), workspace_bytes))
        return Contestant(graph, self.buffers.pack, self.buffers.workspace, self.device.handle), milliseconds

    def _make_room(self, nbytes: int) -> None:
        """One workspace for all plans, as large as the largest needs. Raises TooLarge."""
        before = self.buffers.workspace.numel()
        if nbytes <= before:
            return
        for contestant in self._contestants.values():
            contestant.bind(None)
        try:
            self.buffers.resize_workspace(nbytes)
        except torch.OutOfMemoryError:
            free = self.device.free_bytes()
            self.buffers.resize_workspace(before)
            raise TooLarge(f"its workspace of {_gib(nbytes)} does not fit: {_gib(free)} are free") from None
        finally:
            for contestant in self._contestants.values():
                contestant.bind(self.buffers.workspace)

    def _screen(self, contestant: Contestant, best_us: float | None) -> Samples:
        """A few replays; after the first of them it is known whether the plan is far from the best."""
        replay = contestant.settle()
        source = Replays({"": replay})
        values: list[float] = []
        while len(values) < SCREENING_SAMPLES:
            ticket = source.enqueue("")
            torch.cuda.synchronize()
            values.append(source.microseconds(ticket))
            if best_us is not None and values[0] > FAR * best_us:
                break
        return Samples.of(values, executions=replay.executions)


def describe(error: BaseException) -> str:
    """An error in words, for a record."""
    return (str(error).strip() or type(error).__name__)[:2000]


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
