"""Streams that are closed, full, abandoned or of another encoding: a status, a word where there is room for one, and
never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def shell(home):
    """``shell('... "$@" >&-', "pipelines")``: the script, with python -m engine and these arguments as "$@"."""

    def run(script, *arguments, **environment):
        return subprocess.run(
            ["bash", "-c", script, "bash", sys.executable, "-m", "engine", *arguments],
            cwd=ROOT,
            env={**os.environ, "PLANSCOPE_HOME": str(home), **environment},
            capture_output=True,
            check=False,
        )

    return run


def test_a_closed_stdout_is_nothing_to_fail_over(shell):
    done = shell('"$@" >&-', "pipelines")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_with_stderr_closed_stdout_holds_the_document_alone(shell, tmp_path):
    done = shell('"$@" 2>&-', "runs", "list", "--json", PLANSCOPE_HOME="/dev/null")  # which gives a note
    assert done.returncode == 0 and json.loads(done.stdout)["runs"]
    done = shell('"$@" 2>&-', "plan", "nothing", "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["fields"]


@pytest.mark.parametrize(
    "arguments",
    [("pipelines",), ("pipelines", "--json"), ("runs", "list"), ("runs", "list", "--json"), ("plan", "x", "--json")],
)
def test_a_full_disk_is_told(shell, arguments):
    done = shell('"$@" >/dev/full', *arguments)
    assert done.returncode == 1
    assert done.stderr.endswith(b"error: the output cannot be written: No space left on device\n")
    done = shell('"$@" >/dev/full 2>/dev/full', *arguments)
    assert done.returncode == 1


@pytest.mark.parametrize("arguments", [("runs", "list", "--json"), ("plan", "nothing", "--json")])
def test_a_reader_that_went_away_is_no_error(shell, arguments):
    done = shell('{ sleep 0.1; "$@"; echo "ended $?" >&2; } | true', *arguments)
    assert done.stderr == b"ended 1\n"


def test_characters_that_the_terminal_lacks_are_escaped(shell):
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = shell('"$@"', "runs", "list", **ascii_only)
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    done.stdout.decode("ascii")
    done = shell('"$@"', "plan", "☃", "--json", **ascii_only)
    assert json.loads(done.stdout.decode("ascii"))["error"]["fields"][0]["value"] == "☃"


def test_a_name_that_is_no_text_is_still_named(shell):
    for encoding in ("utf-8", "utf-8:strict"):
        done = shell('"$@"', "plan", "matmul", "--target", b"\xff.json", "--json", PYTHONIOENCODING=encoding)
        assert done.returncode == 2, done.stderr
        assert json.loads(done.stdout.decode())["error"]["fields"][0]["field"] == "target"


def test_a_pipe_that_nobody_reads_is_waited_for_and_that_is_said(shell, tmp_path):
    pipe, told = tmp_path / "pipe", tmp_path / "told"
    reader = f"for i in {{1..400}}; do [ -s {told} ] && break; sleep 0.05; done; cat {pipe}"
    script = f'mkfifo {pipe}; "$@" --out {pipe} 2>{told} & {reader}; wait $!'
    run = json.loads(shell('"$@"', "runs", "list", "--json").stdout)["runs"][0]["id"]
    done = shell(script, "runs", "export", run)
    assert done.returncode == 0 and b"PK" in done.stdout
    assert told.read_text() == f"{pipe} is a pipe that nobody reads yet: waiting.\n"
