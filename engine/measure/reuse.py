"""What a study of reuse executes on a GPU: first executions, and one plan at shapes that override its own."""

from __future__ import annotations

import time
from typing import Any

import torch

from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role
from engine.measure.accuracy import explain
from engine.measure.buffers import Buffers
from engine.measure.contestant import Replayable
from engine.measure.device import Device
from engine.measure.graph_use import UsedInGraphs
from engine.measure.session import FAILURES, Session, describe
from engine.measure.timing import Replays, estimate_us, first_execution
from engine.records.options import SweepOptions
from engine.records.plan import PlanIdentity
from engine.records.reuse import GraphUse
from engine.records.samples import Samples

SAMPLES = 30


class Bench:
    """The GPU of this process, and the memory of the graph at hand."""

    def __init__(self) -> None:
        self._device = Device()
        self._made_for: str | None = None
        self._buffers: Buffers | None = None

    @property
    def handle(self) -> Any:
        """The cuDNN handle, on the stream that everything here runs on."""
        return self._device.handle

    def prepare(self, spec: GraphSpec) -> None:
        """Make the memory of a graph, so that no execution waits for it."""
        self._memory(spec)
        torch.cuda.synchronize()

    def first_ms(self, spec: GraphSpec, graph: Any) -> float:
        """Execute a graph once, waited for, wall clock; raises what cuDNN raises."""
        buffers = self._memory(spec)
        workspace = buffers.resize_workspace(int(graph.get_workspace_size()))
        torch.cuda.synchronize()
        began = time.perf_counter()
        graph.execute(buffers.pack, workspace, handle=self.handle)
        torch.cuda.synchronize()
        return (time.perf_counter() - began) * 1e3

    def overridden(self, spec: GraphSpec, built_for: GraphSpec, graph: Any) -> dict[str, Any]:
        """Fields of a SizePlan: whether a graph built for one spec is right when run as another, and how fast."""
        session = Session(self._device, spec, SweepOptions())
        taken = [tensor for tensor in spec.real if tensor.role is not Role.SCALAR]
        override = {
            "override_uids": [tensor.uid for tensor in taken],
            "override_shapes": [list(tensor.dims) for tensor in taken],
            "override_strides": [list(tensor.strides) for tensor in taken],
        }
        own = spec == built_for
        buffers = session.buffers
        try:
            workspace = buffers.resize_workspace(self._workspace_bytes(graph, {} if own else override))

            def call() -> None:
                graph.execute(buffers.pack, workspace, handle=self.handle, **({} if own else override))

            buffers.poison()
            first = first_execution(call)
            accuracy = session.compare(buffers.outputs, unfused=False)
            worst = max(accuracy, key=lambda output: (output.max_rel or 0.0) / output.tolerance)
            complaint = explain(accuracy)
            found: dict[str, Any] = {"right": not complaint, "max_rel": worst.max_rel, "allowed": worst.tolerance}
            return {**found, "complaint": complaint or None, "hot": hot_samples(call, estimate_us(call, first))}
        except FAILURES as error:
            return {"complaint": f"it does not run: {describe(error)[:500]}"}

    def graph_use(
        self, spec: GraphSpec, graph: Any, identity: PlanIdentity, plan_name: str, compiled: bool, seed: int
    ) -> GraphUse:
        """What CUDA graphs give a loaded plan."""
        used = UsedInGraphs(self._device, spec, graph, seed)
        return GraphUse(identity=identity, plan_name=plan_name, compiled=compiled, **used.find_out())

    def _workspace_bytes(self, graph: Any, override: dict[str, Any]) -> int:
        """What it needs; cuDNN before 9.23 does not tell that of overridden shapes."""
        own = int(graph.get_workspace_size())
        try:
            return max(own, int(graph.get_workspace_size(self.handle, *override.values()))) if override else own
        except FAILURES:
            return own

    def _memory(self, spec: GraphSpec) -> Buffers:
        if self._buffers is None or self._made_for != spec.graph_id:
            self._buffers, self._made_for = Buffers(spec, 0, self._device.torch_device), spec.graph_id
        return self._buffers


def hot_samples(call: Any, execution_us: float) -> Samples:
    """Replays of a call, as the hot regime takes them."""
    replayable = Replayable(call)
    replayable.execution_us = execution_us
    replay = replayable.settle()
    source, values = Replays({"": replay}), []
    for _ in range(SAMPLES):
        ticket = source.enqueue("")
        torch.cuda.synchronize()
        values.append(source.microseconds(ticket))
    return Samples.of(values, executions=replay.executions)
