"""The command line as people run it, in a process of its own, and in this one where there are many cases."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The data folder of this test."""
    return tmp_path / "home"


@pytest.fixture
def engine(home: Path) -> Run:
    """``engine("plan", "matmul", ...)``: python -m engine, on the data folder of this test."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "engine", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "PLANSCOPE_HOME": str(home), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def invoke(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The same in this process."""
    monkeypatch.setenv("PLANSCOPE_HOME", str(home))

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run
