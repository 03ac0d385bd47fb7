"""On a real GPU: every plan of every pipeline executed, held against the reference and timed by the real worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from engine.graph.operations.pointwise import Activation
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.graph.roofline import roofline
from engine.graph.tensors import DataType
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import ROOT
from engine.plans.targets import target_from_properties
from engine.records.environment import Environment
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status
from engine.records.run import Baseline

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
    worker.prepare(spec)
    measured = [worker.measure(plan, folder) for plan in built(records)]
    wrong = [(p.plan_name, p.status, p.message) for p in measured if p.status is not Status.OK]
    assert not wrong
    floor = roofline(spec, target.info.gpu_name)
    for plan, before in zip(measured, built(records), strict=True):
        assert plan.key == before.key
        assert plan.deserialize_ms < 1000
        assert [o.name for o in plan.accuracy] == [t.name for t in spec.outputs]
        hot, cold, host = (samples.median_us for samples in (plan.timings.hot, plan.timings.cold, plan.timings.host))
        assert hot < cold * 1.1 + 2, (plan.plan_name, hot, cold)
        assert 2 < host < 1000, (plan.plan_name, host)
        assert plan.timings.gpu.sm_clock_mhz > 100
        assert plan.timings.gpu.temperature_c > 10
        assert floor is None or hot > 0.9 * floor.compute_us, (plan.plan_name, hot)
    best = min(measured, key=lambda plan: plan.timings.hot.median_us)
    assert best.timings.hot.count >= 50
    spread = np.std(best.timings.hot.values) / np.mean(best.timings.hot.values)
    assert spread < 0.1, (best.plan_name, best.timings.hot.values)
    again = worker.measure(best.model_copy(update={"message": "a remark of its builder"}), folder)
    assert again.message == "a remark of its builder"
    assert again.timings.hot.median_us == pytest.approx(best.timings.hot.median_us, rel=0.15)


@pytest.mark.parametrize("name", CATALOGUE)
def test_torch_eager_is_timed_the_same_way(name, worker):
    spec = pipeline(name).graph({})
    worker.prepare(spec)
    event = worker("baseline")
    baseline = Baseline.model_validate(event["baseline"], strict=False)
    assert baseline.message is None
    assert all(output.passed for output in baseline.accuracy), baseline.accuracy
    assert baseline.timings.hot.count >= 50
    assert baseline.timings.hot.median_us < baseline.timings.cold.median_us * 1.1 + 2


def test_a_plan_of_another_graph_with_the_same_tensors_is_found_wrong(plans, worker):
    """Same uids, dims and types, another activation: it loads and runs, and only its values tell."""
    _, others, folder = plans("matmul_epilogue", activation=Activation.RELU.value)
    spec, records, _ = plans("matmul_epilogue")
    worker.prepare(spec)
    record = worker.measure(built(others)[0], folder)
    assert (record.status, record.stage) == (Status.WRONG_RESULT, Stage.CHECK)
    assert worker.stages == ["load", "execute", "check"]
    assert record.timings is None
    assert not next(o for o in record.accuracy if o.name == "C").passed
    assert "relative error" in record.message
    assert worker.measure(built(records)[0], folder).status is Status.OK


def test_a_scalar_is_read_when_a_plan_runs(plans, worker):
    """alpha is passed by value: the plan built for one alpha computes with another."""
    _, records, folder = plans("matmul_epilogue")
    worker.prepare(pipeline("matmul_epilogue").graph({"alpha": -0.75}))
    assert worker.measure(built(records)[0], folder).status is Status.OK


def test_a_plan_of_other_shapes_is_refused_before_it_runs(plans, worker):
    _, others, folder = plans("matmul", dtype="fp32")
    spec, _, _ = plans("matmul")
    worker.prepare(spec)
    record = worker.measure(built(others)[0], folder)
    assert (record.status, record.stage) == (Status.BUILD_FAILED, Stage.LOAD)
    assert worker.stages == ["load"]


def test_a_damaged_plan_is_noticed_and_costs_nothing_else(plans, worker, tmp_path):
    spec, records, folder = plans("matmul")
    worker.prepare(spec)
    plan = built(records)[0]
    blob = (folder / plan.blob_sha256).read_bytes()
    (tmp_path / plan.blob_sha256).write_bytes(blob[: len(blob) // 2])
    event = worker("measure", plan=plan.model_dump(mode="json"), blob=str(tmp_path / plan.blob_sha256))
    assert event["event"] == "failed"
    assert "damaged" in event["message"]
    anonymous = plan.model_copy(update={"blob_sha256": None})
    event = worker("measure", plan=anonymous.model_dump(mode="json"), blob=str(tmp_path / plan.blob_sha256))
    assert event["event"] == "done"
    assert event["plan"]["status"] == Status.BUILD_FAILED
    assert worker.measure(plan, folder).status is Status.OK


def test_another_seed_gives_other_data_and_right_results(plans, worker):
    spec, records, folder = plans("sdpa")
    errors = []
    for seed in (1, 2**63 - 1):
        worker.prepare(spec, seed)
        record = worker.measure(built(records)[0], folder)
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
    assert second.measure(plan, folder).status is Status.OK


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
        stuck("measure", timeout_s=8, plan=plan.model_dump(mode="json"), blob=str(tmp_path / plan.blob_sha256))
    assert stuck.stages == ["load", "execute"]
    began = time.monotonic()
    stuck.child.kill()
    assert time.monotonic() - began < 2
    after = new_worker()
    _, records, folder = plans("conv_bias_relu")
    after.prepare(spec)
    assert after.measure(built(records)[0], folder).status is Status.OK


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
        seed=0,
    )
    assert event["event"] == "failed"
    assert event["message"].count("GiB") == 4
    assert event["restart"] is False
    spec, records, folder = plans("matmul")
    worker.prepare(spec)
    assert worker.measure(built(records)[0], folder).status is Status.OK


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
