"""On a machine with a GPU: real sweeps by the command line, and their best plans run by the bundle's loader alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from engine.machine.gpus import list_gpus
from tests.cli.verdicts import check_best

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]
PIPELINES = ["conv_bias_relu", "conv_relu", "matmul", "matmul_epilogue", "sdpa"]


def answer(done, status=0):
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """``swept("matmul")``: a run file of a real sweep at the defaults, and what the command said."""
    folder, kept = tmp_path_factory.mktemp("swept"), {}

    def sweep(pipeline):
        if pipeline not in kept:
            out = folder / f"{pipeline}.zip"
            command = [sys.executable, "-m", "engine", "sweep", pipeline, "--out", str(out), "--json"]
            environment = {**os.environ, "PLANSCOPE_HOME": str(folder / "home")}
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            kept[pipeline] = (out, answer(done))
        return kept[pipeline]

    return sweep


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sweep_measures_every_plan_and_torch(swept, pipeline):
    _, told = swept(pipeline)
    assert told["status"] == "done" and told["target"]["source"] == "this machine's GPU"
    assert told["baseline"]["hot_us"]["median"] > 0
    right = [plan for plan in told["plans"] if plan["status"] == "ok"]
    assert len(right) >= 3
    for plan in right:
        assert min(plan["hot_us"]["median"], plan["cold_us"]["median"], plan["host_us"]["median"]) > 0
        assert all(output["unwritten"] == 0 for output in plan["accuracy"])
    check_best(told)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_bundle_of_the_best_plan_runs_by_itself(swept, engine, tmp_path, pipeline):
    run, told = swept(pipeline)
    exported = answer(engine("bundle", "export", run, "--out", tmp_path / "b.zip", "--json"))
    winner = next(plan for plan in told["plans"] if plan["key"] == exported["plan"])
    assert "winner" in exported["chosen"] and winner["status"] == "ok"
    folder = tmp_path / "bundle"
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(folder)
    elsewhere = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if Path(entry) != ROOT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, elsewhere))}
    done = subprocess.run(
        [sys.executable, "load_plan.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines() if not line.startswith("tensor"))
    assert "onto the current GPU" in lines["loaded"]
    assert lines["ran"].endswith("was written and is finite")
    microseconds = float(lines["time"].split()[0])
    assert microseconds == pytest.approx(winner["hot_us"]["median"], rel=0.5)


CALLS = """
import torch
from load_plan import BundleError, load_plan
plan = load_plan()
a = torch.randn(16, 512, 1024, device="cuda", dtype=torch.bfloat16)
b = torch.randn(16, 1024, 512, device="cuda", dtype=torch.bfloat16)
bias = torch.randn(1, 1, 512, device="cuda", dtype=torch.bfloat16)

def reference(alpha):
    return torch.nn.functional.gelu(alpha * (a.float() @ b.float()) + bias.float())

def close(got, alpha):
    want = reference(alpha)
    assert torch.isfinite(got["C"]).all()
    assert (got["C"].float() - want).abs().max() <= 0.02 * want.abs().max(), "another result"
    assert abs(float(got["amax"]) - float(want.abs().max())) <= 0.02 * float(want.abs().max())

close(plan(A=a, B=b, bias=bias), 0.125)
close(plan({1: a, 2: b, "bias": bias}), 0.125)
close(plan(A=a, B=b, bias=bias, alpha=0.5), 0.5)  # a scalar is passed by value: another one each time
mine = {"C": plan.empty("C"), "amax": plan.empty("amax")}
workspace = torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
assert plan(A=a, B=b, bias=bias, workspace=workspace, **mine)["C"] is mine["C"]
close(mine, 0.125)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
on_side = plan(A=a, B=b, bias=bias, stream=side)
side.synchronize()
close(on_side, 0.125)
mine["C"].zero_()
by_uid = {1: a, 2: b, 3: bias, 5: mine["C"], 6: mine["amax"]}
plan({uid: tensor.data_ptr() for uid, tensor in by_uid.items()}, workspace=workspace.data_ptr())
close(mine, 0.125)
for wrong in (a.cpu(), a.half(), a.transpose(1, 2), a[:8]):
    try:
        plan(A=wrong, B=b, bias=bias)
    except BundleError as error:
        print(error)
    else:
        raise SystemExit("a wrong tensor was taken")
print("all right")
"""


def test_every_way_to_call_a_plan(swept, engine, tmp_path):
    run, _ = swept("matmul_epilogue")
    answer(engine("bundle", "export", run, "--out", tmp_path / "b.zip", "--json"))
    folder = tmp_path / "bundle"
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(folder)
    done = subprocess.run([sys.executable, "-c", CALLS], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all right\n")


def test_properties_of_this_gpu_make_a_target(engine, tmp_path):
    told = answer(engine("env", "--properties", tmp_path / "gpu.json", "--json"))
    gpu = list_gpus()[0]
    assert told["gpu"] == gpu.name
    planned = answer(engine("plan", "matmul", "--target", tmp_path / "gpu.json", "--no-build", "--json"))
    assert planned["target"]["gpu"] == gpu.name
    assert planned["plans"]


def test_ctrl_c_in_a_sweep_keeps_what_was_measured(home, engine):
    command = [sys.executable, "-m", "engine", "sweep", "conv_bias_relu", "--json"]
    environment = {**os.environ, "PLANSCOPE_HOME": str(home)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        runs = json.loads(engine("runs", "list", "--json").stdout)["runs"]
        own = [run for run in runs if run["origin"] == "own"]
        if own and own[0]["measured"]:
            break
    assert process.poll() is None, "it ended before it could be cancelled"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    stdout, _ = process.communicate(timeout=30)
    assert time.monotonic() - began < 2.0
    assert process.returncode == 130
    told = json.loads(stdout)
    assert told["status"] == "cancelled" and told["best"]
    assert {plan["status"] for plan in told["plans"]} >= {"ok", "cancelled"}
    assert answer(engine("runs", "show", told["run_id"], "--json"))["plans"] == told["plans"]
