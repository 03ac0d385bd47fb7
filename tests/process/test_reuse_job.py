"""A study of reuse as a job of the server: it waits its turn, says how far it is, is cancelled, and what it found is in
the store; and what is no study is refused before it is queued."""

import pytest

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.jobs.manager import JobManager
from engine.jobs.request import Study, graphs_of_sizes, study_request, sweep_request
from engine.jobs.snapshots import JobState
from engine.plans.targets import local_target, resolve_target
from engine.records.options import SweepOptions
from tests.process.conftest import GPU, is_gone, wait_until

pytestmark = pytest.mark.process
REUSER = "tests.process.scripted_reuser"


@pytest.fixture
def manager(machine):
    made = JobManager(machine.store, machine.settings(reuser_module=REUSER), lambda: (GPU,))
    yield made
    made.shutdown()
    assert all(is_gone(pid, 1) for pid in machine.pids("reuser"))


def asked(machine, gpus=(GPU,), target=None, **more):
    request = machine.ask()
    known = {"repeats": 1, **more}
    study = Study("matmul", request.parameters, request.graph, target or request.target, request.options, **known)
    return study_request(study, gpus)


def test_a_study_goes_from_the_queue_to_the_store(manager, machine):
    shapes = graphs_of_sizes(CATALOGUE["matmul"], {}, "m", "8, 16")
    job_id = manager.submit(asked(machine, letter="m", shapes=shapes), "a")
    assert manager.wait(job_id, 60)
    job = manager.snapshot(job_id)
    assert (job.kind, job.state, job.message) == ("reuse", JobState.DONE, "studied")
    run = machine.store.get(job.run_id)
    assert len(run.reuse.costs) == 3 and [size.size for size in run.reuse.shapes.series[0].sizes] == [8, 16]
    digests = {plan.blob_sha256 for plan in run.plans if plan.blob_sha256}
    assert digests and all((machine.store.blob_dir / digest).is_file() for digest in digests)


def test_it_says_how_far_it_is_and_a_sweep_waits_for_it(manager, machine):
    machine.script(reuser={"load": ["hang"] * 9})
    first = manager.submit(asked(machine), "a")
    request = machine.ask()
    sweep = sweep_request("matmul", {}, request.graph, local_target(GPU), SweepOptions(), (GPU,))
    second = manager.submit(sweep, "b")
    wait_until(lambda: machine.noted("reuser", "load"), 30)
    job = manager.snapshot(first)
    assert job.state is JobState.RUNNING and 0 < job.done < job.total and job.eta_s is not None
    assert manager.snapshot(second).position == 1
    manager.cancel(first)
    assert manager.wait(first, 2)
    assert manager.snapshot(first).state is JobState.CANCELLED
    assert not any(run.reuse for run in machine.store.summaries())
    assert manager.wait(second, 60) and manager.snapshot(second).state is JobState.DONE


def test_a_refused_graph_is_no_study_and_says_cudnns_reason(manager, machine):
    machine.script(builder={"list": "refuse"})
    job_id = manager.submit(asked(machine), "a")
    assert manager.wait(job_id, 30)
    job = manager.snapshot(job_id)
    assert job.state is JobState.FAILED and job.run_id is None and job.message


def test_for_a_gpu_elsewhere_it_needs_none_here(machine):
    request = asked(machine, gpus=(), target=resolve_target("h200"))
    assert request.gpu is None and str(request) == "study of reuse of matmul"


@pytest.mark.parametrize(
    ("more", "gpus", "says"),
    [
        ({"repeats": 0}, (GPU,), "from 1 to 50"),
        ({"repeats": 51}, (GPU,), "from 1 to 50"),
        ({"plans": 0}, (GPU,), "from 1"),
        ({}, (), "no NVIDIA GPU in this machine"),
    ],
)
def test_what_cannot_be_studied_is_refused_at_once(machine, more, gpus, says):
    with pytest.raises(InvalidInput, match=says):
        asked(machine, gpus, **more)


def test_a_size_that_the_gpu_cannot_hold_is_refused_at_once(machine):
    shapes = graphs_of_sizes(CATALOGUE["matmul"], {}, "b", "1, 1000000")
    with pytest.raises(InvalidInput, match=r"b = 1,000,000: the tensors of this graph take .* GiB, but Test GPU has"):
        asked(machine, letter="b", shapes=shapes)


@pytest.mark.parametrize(
    ("letter", "sizes", "field", "says"),
    [
        ("m", "", "sizes", "1 to 64 sizes"),
        ("m", ",".join(map(str, range(1, 66))), "sizes", "1 to 64 sizes"),
        ("m", "8, x", "sizes", "whole numbers"),
        ("m", "8, -1", "sizes", "whole numbers"),
        ("m", "²", "sizes", "whole numbers"),
        ("m", "8, 16, 08", "sizes", "given twice"),
        ("m", "0", "m", "from 1 to"),
        ("m", "8, 99999999999999999999", "m", "from 1 to"),
        ("zz", "8", "letter", "no size of this letter"),
        ("dtype", "8", "letter", "no size of this letter"),
    ],
)
def test_sizes_that_are_none_name_their_field(letter, sizes, field, says):
    with pytest.raises(InvalidInput) as refused:
        graphs_of_sizes(CATALOGUE["matmul"], {}, letter, sizes)
    (error,) = refused.value.errors
    assert error.field == field and says in str(error)
