"""What a job says of itself while it goes on."""

from __future__ import annotations

import time

from engine.graph.pipelines import pipeline
from engine.jobs.job import Job
from engine.jobs.request import Progress, plan_request
from engine.plans.targets import resolve_target
from engine.records.run import SweepOptions


def test_an_estimate_that_has_run_out_is_none():
    request = plan_request(
        "matmul", {}, pipeline("matmul").graph({}), resolve_target("h200"), SweepOptions(), (), build=True
    )
    job = Job(request, "a")
    job.start()
    job.report(Progress(done=0, total=10, eta_s=0.2, message="10 plans to build"))
    assert job.snapshot(0).eta_s == 1.0
    time.sleep(0.3)
    assert job.snapshot(0).eta_s is None, "not one second left for as long as it takes"
    job.report(Progress(done=1, total=10, eta_s=60.0, message="built 1 of 10 plans"))
    assert 59.0 < job.snapshot(0).eta_s <= 60.0
