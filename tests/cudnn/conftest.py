"""Real cuDNN without a GPU: a pool of two builders for the whole session, and what it planned, kept for every test that
asks."""

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.planning import PlanOutcome, builder_environment, plan_graph
from engine.jobs.pool import BuilderPool
from engine.plans.targets import resolve_target, target_from_properties
from engine.plans.variants import nearby

H200 = resolve_target("h200")


class Bench:
    """Plans graphs with the session's pool; the same question is answered once."""

    def __init__(self, pool, folder):
        self.pool, self.folder = pool, folder
        self.environment = builder_environment(pool, H200)
        self.version = tuple(int(part) for part in self.environment.cudnn_backend.split("."))
        self._known = {}

    def plan(self, name, target="h200", *, build=True, **parameters) -> PlanOutcome:
        """Plans of a pipeline; ``target`` by name, or a Target."""
        question = (name, str(target), build, tuple(sorted(parameters.items())))
        if question not in self._known:
            found = resolve_target(target) if isinstance(target, str) else target
            self._known[question] = plan_graph(
                pipeline(name).graph(parameters),
                found,
                pool=self.pool,
                blob_dir=self.folder,
                build=build,
                variants=nearby(pipeline(name), parameters),
            )
        return self._known[question]


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    with BuilderPool(2) as pool:
        yield Bench(pool, tmp_path_factory.mktemp("blobs"))


@pytest.fixture
def turing():
    """A GPU below every floor that matters here: compute capability 7.5."""
    return target_from_properties({**H200.properties, "deviceVer": 750, "deviceName": "A Turing GPU"}, "turing")
