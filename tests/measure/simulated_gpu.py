"""A GPU as far as control flow goes: torch's CUDA calls on the host, cuDNN plans that copy the reference.

It shows that code runs and what it asks for, never how long anything takes on a GPU. Time is a clock of its own that
every execution puts forward.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch

from engine.measure import session as session_module
from engine.measure.reference import reference
from engine.plans.building import PlanFailure
from engine.records.environment import GpuInfo
from engine.records.gpu_state import GpuState
from engine.records.options import SweepOptions
from engine.records.plan import Stage, Status

GPU = GpuInfo(
    name="Test GPU",
    uuid="GPU-test",
    compute_capability="9.0",
    sm_count=1,
    memory_bytes=1 << 30,
    l2_bytes=1 << 20,
    rated_sm_clock_mhz=1980,
)


class Simulation:
    """``now_us``: the GPU's clock. ``plans``: by blob, what executing it does (a number: microseconds it takes)."""

    def __init__(self):
        self.now_us, self.capturing, self.plans, self.executed = 0.0, None, {}, []
        self.sm_clock_mhz, self.stuck, self.stuck_at = 1980, False, None

    def run(self, work):
        """A kernel: now, or when the graph being captured is replayed."""
        if self.capturing is None:
            work()
        else:
            self.capturing.append(work)

    def execute(self, name, us):
        def work():
            self.now_us += us
            self.executed.append(name)
            self.stuck = self.stuck or name == self.stuck_at

        self.run(work)


class Event:
    def __init__(self, simulation):
        self._simulation, self._at, self._done = simulation, None, False

    def record(self):
        self._at, self._done = self._simulation.now_us, not self._simulation.stuck

    def synchronize(self):
        assert self._done

    def query(self):
        return self._done

    def elapsed_time(self, other):
        return (other._at - self._at) / 1e3


class Graph:
    def __init__(self, simulation):
        self._simulation, self._work = simulation, []

    def capture_begin(self):
        self._simulation.capturing = self._work

    def capture_end(self):
        self._simulation.capturing = None

    def replay(self):
        for work in self._work:
            work()


class Plan:
    """What a loaded plan is to a session."""

    def __init__(self, simulation, blob, spec):
        self._simulation, self._name = simulation, blob.decode()
        self._act, self._spec = simulation.plans[self._name], spec

    def get_workspace_size(self):
        return self._act.get("workspace", 0) if isinstance(self._act, dict) else 0

    def execute(self, pack, workspace, handle=None, tensor_uids=None):
        if tensor_uids is not None:
            pack = dict(zip(tensor_uids, pack, strict=True))
        act = self._act if isinstance(self._act, dict) else {"us": self._act}
        if act.get("fails"):
            raise RuntimeError(act["fails"])
        if act.get("uncapturable") and self._simulation.capturing is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        tensors = {uid: t for uid, t in pack.items() if torch.is_tensor(t)}
        if len(tensors) == len(pack):  # addresses are for nobody to follow here
            values = {t.uid: pack[t.uid] for t in self._spec.real if t not in self._spec.outputs}
            scalars = {
                uid: float(t.flatten()[0]) for uid, t in pack.items() if uid not in {t.uid for t in self._spec.real}
            }
            for uid, value in reference(self._spec, {**values, **scalars}, torch.float64).items():
                pack[uid].copy_(value + act.get("off", 0.0))
        self._simulation.execute(self._name, act.get("us", 100.0))


def simulate(monkeypatch):
    """The GPU; its ``make(spec, **options)`` gives a session on it."""
    simulated = Simulation()
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "Event", lambda enable_timing=False: Event(simulated))
    monkeypatch.setattr(cuda, "CUDAGraph", lambda: Graph(simulated))
    monkeypatch.setattr(cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(cuda, "_sleep", lambda cycles: None)
    monkeypatch.setattr(cuda, "current_stream", lambda *_: SimpleNamespace(synchronize=lambda: None))

    class Reader:
        def __init__(self, uuid):
            pass

        def read(self):
            return GpuState(sm_clock_mhz=simulated.sm_clock_mhz)

    def load(cudnn, context, blob):
        if blob.decode() not in simulated.plans:
            raise PlanFailure(Status.BUILD_FAILED, Stage.LOAD, "not a plan")
        return Plan(simulated, blob, simulated.spec), 1.0

    class Flush:
        def __init__(self, l2_bytes, device):
            pass

        required_bytes = staticmethod(lambda l2_bytes: 0)

        def enqueue(self, at_least_us):
            simulated.now_us += at_least_us

    monkeypatch.setattr(session_module, "Flush", Flush)
    monkeypatch.setattr(session_module, "StateReader", Reader)
    monkeypatch.setattr(session_module, "load", load)
    monkeypatch.setattr(session_module, "check_loaded", lambda *_: None)

    simulated.device = SimpleNamespace(
        torch_device=torch.device("cpu"), info=GPU, l2_bytes=1 << 20, handle=None, free_bytes=lambda: 1 << 40
    )

    def make(spec, **options):
        simulated.spec = spec
        return session_module.Session(simulated.device, spec, SweepOptions(**options))

    simulated.make = make
    return simulated
