"""The driver library: really loaded where it is, a report with a remedy where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.machine import driver

ROOT = Path(__file__).resolve().parents[2]


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.cudnn
def test_the_library_loads_and_answers_to_its_name():
    """What cuDNN relies on: once loaded by path, the loader finds it under its name alone."""
    if missing := driver.read_missing_libcuda():
        pytest.skip(f"the set-up could not fetch it: {missing.reason}")
    output = run_python(
        "import ctypes, os\n"
        "from engine.machine.driver import load_libcuda\n"
        "origin = load_libcuda()\n"
        "version = ctypes.c_int()\n"
        "status = ctypes.CDLL('libcuda.so.1').cuDriverGetVersion(ctypes.byref(version))\n"
        "print(origin, status, version.value)\n"
    )
    origin, status, version = output.rsplit(" ", 2)
    assert origin == "system" or Path(origin).is_file()
    assert int(status) == 0
    assert int(version) >= 11000


def test_nothing_to_load_is_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-that-is-not-there.so.1")
    monkeypatch.setattr(driver, "WSL_LIBRARY", tmp_path / "wsl.so")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert driver.load_libcuda() is None
    broken = driver.fetched_library()
    assert broken.is_relative_to(tmp_path)
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no library")
    assert driver.load_libcuda() is None


def test_the_report_goes_with_the_environment_and_goes_away(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert driver.read_missing_libcuda() is None
    missing = driver.MissingLibcuda("the archive offers no package", "make driver")
    driver.write_missing_libcuda(missing)
    assert driver.read_missing_libcuda() == missing
    driver.write_missing_libcuda(None)
    driver.write_missing_libcuda(None)
    assert driver.read_missing_libcuda() is None


@pytest.mark.parametrize("content", ["", "[]", '{"reason": "half"}'])
def test_a_report_that_cannot_be_read_still_has_a_remedy(tmp_path, monkeypatch, content):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    driver.write_missing_libcuda(driver.MissingLibcuda("a", "b"))
    (report,) = driver.machine_folder().iterdir()
    report.write_text(content)
    missing = driver.read_missing_libcuda()
    assert missing is not None
    assert missing.remedy == "make driver"


def test_gpus_are_counted_as_the_machine_has_them(monkeypatch):
    """Hiding every GPU from CUDA changes nothing: the answer decides what is installed, for all later runs."""
    seen = driver.count_gpus()
    assert seen.found == (seen.count > 0)
    if not driver.has_device_nodes():
        assert seen == driver.GpuProbe(0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert driver.count_gpus() == seen


@pytest.mark.gpu
def test_a_gpu_is_found():
    assert driver.has_device_nodes()
    assert driver.count_gpus().count >= 1
    assert driver.load_libcuda() == "system"


def answering(tmp_path: Path, script: str) -> str:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return str(python)


def test_a_driver_that_crashes_or_hangs_counts_as_none(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", answering(tmp_path, "echo 'Bus error' >&2; kill -SEGV $$"))
    crashed = driver.count_gpus()
    assert not crashed.found
    assert crashed.problem is not None
    assert "Bus error" in crashed.problem
    monkeypatch.setattr(sys, "executable", answering(tmp_path, "exec sleep 60"))
    hung = driver.count_gpus(timeout_s=0.2)
    assert not hung.found
    assert hung.problem is not None
    assert "did not answer" in hung.problem
