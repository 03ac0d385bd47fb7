"""The GPU of this machine, plans built for it by real builders, and a real worker on it."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import Child
from engine.measure.findings import Finding
from engine.measure.screening import Rule
from engine.plans.targets import local_targets
from engine.records.samples import Samples
from engine.records.timings import Regime


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
    """A worker one request at a time: the last event, and the stages and parts before it."""

    def __init__(self, uuid):
        self.child = Child("engine.jobs.worker", environment={"CUDA_VISIBLE_DEVICES": uuid})
        self.stages, self.parts = [], []

    def __call__(self, op, timeout_s=120, **content):
        number = self.child.send(op, **content)
        self.stages, self.parts = [], []
        while True:
            event = self.child.receive(timeout_s)
            assert event is not None, self.child.describe_end()
            assert event["id"] == number
            if event["event"] == "stage":
                self.stages.append(event["stage"])
            elif event["event"] == "part":
                self.parts.append(event)
            else:
                return event

    def done(self, op, **content):
        event = self(op, **content)
        assert event["event"] == "done", event
        return event

    def prepare(self, spec, **options):
        return self.done("prepare", graph=spec.model_dump(mode="json"), options=options)

    def admit(self, plan, folder, best_us=None, **content):
        event = self.done("admit", **{**known(plan, folder), "best_us": best_us, **content})
        return Finding.model_validate_json(json.dumps(event["finding"]))

    def sample(self, plans, least=100, careful=False, **rule):
        """Hot samples by plan, and why sampling ended."""
        chosen = asdict(Rule(least=least, **rule))
        content = {"executions": {plan.key: None for plan in plans}, "rule": chosen, "seed": 0, "keep": []}
        event = self.done("rounds", **content, before={}, spent_s=0.0, careful=careful)
        values = {plan.key: [] for plan in plans}
        for part in self.parts:
            for key, kept in part["kept"].items():
                values[key] += Samples(data=kept["data"], executions=kept["executions"]).values.tolist()
        return values, event["stopped"]

    def regimes(self, plans, *regimes):
        keys = [plan.key for plan in plans]
        self.done("regimes", keys=keys, regimes=[regime.value for regime in regimes], seed=0)
        found = {part["key"]: part["samples"] for part in self.parts}
        return {
            key: {Regime(name): Samples.model_validate(samples) for name, samples in of_plan.items()}
            for key, of_plan in found.items()
        }


def known(plan, folder):
    """What a worker needs to load a plan."""
    blob = {"blob": str(folder / plan.blob_sha256), "sha256": plan.blob_sha256}
    return {"key": plan.key, **blob, "workspace_bytes": plan.workspace_bytes or 0}


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
