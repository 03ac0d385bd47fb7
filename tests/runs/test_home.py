"""The data folder: where it is, and what is said where it cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.graph.errors import InvalidInput
from engine.runs.home import data_home

ROOT = Path(__file__).resolve().parents[2]


def refused(monkeypatch: pytest.MonkeyPatch, value: Path | str) -> str:
    monkeypatch.setenv("PLANSCOPE_HOME", str(value))
    with pytest.raises(InvalidInput) as caught:
        data_home()
    (error,) = caught.value.errors
    assert error.field == "PLANSCOPE_HOME" and "Set PLANSCOPE_HOME" in error.remedy
    return str(error)


def test_the_variable_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLANSCOPE_HOME", str(tmp_path / "a" / "b"))
    assert data_home() == tmp_path / "a" / "b"
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_without_it_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for value in ("", "  "):
        monkeypatch.setenv("PLANSCOPE_HOME", value)
        assert data_home() == tmp_path / "planscope"
    monkeypatch.delenv("PLANSCOPE_HOME")
    assert data_home() == tmp_path / "planscope"


def test_home_and_relative_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for value in ("~/x", "x"):
        monkeypatch.setenv("PLANSCOPE_HOME", value)
        assert data_home() == tmp_path / "x"


def test_folders_that_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        assert "is a file" in refused(monkeypatch, path)
    assert "cannot be written" in refused(monkeypatch, "/proc/planscope")
    assert "file name too long" in refused(monkeypatch, tmp_path / ("x" * 300))
    assert "home directory" in refused(monkeypatch, "~no-such-user-here/x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "permission denied" in refused(monkeypatch, tmp_path)


def test_a_folder_that_holds_nothing_more(tmp_path: Path) -> None:
    """A real write that fails for want of room: the process may not make files longer than 100 bytes."""
    script = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from engine.runs.home import data_home
try:
    data_home()
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", script],
        cwd=ROOT,
        env={**os.environ, "PLANSCOPE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"PLANSCOPE_HOME = {tmp_path}: the data folder cannot be written (file too large)")
    assert list(tmp_path.iterdir()) == []
