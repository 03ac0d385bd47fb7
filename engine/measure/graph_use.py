"""One plan and CUDA graphs: captured from a stream, or made by cuDNN's native calls; replayed, given new data, and
moved to other buffers. What it should give is what a plain execution gives on the same data."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from engine.graph.spec import GraphSpec
from engine.measure.buffers import POISON, Buffers, bits
from engine.measure.calling import as_called
from engine.measure.device import Device
from engine.measure.session import FAILURES, describe
from engine.measure.timing import CannotCapture, Replay, Replays, capture, span_us
from engine.records.samples import Samples

EXECUTIONS = (1, 10, 100)
SAMPLE_S, SERIES_S = 0.5, 2.0
"""No sample of several executions lasts longer, nor do the samples beyond the LEAST: among plans of 80 us there are
some of 120 ms, and what a launch costs is nothing to those."""
LEAST, SAMPLES = 5, 30
SAME = 0.02
"""Relative difference, by the norm, below which two results are the same: far above what the order of sums makes in any
type, far below what other random data makes."""


class UsedInGraphs:
    """Finds out about one loaded graph. Two sets of buffers: the plan's own, and others with other data."""

    def __init__(self, device: Device, spec: GraphSpec, graph: Any, seed: int) -> None:
        self._device, self._spec, self._graph = device, spec, graph
        self._own, self._others = (Buffers(spec, seed + add, device.torch_device) for add in (0, 1))
        self._workspace = self._own.resize_workspace(int(graph.get_workspace_size()))
        self._call = as_called(graph, self._own.pack, self._workspace, device.handle)
        self._samples: dict[int, int] = {}

    def find_out(self) -> dict[str, Any]:
        """Fields of a GraphUse."""
        self._call()
        torch.cuda.synchronize()
        self._samples = samples_by_executions(span_us(self._call, 1))
        executions = max(self._samples)
        calls = [span_us(self._call, executions) for _ in range(self._samples[executions])]
        found: dict[str, Any] = {"call_us": Samples.of(calls, executions=executions)}
        found |= self._captured()
        return found | self._native()

    def _captured(self) -> dict[str, Any]:
        try:
            graphs = {count: capture(self._call, count) for count in self._samples}
        except CannotCapture as error:
            torch.cuda.synchronize()
            return {"captured": False, "capture_message": str(error)[:500]}
        replays = {str(count): self._sampled(graph, count) for count, graph in graphs.items()}
        found: dict[str, Any] = {"captured": True, "replays": replays, "bound": self._stays(graphs[1].replay)}
        return {**found, "new_data": self._follows(graphs[1].replay)}

    def _sampled(self, graph: Any, executions: int) -> Samples:
        source, values = Replays({"": Replay(graph, executions, 1.0)}), []
        for _ in range(self._samples[executions]):
            ticket = source.enqueue("")
            torch.cuda.synchronize()
            values.append(source.microseconds(ticket))
        return Samples.of(values, executions=executions)

    def _stays(self, replay: Any) -> bool:
        """Whether a replay leaves buffers alone that it was not captured with."""
        self._others.poison()
        replay()
        torch.cuda.synchronize()
        outputs = self._spec.outputs
        return all(bool((bits(t.dtype, self._others.outputs[t.uid]) == POISON[t.dtype]).all()) for t in outputs)

    def _follows(self, replay: Any) -> bool:
        """Whether a replay gives the new answer once new data has come into the same buffers."""
        before = self._after(self._call)
        kept = {uid: tensor.clone() for uid, tensor in self._own.inputs.items()}
        for uid, tensor in self._own.inputs.items():
            tensor.copy_(self._others.inputs[uid])
        wanted, got = self._after(self._call), self._after(replay)
        for uid, tensor in self._own.inputs.items():
            tensor.copy_(kept[uid])
        return _same(got, wanted) and not _same(wanted, before)

    def _after(self, act: Any) -> dict[int, Any]:
        self._own.poison()
        act()
        torch.cuda.synchronize()
        return {uid: tensor.clone() for uid, tensor in self._own.outputs.items()}

    def _native(self) -> dict[str, Any]:
        handle, wanted = self._device.handle, self._after(self._call)
        with _empty_graph() as raw:
            try:
                self._graph.populate_cuda_graph(handle, _addresses(self._own), self._workspace.data_ptr(), raw.value)
                if not _same(self._after(lambda: _launch(raw, self._device.stream)), wanted):
                    return {"populated": False, "populate_message": "launched, it gives another result."}
            except FAILURES as error:
                return {"populated": False, "populate_message": describe(error)[:500]}
            found: dict[str, Any] = {"populated": True}
            other_call = as_called(self._graph, self._others.pack, self._workspace, handle)
            self._others.poison()
            other_call()
            torch.cuda.synchronize()
            wanted = {uid: tensor.clone() for uid, tensor in self._others.outputs.items()}
            try:
                self._graph.update_cuda_graph(handle, _addresses(self._others), self._workspace.data_ptr(), raw.value)
                self._others.poison()
                _launch(raw, self._device.stream)
                torch.cuda.synchronize()
            except FAILURES as error:
                return {**found, "updated": False, "update_message": describe(error)[:500]}
            return {**found, "updated": True, "update_right": _same(self._others.outputs, wanted)}


def samples_by_executions(execution_us: float) -> dict[int, int]:
    """How many executions a sample is of, and how many such samples are worth their time."""
    counts = [count for count in EXECUTIONS if count == 1 or count * execution_us <= SAMPLE_S * 1e6]
    return {n: max(LEAST, min(SAMPLES, int(SERIES_S * 1e6 / (n * execution_us)))) for n in counts}


def _addresses(buffers: Buffers) -> dict[int, int]:
    return {uid: int(tensor.data_ptr()) for uid, tensor in buffers.pack.items()}


def _same(got: dict[int, Any], wanted: dict[int, Any]) -> bool:
    for uid, want in wanted.items():
        difference = (got[uid].double() - want.double()).norm()
        if not bool(difference <= SAME * want.double().norm()):  # NaN is not
            return False
    return True


@contextmanager
def _empty_graph() -> Iterator[ctypes.c_void_p]:
    """A CUDA graph of the driver, for cuDNN to fill (CUDA driver API, cuGraphCreate)."""
    driver, graph = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    _check(driver.cuGraphCreate(ctypes.byref(graph), 0), "cuGraphCreate")
    try:
        yield graph
    finally:
        driver.cuGraphDestroy(graph)


def _launch(graph: ctypes.c_void_p, stream: Any) -> None:
    """Instantiate, launch and wait."""
    driver, executable = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    made = driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    _check(made, "cuGraphInstantiateWithFlags")
    try:
        _check(driver.cuGraphLaunch(executable, ctypes.c_void_p(stream.cuda_stream)), "cuGraphLaunch")
        stream.synchronize()
    finally:
        driver.cuGraphExecDestroy(executable)


def _check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"{what} failed with CUDA error {status}.")
