"""`plan` with real cuDNN, without a GPU: the JSON that programs build on, statuses, and Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.cudnn

ROOT = Path(__file__).resolve().parents[2]
PROMISED = {
    "plan_name", "engine_id", "knobs", "modes", "workspace_bytes", "behavior_notes", "status", "build_ms", "blob_bytes",
    "error",
}  # fmt: skip


def test_listing_has_every_promised_key(engine):
    done = engine("plan", "matmul", "--target", "h200", "--no-build", "--builders", 1, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {"graph_id", "pipeline", "target", "cudnn", "plans", "refusal"} <= set(answer)
    assert (answer["pipeline"], answer["refusal"]) == ("matmul", None)
    assert {"name": "h200", "sm": 90, "source": "read off a device"}.items() <= answer["target"].items()
    assert set(answer["cudnn"]) == {"backend", "frontend"}
    assert answer["parameters"] == {"dtype": "bf16", "b": "8", "m": "256", "n": "256", "k": "512"}
    assert len(answer["plans"]) >= 3
    for plan in answer["plans"]:
        assert set(plan) >= PROMISED
        assert plan["status"] == "listed"
        assert set(plan["modes"]) <= {"A", "B", "FALLBACK"}
        assert plan["build_ms"] is plan["blob_bytes"] is None
    assert {"A": 0, "B": 0}.items() <= answer["plans"][0]["modes"].items()


def test_building_tells_times_and_sizes(planned_here):
    plans = json.loads(planned_here.told)["plans"]
    assert [plan["modes"] for plan in plans] == [{"FALLBACK": 0}, {"FALLBACK": 1}]
    for plan in plans:
        assert plan["status"] == "ok" and plan["error"] is None
        assert plan["build_ms"] > 0 and plan["blob_bytes"] > 1000 and plan["deserialize_ms"] > 0
        assert plan["workspace_bytes"] >= 0
        assert plan["hot_us"] is None, "nothing was measured"
    assert planned_here.file.stat().st_size > 1000


def test_for_people(engine):
    done = engine("plan", "matmul", "--target", "l4", "--no-build", "--builders", 1, "-p", "m=64", "--dtype", "fp16")
    assert done.returncode == 0, done.stderr
    assert "dtype=fp16 b=8 m=64" in done.stdout
    assert "NVIDIA L4 (sm 89, public specification)" in done.stdout
    header = next(line for line in done.stdout.splitlines() if line.startswith("plan "))
    assert header.split() == ["plan", "modes", "status", "workspace_bytes", "build_ms", "blob_bytes"]
    assert done.stderr == "", "no progress where stderr is no terminal"


def test_a_refusal_says_why_and_ends_with_1(engine):
    done = engine("plan", "sdpa", "--target", "h200", "-p", "d=100", "--builders", 1, "--json")
    assert done.returncode == 1
    refusal = json.loads(done.stdout)["refusal"]
    assert "multiple of 8" in refusal["message"] and refusal["reasons"]
    assert "cuDNN takes d = 96 or 104" in refusal["message"], "what to change, found by asking cuDNN"
    assert done.stderr.count("multiple of 8") == 1 and "Traceback" not in done.stderr


def test_the_target_may_be_a_properties_file(engine, tmp_path):
    shipped = ROOT / "engine" / "plans" / "gpu_properties" / "h200.json"
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({**json.loads(shipped.read_text()), "deviceName": "My GPU"}))
    done = engine("plan", "conv_relu", "--target", file, "--no-build", "--modes", "A", "--json")
    assert done.returncode == 0, done.stderr
    target = json.loads(done.stdout)["target"]
    assert (target["name"], target["gpu"], target["source"]) == ("mine", "My GPU", "properties file")


@pytest.mark.process
def test_progress_on_a_terminal(home):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "engine", "plan", "matmul", "--target", "h200", "--modes", "FALLBACK"]
    command += ["--builders", "1"]
    environment = {**os.environ, "PLANSCOPE_HOME": str(home)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # the other side has closed
                break
        assert process.wait() == 0
    os.close(ours)
    text = seen.decode()
    assert "asking cuDNN for plans" in text and "built 2 of 2" in text
    assert text.endswith("\r"), "the line is taken away at the end"


def descendants(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(text) for text in listed.stdout.split()]


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cancelling_ends_it_and_its_processes_and_keeps_what_there_is(home, tmp_path, number):
    out = tmp_path / "run.zip"
    # Compiles for many seconds with one builder: the signal comes amid the work on a fast machine too.
    arguments = ["plan", "matmul_epilogue", "--target", "h200", "--builders", "1", "--out", str(out), "--json"]
    command = [sys.executable, "-m", "engine", *arguments]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PLANSCOPE_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (children := descendants(process.pid)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(2)
    os.killpg(process.pid, number)  # a terminal signals the whole foreground group
    began = time.monotonic()
    stdout, stderr = process.communicate(timeout=30)
    took = time.monotonic() - began
    assert process.returncode == 130, stderr
    assert took < 2.0
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    answer = json.loads(stdout)
    assert answer["cancelled"] is True
    assert "cancelling" in stderr and "Traceback" not in stderr


@pytest.mark.process
@pytest.mark.parametrize("later_s", [0, 0.02, 0.05, 0.1])
def test_ctrl_c_while_it_starts_is_no_traceback(home, later_s):
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "plan", "matmul"],
        cwd=ROOT,
        env={**os.environ, "PLANSCOPE_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Python's own start, before any of our code runs, is not ours to shape: wait until our imports are under way.
    deadline = time.monotonic() + 30
    while "pydantic_core" not in _mapped(process.pid):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(later_s)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr


def _mapped(pid: int) -> str:
    """The files that a process has mapped, compiled modules among them."""
    return Path(f"/proc/{pid}/maps").read_text()
