"""The GPU of this machine, plans built for it by real builders, and a real worker on it."""

from __future__ import annotations

import json

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import Child
from engine.plans.targets import local_targets


@pytest.fixture(scope="session")
def target():
    """The first GPU."""
    targets = local_targets()
    if not targets:
        pytest.fail("these tests need an NVIDIA GPU, and NVML shows none")
    return targets[0]


@pytest.fixture(scope="session")
def plans(target, tmp_path_factory):
    """Plans a graph on the GPU: (spec, records, folder of blobs), each graph once per session."""
    folder, known = tmp_path_factory.mktemp("blobs"), {}
    with BuilderPool.for_target(target, compute_cache=True) as pool:

        def make(name, **parameters):
            key = json.dumps([name, parameters], sort_keys=True)
            if key not in known:
                spec = pipeline(name).graph(parameters)
                outcome = plan_graph(spec, target, pool=pool, blob_dir=folder, reload=False)
                known[key] = (spec, outcome.plans, folder)
            return known[key]

        yield make


class Asker:
    """A worker one request at a time: the last event and those before it."""

    def __init__(self, uuid):
        self.child = Child("engine.jobs.worker", environment={"CUDA_VISIBLE_DEVICES": uuid})
        self.stages = []

    def __call__(self, op, timeout_s=120, **content):
        number = self.child.send(op, **content)
        self.stages = []
        while True:
            event = self.child.receive(timeout_s)
            assert event is not None, self.child.describe_end()
            assert event["id"] == number
            if event["event"] != "stage":
                return event
            self.stages.append(event["stage"])

    def prepare(self, spec, seed=0):
        event = self("prepare", graph=spec.model_dump(mode="json"), seed=seed)
        assert event["event"] == "done", event
        return event

    def measure(self, plan, folder):
        event = self("measure", plan=plan.model_dump(mode="json"), blob=str(folder / plan.blob_sha256))
        assert event["event"] == "done", event
        return type(plan).model_validate(event["plan"], strict=False)


@pytest.fixture
def new_worker(target):
    """Starts workers of one's own."""
    started = []

    def start():
        started.append(Asker(target.gpu_uuid))
        return started[-1]

    yield start
    for asker in started:
        asker.child.close()


@pytest.fixture(scope="module")
def worker(target):
    """A worker that several tests use one after the other."""
    asker = Asker(target.gpu_uuid)
    yield asker
    asker.child.close()
