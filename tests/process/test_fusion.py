"""A comparison whose processes crash, hang and lie: every version has an end, and the others are measured."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.jobs.fusion import FusionRequest, plan_fusion, run_fusion
from engine.jobs.gpulock import GpuLock
from engine.jobs.manager import JobManager
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.jobs.request import fusion_request
from engine.jobs.snapshots import JobState
from engine.plans.targets import local_target
from engine.records.fusion import FusionRecord, VersionKind
from engine.records.fusion_sentences import sentences
from engine.records.options import Preset, SweepOptions
from engine.records.run import RunStatus
from engine.runs.comparisons import Comparisons
from tests.process.conftest import BUILDER, DEADLINES, GPU, wait_until
from tests.process.scripted import diary

pytestmark = pytest.mark.process
WORKER = "tests.process.scripted_fusion_worker"
K = VersionKind
SHORT = replace(DEADLINES, rounds_s=4.0)


@pytest.fixture
def compare(machine):
    """``compare("matmul_epilogue")``: the whole comparison by scripted processes."""

    def run(name="matmul_epilogue", cancel=None, report=None, planned=False, **parameters):
        texts = {k: str(v) for k, v in parameters.items()}
        graph = CATALOGUE[name].graph(texts)
        request = FusionRequest(name, texts, graph, local_target(GPU), preset=Preset.QUICK)
        with BuilderPool(2, gpu_uuid=GPU.uuid, module=BUILDER, deadline_s=30.0) as pool:
            common = {"pool": pool, "blob_dir": machine.folder, "cancel": cancel, "report": report}
            if planned:
                return plan_fusion(request, **common)
            return run_fusion(request, **common, worker_module=WORKER, deadlines=SHORT, lock_folder=machine.folder)

    return run


def test_everything_is_measured_and_adds_up(machine, compare):
    machine.script(slower={"eng0": 0.5, "eng1": 0.2})
    told = []
    record = compare(report=told.append)
    assert FusionRecord.model_validate_json(record.model_dump_json()) == record
    assert [v.kind for v in record.versions] == [
        K.EAGER, K.IDIOMATIC, K.COMPILED, K.AUTOTUNED, K.UNFUSED, K.FIRST_PICK, K.TUNED,
    ]  # fmt: skip
    assert all(version.timings for version in record.versions)
    assert record.version(K.FIRST_PICK).plan == ("0;KERNEL_CFG=0", "eng0")
    assert record.version(K.TUNED).plan == ("2;KERNEL_CFG=2", "eng2"), "the one that the contest found fastest"
    assert [piece.label for piece in record.pieces] == ["matmul", "scale", "bias", "gelu", "amax"]
    assert record.pieces[0].hot.median_us == 25.0 and record.pieces[1].hot is None
    assert record.ceilings.launch_us.median_us == 1.5
    assert record.environment.gpu.uuid == GPU.uuid and record.environment.torch == "2.13.0"
    assert [stage.added for stage in record.growth] == ["matmul", "scale", "bias", "gelu", "amax"]
    for stage in record.growth:
        assert [version.kind for version in stage.versions] == [K.UNFUSED, K.FIRST_PICK, K.TUNED]
    assert [len(stage.pieces) for stage in record.growth] == [1, 2, 3, 4, 5]
    assert sentences(record)[0].startswith("cuDNN fused, tuned is 3.33x faster than torch eager")
    assert told[0] == "planning the graph and its pieces" and "measuring the graph in all versions" in told
    assert len(machine.pids("worker")) == 1


def test_equal_pieces_are_planned_once(machine, compare):
    compare(planned=True)
    lists = [what for _, _, what in diary(machine.folder, "builder") if what == "list"]
    # Five pieces of the whole, the whole, the stages of two to four operations, and for the first three stages their
    # last piece, whose result is an output there; in three modes each.
    assert len(lists) <= 3 * (5 + 1 + 3 + 3)
    assert machine.pids("worker") == []


def test_attention_has_no_growth_and_brings_torch_s_backends(compare):
    record = compare("sdpa")
    assert record.growth == () and record.versions[-1].kind is K.MATH and len(record.versions) == 11


@pytest.mark.parametrize("act", ["crash", "exit", "hang", "hung", "garbage"])
def test_a_version_that_takes_the_process_with_it_costs_itself(machine, compare, act):
    machine.script(worker={"version autotuned": [act]})
    record = compare("matmul")
    (failed,) = [version for version in record.versions if version.timings is None]
    assert failed.kind is K.AUTOTUNED and failed.message
    assert len(machine.pids("worker")) == 2


def test_a_wrong_version_says_so_and_the_rest_goes_on(machine, compare):
    machine.script(worker={"version compiled": "wrong"})
    record = compare("matmul")
    assert record.version(K.COMPILED).message == "wrong result: C is off."
    assert sum(version.timings is None for version in record.versions) == 1
    assert "torch.compile: wrong result: C is off." in sentences(record)


def test_a_piece_that_does_not_load_runs_in_torch_with_its_reason(machine, compare):
    machine.script(worker={"piece 1": "refuse"})
    record = compare("matmul_epilogue", amax="off")
    piece = record.pieces[1]
    assert (piece.runs_on, piece.refusal.message, piece.plan) == ("torch", "it does not load here.", None)


def test_a_piece_that_takes_the_process_with_it_runs_in_torch(machine, compare):
    machine.script(worker={"piece 1": ["crash"]})
    record = compare("matmul_epilogue", amax="off")
    assert record.pieces[1].runs_on == "torch" and "the measuring process" in record.pieces[1].refusal.message
    assert all(version.timings for version in record.versions)


def test_plans_that_are_wrong_are_never_tuned(machine, compare):
    machine.script(slower={"eng0": 0.5, "eng1": 0.2}, worker={"admit eng2": "wrong", "admit eng0": "wrong"})
    record = compare("matmul")
    assert record.version(K.TUNED).plan[1] == "eng1"
    assert record.version(K.FIRST_PICK).message == "C is wrong"


def test_a_refused_graph_is_compared_in_what_is_left(machine, compare):
    machine.script(builder={"list": "refuse"})
    record = compare("matmul")
    assert record.pieces[0].runs_on == "torch" and record.fused_refusal.message == "no engine for this head dim"
    assert record.version(K.TUNED).message == record.version(K.FIRST_PICK).message == "no engine for this head dim"
    assert record.version(K.EAGER).timings


def test_a_machine_that_loses_every_process_is_to_blame(machine, compare):
    machine.script(worker={"start": "crash"})
    with pytest.raises(JobError, match="lost twice"):
        compare("matmul")


def test_another_cudnn_in_the_measuring_process_is_an_error(machine, compare):
    machine.script(worker={"environment": "other cudnn"})
    with pytest.raises(JobError, match=r"built with cuDNN 9\.28\.1.*has loaded 9\.20\.0"):
        compare("matmul")


def test_cancelling_ends_it(machine, compare):
    cancel = threading.Event()
    machine.script(worker={"version eager": 30.0})

    def report(message):
        if message == "measuring the graph in all versions":
            threading.Timer(1.5, cancel.set).start()

    with pytest.raises(JobCancelled):
        compare("matmul", cancel=cancel, report=report)


def test_cancelling_later_keeps_what_was_measured(machine, compare):
    cancel = threading.Event()

    def report(message):
        if message == "measuring up to matmul":
            cancel.set()

    record = compare("matmul_epilogue", cancel=cancel, report=report)
    assert record.status is RunStatus.CANCELLED and record.message == "cancelled"
    assert all(version.timings for version in record.versions) and record.ceilings
    assert not any(stage.versions for stage in record.growth)


@pytest.mark.parametrize("act", ["crash", "hang"])
def test_ceilings_that_fail_are_a_remark(machine, compare, act):
    machine.script(worker={"ceilings": [act]})
    record = compare("matmul_epilogue")
    assert record.ceilings is None and "at most was not measured" in record.remarks[0]
    assert all(version.timings for version in record.versions)
    assert all(stage.versions for stage in record.growth)


def test_a_stage_that_fails_is_a_remark(machine, compare):
    machine.script(worker={"prepare": [None, "decline"]})
    record = compare("matmul_epilogue")
    assert record.remarks == (
        "The graph up to matmul was not measured: the measuring process cannot prepare this graph: only 3 GiB are free",
    )
    assert [bool(stage.versions) for stage in record.growth] == [False, True, True, True, True]


def test_it_waits_for_the_gpu(machine, compare):
    cancel, told = threading.Event(), []

    def report(message):
        told.append(message)
        if message.startswith("waiting"):
            cancel.set()

    held = GpuLock(GPU.uuid, "somebody else's work", machine.folder).acquired(threading.Event())
    with held, pytest.raises(JobCancelled):
        compare("matmul", cancel=cancel, report=report)
    assert told[-1].startswith("waiting for the GPU, which is held by a somebody else's work")


# -- As a job


@pytest.fixture
def manager(machine):
    settings = machine.settings(fusion_module=WORKER, deadlines=SHORT)
    made = JobManager(machine.store, settings, lambda: (GPU,))
    yield made
    made.shutdown()


def submitted(manager, machine, name="matmul_epilogue", **parameters):
    asked = machine.ask(name, **parameters)
    return manager.submit(
        fusion_request(name, asked.parameters, asked.graph, local_target(GPU), SweepOptions(), manager.gpus()), "a"
    )


def test_a_job_keeps_the_comparison_and_names_it(machine, manager):
    job = submitted(manager, machine)
    assert manager.wait(job, 60)
    end = manager.snapshot(job)
    assert (end.kind, end.state, end.message, end.fraction) == ("fusion", JobState.DONE, "compared", 1)
    (kept,) = Comparisons(machine.store.home, machine.folder / "none").listed()
    assert kept.record.id == end.run_id and len(kept.record.growth) == 5 and not kept.recorded


def test_a_job_waits_its_turn_and_says_how_far_it_is(machine, manager):
    machine.script(worker={"version eager": "hang"})
    first, second = submitted(manager, machine), submitted(manager, machine, m=64)
    wait_until(lambda: manager.snapshot(first).message == "measuring the graph in all versions", within_s=60)
    seen = manager.snapshot(first)
    assert seen.total == 1 + 5 + 2 + 4 and seen.done == 6 and seen.eta_s > 1
    assert manager.snapshot(second).position == 1
    manager.cancel(second)
    assert manager.snapshot(second).state is JobState.CANCELLED


def test_a_cancelled_job_ends_within_two_seconds(machine, manager):
    machine.script(worker={"version eager": "hang"})
    job = submitted(manager, machine)
    wait_until(lambda: machine.noted("worker", "version eager"), within_s=60)
    manager.cancel(job)
    assert manager.wait(job, 2.0)
    assert manager.snapshot(job).state is JobState.CANCELLED and manager.snapshot(job).run_id is None
    assert Comparisons(machine.store.home, machine.folder / "none").listed() == ()


def test_a_job_that_measures_nothing_has_failed_and_says_why(machine, manager):
    machine.script(worker={"start": "crash"})
    job = submitted(manager, machine, "matmul")
    assert manager.wait(job, 60)
    assert manager.snapshot(job).state is JobState.FAILED and "lost twice" in manager.snapshot(job).message


def test_without_a_gpu_nothing_is_queued(machine):
    manager = JobManager(machine.store, machine.settings(), lambda: ())
    with pytest.raises(InvalidInput, match="no NVIDIA GPU"):
        submitted(manager, machine)
    manager.shutdown()
