"""Creating the virtual environment, and what `make` says where it cannot be created."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.machine import environment
from engine.machine.environment import SetupError

ROOT = Path(__file__).resolve().parents[2]


def script(file: Path, text: str) -> Path:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_a_python_without_venv_names_the_package_and_leaves_nothing(tmp_path):
    python = script(
        tmp_path / "python3",
        'mkdir -p "$4/bin"; echo "The virtual environment was not created, because ensurepip is not available"; exit 1',
    )
    with pytest.raises(SetupError) as raised:
        environment.create_environment(tmp_path / ".venv", python)
    package = f"python3.{sys.version_info.minor}-venv"
    assert f"the package {package} is missing" in str(raised.value)
    assert str(raised.value).endswith(f"sudo apt-get install {package}")
    assert not (tmp_path / ".venv").exists()


def test_any_other_failure_shows_what_python_said(tmp_path):
    python = script(tmp_path / "python3", "echo 'Error: no space left on device' >&2; exit 1")
    with pytest.raises(SetupError, match="no space left on device"):
        environment.create_environment(tmp_path / ".venv", python)


def test_an_environment_whose_python_is_gone_does_not_count(tmp_path):
    (tmp_path / "python").symlink_to(tmp_path / "removed")
    assert environment.environment_works(Path(sys.executable))
    assert not environment.environment_works(tmp_path / "python")
    assert not environment.environment_works(script(tmp_path / "broken", "exit 1"))


def test_a_broken_pip_is_no_reason_for_a_traceback(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "run_pip", lambda *arguments: (2, "ERROR: cannot reach the index"))
    with pytest.raises(SetupError, match=r"cannot reach the index\npip could not install requirements\.txt"):
        environment.install_requirements(tmp_path / "requirements.txt")


def test_the_installed_version_is_read():
    assert environment.installed_version("pytest") == pytest.__version__
    assert environment.installed_version("planscope-is-no-package") is None


@pytest.fixture
def clone(tmp_path):
    """A fresh clone, as far as make looks at it, without a .venv."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "engine/machine", tmp_path / "engine/machine")
    shutil.copy(ROOT / "engine/__init__.py", tmp_path / "engine/__init__.py")
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.process
@pytest.mark.parametrize("target", ["run", "test"])
def test_an_old_python_is_told_so_before_anything_is_created(clone, target):
    old = script(
        clone / "python3.9",
        f"exec {sys.executable} -c 'import sys; code = sys.argv[2]; sys.version_info = (3, 9, 2); exec(code)' \"$@\"",
    )
    done = make(clone, target, f"PYTHON={old}")
    assert done.returncode != 0
    assert f"Python 3.11 or newer is needed, and {old} is 3.9" in done.stderr
    assert not (clone / ".venv").exists()


@pytest.mark.process
def test_no_python_at_all(clone):
    done = make(clone, "run", "PYTHON=python3-that-is-not-there")
    assert done.returncode != 0
    assert "there is no python3-that-is-not-there. Install Python 3.11 or newer" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("port", ["http", "8501'; echo 'found"])
def test_a_bad_port_is_told_before_gigabytes_are_installed(clone, port):
    done = make(clone, "run", f"PYTHON={sys.executable}", f"PORT={port}")
    assert done.returncode != 0
    assert f"PORT={port} is no port" in done.stderr
    assert not (clone / ".venv").exists()


@pytest.mark.process
def test_make_alone_explains_the_two_commands():
    done = make(ROOT)
    assert done.returncode == 0
    for word in ("make run", "make test", "PORT=8502 make run", "CUDNN=9.20.0 make run"):
        assert word in done.stdout
