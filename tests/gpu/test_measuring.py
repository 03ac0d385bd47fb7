"""On a real GPU: every plan of every pipeline executed, held against the reference and timed by the real worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest

from engine.graph.operations.pointwise import Activation
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.graph.roofline import roofline
from engine.graph.tensors import DataType
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import ROOT
from engine.measure.screening import Rule, survivors
from engine.plans.targets import target_from_properties
from engine.records.environment import Environment
from engine.records.passport import Repeatability
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status
from engine.records.run import Baseline
from engine.records.timings import Regime
from tests.gpu.conftest import known

pytestmark = [pytest.mark.gpu, pytest.mark.process]

GRAPHS = {
    **{name: (name, {}) for name in CATALOGUE},
    "conv, fp16, nchw, strided": ("conv_bias_relu", {"dtype": "fp16", "layout": "nchw", "n": 8, "stride": 2}),
    "conv, fp32": ("conv_relu", {"dtype": "fp32"}),
    "matmul, fp32": ("matmul", {"dtype": "fp32"}),
    "matmul, fp16, long sum": ("matmul", {"dtype": "fp16", "b": 1, "k": 65536}),
    "epilogue, fp16, swish, no amax": ("matmul_epilogue", {"dtype": "fp16", "activation": "swish", "amax": "off"}),
    "attention, long": ("sdpa", {"b": 1, "sq": 8192, "skv": 8192, "d": 128}),
    "attention, fp16, grouped, full": ("sdpa", {"dtype": "fp16", "causal": "off", "hkv": 4, "d": 128, "skv": 512}),
}


def built(records):
    return [plan for plan in records if plan.blob_sha256]


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_plan_is_right_and_timed(graph, plans, worker, target):
    name, parameters = GRAPHS[graph]
    spec, records, folder = plans(name, **parameters)
    assert built(records), [plan.message for plan in records]
    assert worker.prepare(spec)["reference_dtype"] in ("float64", "float32")
    best_us, screened = None, {}
    for plan in built(records):
        finding = worker.admit(plan, folder, best_us)
        assert finding.key == plan.key and finding.status is Status.OK, (plan.plan_name, finding.message)
        assert finding.deserialize_ms < 1000 and finding.capturable is not False
        assert [o.name for o in finding.accuracy] == [t.name for t in spec.outputs]
        assert all(o.max_ulp is not None and o.rel_norm < 0.1 for o in finding.accuracy)
        assert finding.state.sm_clock_mhz > 100 and finding.state.temperature_c > 10
        screened[plan.key] = finding.screening
        best_us = min(best_us or finding.screening.median_us, finding.screening.median_us)
    chosen = survivors({key: [float(v) for v in samples.values] for key, samples in screened.items()})
    ranked = [plan for plan in built(records) if plan.key in chosen]
    hot, stopped = worker.sample(ranked, margin=1.15)
    assert set(stopped.values()) <= {"precise", "budget", "screened"} and "precise" in stopped.values()
    medians = {key: float(np.median(values)) for key, values in hot.items()}
    floor = roofline(spec, target.info.gpu_name)
    full = [plan for plan in ranked if stopped[plan.key] != "screened"]
    for plan in full:
        values = np.array(hot[plan.key])
        assert len(values) >= 100 and values.std() / values.mean() < 0.1, (plan.plan_name, values)
        assert floor is None or medians[plan.key] > 0.9 * floor.compute_us, (plan.plan_name, medians[plan.key])
        few = screened[plan.key].median_us
        assert medians[plan.key] == pytest.approx(few, rel=0.25), (plan.plan_name, few)
    others = worker.regimes(full, Regime.HOST, Regime.HOST_READY, Regime.END_TO_END, Regime.COLD)
    for plan in full:
        found = {regime: samples.median_us for regime, samples in others[plan.key].items()}
        assert set(found) == {Regime.HOST, Regime.HOST_READY, Regime.END_TO_END, Regime.COLD}, plan.plan_name
        assert medians[plan.key] < found[Regime.COLD] * 1.1 + 2, (plan.plan_name, found)
        assert 2 < found[Regime.HOST_READY] <= found[Regime.HOST] * 1.2 < 1000, (plan.plan_name, found)
        assert found[Regime.END_TO_END] > max(medians[plan.key], found[Regime.HOST] / 2), (plan.plan_name, found)
    again, _ = worker.sample(full, margin=9.0, careful=True)
    for plan in full:
        assert float(np.median(again[plan.key])) == pytest.approx(medians[plan.key], rel=0.15), plan.plan_name


@pytest.mark.parametrize("name", CATALOGUE)
def test_torch_eager_is_timed_the_same_way(name, worker):
    spec = pipeline(name).graph({})
    worker.prepare(spec)
    event = worker.done("baseline", rule=asdict(Rule()), seed=0)
    baseline = Baseline.model_validate_json(json.dumps(event["baseline"]))
    assert baseline.message is None
    assert all(output.passed for output in baseline.accuracy), baseline.accuracy
    assert baseline.timings.hot.count >= 100 and baseline.timings.end_to_end
    assert baseline.timings.hot.median_us < baseline.timings.cold.median_us * 1.1 + 2


def test_a_plan_far_from_the_best_costs_one_execution(plans, worker):
    """eng0 takes some 120 ms where the best takes 84 us."""
    spec, records, folder = plans("conv_bias_relu")
    worker.prepare(spec)
    slow = max(built(records), key=lambda plan: worker.admit(plan, folder).screening.median_us)
    finding = worker.admit(slow, folder, best_us=84.0)
    assert finding.status is Status.OK and finding.screening.count == finding.screening.executions == 1
    assert finding.screen_s < 0.01


def test_most_plans_give_the_same_bits_again(plans, worker):
    spec, records, folder = plans("matmul_epilogue")
    worker.prepare(spec)
    for plan in built(records):
        worker.admit(plan, folder)
    worker.done("repeat", keys=[plan.key for plan in built(records)])
    repeats = [Repeatability.model_validate(part["repeats"]) for part in worker.parts]
    assert len(repeats) == len(built(records)) and {one.runs for one in repeats} == {10}
    assert sum(one.bitwise for one in repeats) >= len(repeats) / 2


def test_a_plan_of_another_graph_with_the_same_tensors_is_found_wrong(plans, worker):
    """Same uids, dims and types, another activation: it loads and runs, and only its values tell."""
    _, others, folder = plans("matmul_epilogue", activation=Activation.RELU.value)
    spec, records, _ = plans("matmul_epilogue")
    worker.prepare(spec)
    finding = worker.admit(built(others)[0], folder)
    assert (finding.status, finding.stage) == (Status.WRONG_RESULT, Stage.CHECK)
    assert worker.stages == ["load", "execute", "check"]
    assert finding.screening is None
    assert not next(o for o in finding.accuracy if o.name == "C").passed
    assert "relative error" in finding.message
    assert worker.admit(built(records)[0], folder).status is Status.OK


def test_a_scalar_is_read_when_a_plan_runs(plans, worker):
    """alpha is passed by value: the plan built for one alpha computes with another."""
    _, records, folder = plans("matmul_epilogue")
    worker.prepare(pipeline("matmul_epilogue").graph({"alpha": -0.75}))
    assert worker.admit(built(records)[0], folder).status is Status.OK


def test_a_plan_of_other_shapes_is_refused_before_it_runs(plans, worker):
    _, others, folder = plans("matmul", dtype="fp32")
    spec, _, _ = plans("matmul")
    worker.prepare(spec)
    finding = worker.admit(built(others)[0], folder)
    assert (finding.status, finding.stage) == (Status.BUILD_FAILED, Stage.LOAD)
    assert worker.stages == ["load"]


def test_a_damaged_plan_is_noticed_and_costs_nothing_else(plans, worker, tmp_path):
    spec, records, folder = plans("matmul")
    worker.prepare(spec)
    plan = built(records)[0]
    blob = (folder / plan.blob_sha256).read_bytes()
    (tmp_path / plan.blob_sha256).write_bytes(blob[: len(blob) // 2])
    event = worker("admit", **known(plan, tmp_path), best_us=None)
    assert event["event"] == "failed"
    assert "damaged" in event["message"]
    finding = worker.admit(plan, tmp_path, sha256=None)
    assert finding.status is Status.BUILD_FAILED
    assert worker.admit(plan, folder).status is Status.OK


@pytest.mark.parametrize("options", [{"data": "uniform"}, {"data": "positive"}, {"score_shift": -40.0}])
def test_other_data_gives_right_results_too(plans, worker, options):
    for name in ("sdpa",) if "score_shift" in options else ("sdpa", "matmul_epilogue"):
        spec, records, folder = plans(name)
        worker.prepare(spec, **options)
        for plan in built(records)[:4]:
            assert worker.admit(plan, folder).status is Status.OK, plan.plan_name


def test_the_workspace_grows_under_plans_that_are_loaded(plans, worker):
    spec, records, folder = plans("matmul")
    worker.prepare(spec)
    first, second = built(records)[:2]
    before = worker.admit(first, folder)
    assert worker.admit(second, folder, workspace_bytes=64 << 20).status is Status.OK
    hot, stopped = worker.sample([first, second], least=20, margin=99.0)
    assert set(stopped.values()) == {"precise"}
    assert float(np.median(hot[first.key])) == pytest.approx(before.screening.median_us, rel=0.3)


def test_another_seed_gives_other_data_and_right_results(plans, worker):
    spec, records, folder = plans("sdpa")
    errors = []
    for seed in (1, 2**63 - 1):
        worker.prepare(spec, seed=seed)
        record = worker.admit(built(records)[0], folder)
        assert record.status is Status.OK
        errors.append(record.accuracy[0].max_abs)
    assert errors[0] != errors[1]


def test_a_killed_worker_is_noticed_and_another_takes_over(plans, new_worker):
    spec, records, folder = plans("matmul")
    first, plan = new_worker(), built(records)[0]
    first.prepare(spec)
    os.kill(first.child.pid, signal.SIGKILL)
    assert first.child.receive(10) is None
    assert "SIGKILL" in first.child.describe_end()
    second = new_worker()
    second.prepare(spec)
    assert second.admit(plan, folder).status is Status.OK


def test_a_plan_that_hangs_is_told_by_its_stage_and_does_not_outlive_its_worker(plans, target, new_worker, tmp_path):
    """Engine 49 hangs the GPU with these knobs on cuDNN 9.19; other versions have another engine of that number, if
    any."""
    identity = PlanIdentity(engine_id=49, knobs={"SPLIT_K_SLC": 15, "KERNEL_CFG": 30})
    spec = pipeline("conv_bias_relu").graph({})
    texts = {"spec": spec.model_dump_json(), "target": target.model_dump_json(), "identity": identity.model_dump_json()}
    with BuilderPool.for_target(target, size=1, compute_cache=True) as pool:
        version = pool.submit("environment", {}).result().content["cudnn_backend"]
        if version != "9.19.0":
            pytest.skip(f"which plan hangs is known for cuDNN 9.19.0, this is {version}")
        reply = pool.submit("build", {**texts, "plan_name": None, "modes": [], "blob_dir": str(tmp_path)}).result()
    plan = PlanRecord(
        identity=identity,
        plan_name="eng49",
        modes={},
        status=Status.OK,
        stage=Stage.BUILD,
        workspace_bytes=reply.content["workspace_bytes"],
        blob_sha256=reply.content["blob_sha256"],
    )
    stuck = new_worker()
    stuck.prepare(spec)
    with pytest.raises(TimeoutError):
        stuck("admit", timeout_s=8, **known(plan, tmp_path), best_us=None)
    assert stuck.stages == ["load", "execute"]
    began = time.monotonic()
    stuck.child.kill()
    assert time.monotonic() - began < 2
    after = new_worker()
    _, records, folder = plans("conv_bias_relu")
    after.prepare(spec)
    assert after.admit(built(records)[0], folder).status is Status.OK


def test_a_worker_ends_when_its_pipe_closes(plans, new_worker):
    worker = new_worker()
    worker.prepare(plans("matmul")[0])
    began = time.monotonic()
    worker.child.close(timeout_s=20)
    assert time.monotonic() - began < 20
    assert not worker.child.alive
    assert "exited with status 0" in worker.child.describe_end()


def test_a_spoilt_context_is_noticed():
    """After a device-side assertion nothing runs in the process any more; the worker asks Device.is_lost to know."""
    script = """
import torch
from engine.measure.device import Device
device = Device()
assert not device.is_lost()
values = torch.zeros(4, device=device.torch_device)
index = torch.tensor([10**6], device=device.torch_device)
values[index]
assert device.is_lost()
print("lost")
import os, sys
sys.stdout.flush()
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "lost", done.stderr[-2000:]


def test_too_large_a_graph_is_refused_with_the_numbers(plans, worker):
    event = worker(
        "prepare",
        graph=pipeline("matmul").graph({"b": 256, "m": 65536, "n": 65536, "k": 65536}).model_dump(mode="json"),
        options={},
    )
    assert event["event"] == "failed"
    assert event["message"].count("GiB") == 4
    assert event["restart"] is False
    spec, records, folder = plans("matmul")
    worker.prepare(spec)
    assert worker.admit(built(records)[0], folder).status is Status.OK


def test_environment_and_properties_describe_the_gpu_that_was_picked(worker, target):
    found = Environment.model_validate(worker("environment")["environment"], strict=False)
    assert found.gpu.uuid == target.gpu_uuid
    assert found.gpu.name == target.info.gpu_name
    assert found.gpu.sm_count >= 1
    assert found.gpu.l2_bytes >= 1 << 20
    assert found.gpu.driver
    assert found.cuda
    properties = worker("properties")["properties"]
    exported = target_from_properties(properties, "exported")
    assert exported.info.sm == target.info.sm
    assert exported.info.gpu_name == target.info.gpu_name
    assert properties["multiProcessorCount"] == found.gpu.sm_count
    assert properties["l2CacheSize"] == found.gpu.l2_bytes


@pytest.mark.parametrize("dtype", DataType)
def test_data_and_poison_are_the_same_on_the_gpu_as_in_host_memory(dtype):
    import torch

    from engine.measure.buffers import POISON, Buffers, bits

    spec = pipeline("conv_bias_relu").graph({"dtype": dtype, "n": 2})
    here, there = Buffers(spec, 9, "cpu"), Buffers(spec, 9, "cuda")
    for uid, tensor in here.inputs.items():
        moved = there.inputs[uid].cpu()
        assert moved.stride() == tensor.stride()
        # Logarithm and cosine may differ in the last of 53 bits, which decides a rounding once in millions.
        assert (moved != tensor).sum() <= tensor.numel() * 1e-5
    (output,) = there.outputs.values()
    assert (bits(dtype, output) == POISON[dtype]).all()
    zero = torch.zeros(1000, device="cuda", dtype=output.dtype)
    for computed in (zero / zero, zero.log() * 0, output.reshape(-1)[:1000] * 2, output.double().to(output.dtype)):
        assert torch.isnan(computed).all()
    assert (bits(dtype, zero / zero) != POISON[dtype]).all()
    assert (bits(dtype, zero.log() * 0) != POISON[dtype]).all()
