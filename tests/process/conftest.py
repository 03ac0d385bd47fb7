"""A machine with one GPU, as far as processes and records go: scripted builders and a scripted measuring process."""

import json
import os
import time
from pathlib import Path

import pytest

from engine.graph.pipelines import CATALOGUE
from engine.jobs.measuring import Deadlines
from engine.jobs.pool import BuilderPool
from engine.jobs.request import sweep_request
from engine.jobs.sweep import run_sweep
from engine.jobs.workshop import WorkshopSettings
from engine.plans.targets import local_target
from engine.records.environment import GpuInfo
from engine.records.run import SweepOptions
from engine.runs.store import Store
from tests.process.scripted import VARIABLE, diary

GPU = GpuInfo(name="Test GPU", uuid="GPU-test", compute_capability="9.0", sm_count=132, memory_bytes=1 << 37)
BUILDER, WORKER = "tests.process.scripted_builder", "tests.process.scripted_worker"
# Short where a script hangs; long where a loaded machine may be slow to import.
DEADLINES = Deadlines(start_s=30, prepare_s=30, load_s=30, execute_s=1.5, check_s=30, time_s=1.5)


def is_gone(pid, within_s=3.0):
    """Whether the process ends in time; a zombie nobody has waited for yet counts as ended."""
    end = time.monotonic() + within_s
    while True:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)


def wait_until(condition, within_s=10.0):
    """Wait for something another process or thread does."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it has not come to pass in time"
        time.sleep(0.01)


class Machine:
    """``script`` is what the scripted processes follow; see them for the acts they know."""

    def __init__(self, folder):
        self.folder = folder
        self.store = Store(folder / "home", busy_timeout_s=0.5)
        self.request = self.ask()
        self.script()

    def script(self, plans=3, **roles):
        (self.folder / "script.json").write_text(json.dumps({"plans": plans, **roles}))

    def ask(self, name="matmul", **parameters):
        pipeline, texts = CATALOGUE[name], {k: str(v) for k, v in parameters.items()}
        return sweep_request(name, texts, pipeline.graph(texts), local_target(GPU), SweepOptions(), (GPU,))

    def settings(self, **changed):
        ready = {"builders": 2, "builder_module": BUILDER, "worker_module": WORKER, "lock_folder": self.folder}
        return WorkshopSettings(**{**ready, "deadlines": DEADLINES, **changed})

    def sweep(self, cancel=None, report=None, store=None, request=None, **pool):
        chosen = {"size": 2, "gpu_uuid": GPU.uuid, "module": BUILDER, "deadline_s": 30.0, **pool}
        with BuilderPool(**chosen) as builders:
            return run_sweep(
                request or self.request,
                store=store or self.store,
                pool=builders,
                cancel=cancel,
                report=report,
                worker_module=WORKER,
                deadlines=DEADLINES,
                lock_folder=self.folder,
            )

    def pids(self, role):
        return list(dict.fromkeys(pid for pid, _, _ in diary(self.folder, role)))

    def noted(self, role, what):
        return [pid for pid, _, noted in diary(self.folder, role) if noted == what]

    def everybody_is_gone(self, within_s=3.0):
        return all(is_gone(pid, within_s) for role in ("worker", "builder") for pid in self.pids(role))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    machine = Machine(tmp_path)
    yield machine
    machine.store.close()
    assert machine.everybody_is_gone()
