"""What the README says is so: its commands run, its pictures and pages are there, its words are the program's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from app.theme import STATUS_STYLES
from engine.records.plan import Status
from engine.runs.recordings import SHIPPED

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = SHIPPED / "benchmarks"
PROGRAM = ".venv/bin/python -m engine"
COMMANDS = [line.removeprefix(PROGRAM).strip() for line in README.splitlines() if line.startswith(PROGRAM)]


def test_there_are_commands_to_try():
    assert len(COMMANDS) >= 4


@pytest.mark.cudnn
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command, tmp_path):
    environment = {**os.environ, "PLANSCOPE_HOME": str(tmp_path)}
    line = [sys.executable, "-m", "engine", *shlex.split(command)]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("picture", re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README))
def test_every_picture_is_a_png_in_the_repository(picture):
    assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")


def test_every_page_has_its_row():
    rows = re.findall(r"^\| (\w+) \| [^|]+ \|$", README, flags=re.MULTILINE)
    assert {row.lower() for row in rows} - {"page"} == {path.stem for path in (ROOT / "pages").glob("*.py")}


def test_every_make_target_it_names_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"\bmake ([\w-]+)", README))
    assert {"run", "test"} <= named <= targets


def test_every_room_of_the_engine_is_named():
    rooms = {path.name for path in (ROOT / "engine").iterdir() if path.is_dir() and any(path.glob("*.py"))} - {"cli"}
    assert {room for room in rooms if f"`{room}/`" not in README} == set()


def test_the_benchmark_is_what_was_recorded():
    recorded = json.loads((BENCHMARKS / "sweep.json").read_text())
    for one in recorded["results"]:
        made, taken, span = one["environment"], one["yardstick"]["total_s"], one["span_s"]
        cells = (one["pipeline"], one["plans"], f"{taken:.2f} s", f"{span:.2f} s", f"{taken / span:.2f}x")
        assert f"| {' | '.join(map(str, cells))} | {one['floor_s']:.2f} s |" in README
        versions = f"cuDNN {made['cudnn_backend']}, torch {made['torch']}, {recorded['at'][:10]}"
        assert f"{recorded['gpu']} with {one['builders']} cores, {versions}" in README.replace("\n", " ")


def test_every_outcome_has_a_word_and_a_sign():
    assert set(STATUS_STYLES) == set(Status)
    assert len({style.label for style in STATUS_STYLES.values()}) == len(Status)
