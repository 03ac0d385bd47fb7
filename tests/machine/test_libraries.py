"""The System page names the library that is missing or broken, its version and the remedy, on real cuDNN files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.jobs.inspection import inspect_machine
from engine.machine.cudnn_libraries import matched, packed_version
from engine.machine.libraries import LibraryReport

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cudnn


@pytest.fixture(scope="module")
def report() -> LibraryReport:
    return inspect_machine()


def library(report: LibraryReport, name: str):
    return next(found for found in report.libraries if found.name == name)


def broken_report(folder: Path) -> LibraryReport:
    """A report on the cuDNN in ``folder``, which the frontend prefers when it stands on LD_LIBRARY_PATH."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    command = [sys.executable, "-m", "engine.machine.libraries"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return LibraryReport.model_validate_json(done.stdout)


@pytest.fixture
def copy_of_cudnn(report, tmp_path_factory) -> Path:
    """The installed libraries under a second name each (a gigabyte is not worth copying)."""
    source = Path(library(report, "libcudnn").path).parent
    folder = Path(sys.prefix) / "lib" / "planscope" / tmp_path_factory.mktemp("cudnn").name
    folder.mkdir(parents=True)
    for path in source.glob("libcudnn*.so.9"):
        os.link(path, folder / path.name)
    yield folder
    shutil.rmtree(folder)


def test_an_installed_cudnn_is_whole(report):
    assert report.problems == ()
    assert report.cudnn_backend == library(report, "libcudnn").version
    versions = {".".join(found.version.split(".")[:3]) for found in report.libraries if "cudnn" in found.name}
    assert versions == {report.cudnn_backend}
    assert {"libcuda", "libnvrtc", "libcublasLt", "libcudnn_engines_precompiled"} <= {x.name for x in report.libraries}


def test_lists_are_called_complete_from_9_28_on(report):
    major, minor, _patch = (int(part) for part in report.cudnn_backend.split("."))
    assert report.deviceless_complete == ((major, minor) >= (9, 28))


def test_a_missing_sublibrary_is_named(copy_of_cudnn):
    (copy_of_cudnn / "libcudnn_ops.so.9").unlink()
    found = library(broken_report(copy_of_cudnn), "libcudnn_ops")
    assert "not beside libcudnn" in found.problem
    assert "pip install" in found.remedy
    assert found.path is None


def test_a_damaged_sublibrary_is_named(copy_of_cudnn):
    damaged = copy_of_cudnn / "libcudnn_heuristic.so.9"
    damaged.unlink()
    damaged.write_bytes(b"this is no library")
    report = broken_report(copy_of_cudnn)
    assert [found.name for found in report.problems] == ["libcudnn_heuristic"]
    assert "libcudnn_heuristic" in report.problems[0].problem


def test_a_sublibrary_of_another_version_is_named(report):
    mixed = [
        found.model_copy(update={"version": "9.19.0"}) if found.name == "libcudnn_ops" else found
        for found in report.libraries
        if "cudnn" in found.name
    ]
    problems = [found for found in matched(mixed) if found.problem]
    assert [found.name for found in problems] == ["libcudnn_ops"]
    assert problems[0].problem == f"version 9.19.0 beside libcudnn {report.cudnn_backend}"


def test_a_crash_of_the_inspection_is_a_finding(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = inspect_machine()
    assert "ended the process with status 1" in found.problems[0].problem


def test_a_version_number_reads_as_text():
    assert packed_version(92801) == "9.28.1"
