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
from engine.graph.pipelines import CATALOGUE
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


def test_the_benchmarks_are_what_was_recorded():
    tables = {name: json.loads((BENCHMARKS / f"{name}.json").read_text()) for name in ("sweep", "timing", "repeat")}
    for recorded in tables.values():
        assert not recorded["failed"]
        for one in recorded["results"]:
            made = one["environment"]
            versions = f"cuDNN {made['cudnn_backend']}, torch {made['torch']}, {recorded['at'][:10]}"
            assert f"{recorded['gpu']} with 16 cores, {versions}" in README.replace("\n", " ")
    for one in tables["sweep"]["results"]:
        taken, span = one["yardstick"]["total_s"], one["span_s"]
        cells = (one["plans"], f"{taken:.2f} s", f"{span:.2f} s", f"{taken / span:.2f}x", f"{one['floor_s']:.2f} s")
        assert one["builders"] == 16
        assert _row(one["pipeline"], *cells) in README
    for one in tables["timing"]["results"]:
        for plan in one["plans"]:
            hot, others = plan["hot_us"], (plan["triton_us"], plan["kernels_us"])
            cells = [cell for other in others for cell in (f"{other:.2f} µs", f"{100 * (hot / other - 1):+.1f} %")]
            gap = f"{(hot - plan['kernels_us']) / plan['kernels']:+.2f} µs"
            assert _row(one["pipeline"], plan["plan"].split("_")[0], f"{hot:.2f} µs", *cells, gap) in README
    for one in tables["repeat"]["results"]:
        sweeps = one["sweeps"]
        medians = ", ".join(f"{sweep['medians_us'][sweep['winner']]:.2f}" for sweep in sweeps)
        outside = sum(a["winner"] not in b["tie_set"] for a in sweeps for b in sweeps)
        assert len(sweeps) == 5
        assert _row(one["pipeline"], f"{medians} µs", len({sweep["winner"] for sweep in sweeps}), outside) in README


def test_the_benchmarks_reach_what_is_asked_of_them():
    """A sweep is several times faster than the straightforward one and near the floor; timers and sweeps agree."""
    sweeps, timing, repeats = (
        json.loads((BENCHMARKS / f"{name}.json").read_text())["results"] for name in ("sweep", "timing", "repeat")
    )
    wanted = {"conv_bias_relu": 1.5, "matmul_epilogue": 4.0, "sdpa": 2.5}
    assert {one["pipeline"] for one in sweeps} == set(wanted)
    for one in sweeps:
        assert one["yardstick"]["total_s"] / one["span_s"] >= wanted[one["pipeline"]]
        assert one["span_s"] <= max(1.3 * one["floor_s"], one["floor_s"] + 0.4)
        assert one["least_samples"] >= 100
        assert one["right"] == one["plans"]
    plans = [plan for one in timing for plan in one["plans"]]
    assert {one["pipeline"] for one in timing} == {one["pipeline"] for one in repeats} == set(CATALOGUE)
    assert all(abs(plan["hot_us"] / plan["triton_us"] - 1) <= 0.02 for plan in plans if plan["hot_us"] >= 10)
    assert all(abs(plan["hot_us"] / plan["kernels_us"] - 1) <= 0.02 for plan in plans if plan["hot_us"] >= 50)
    assert sum(plan["hot_us"] >= 50 for plan in plans) >= 3
    assert all(a["winner"] in b["tie_set"] for one in repeats for a in one["sweeps"] for b in one["sweeps"])


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def test_every_outcome_has_a_word_and_a_sign():
    assert set(STATUS_STYLES) == set(Status)
    assert len({style.label for style in STATUS_STYLES.values()}) == len(Status)
