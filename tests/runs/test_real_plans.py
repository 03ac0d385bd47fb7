"""Plans that cuDNN really built, for a GPU that is not here: into a store, out as a run file, into another store, and
loaded from there by a process that did not build them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.records.plan import Status
from engine.records.run import RunRecord
from engine.runs.archive import export_run, import_run
from engine.runs.store import Store

ROOT = Path(__file__).resolve().parents[2]
PREAMBLE = """
import sys, hashlib
from pathlib import Path
from engine.machine.driver import load_libcuda
load_libcuda()
import cudnn
from engine.plans.building import build, load
from engine.plans.candidates import list_candidates
from engine.plans.context import open_context
from engine.plans.targets import resolve_target
from engine.records.plan import Stage, Status
from engine.records.run import RunRecord
from engine.runs.store import Store
home, file = Path(sys.argv[1]), Path(sys.argv[2])
context = open_context(cudnn, resolve_target("h200"))
"""
BUILD = """
run = RunRecord.model_validate_json(file.read_text())
store = Store(home); store.create_run(run)
plans, refusal = list_candidates(cudnn, run.graph, context, ("A",))
store.add_plans(run.id, plans)
for plan in plans[:4]:
    built = build(cudnn, run.graph, context, plan.identity)
    update = {"status": Status.OK, "stage": Stage.BUILD, "build_ms": built.build_ms, "blob_bytes": len(built.blob),
              "workspace_bytes": built.workspace_bytes, "blob_sha256": store.put_blob(built.blob)}
    store.add_plan(run.id, plan.model_copy(update=update))
"""
LOAD = """
store = Store(home)
for plan in store.get(file.stem).plans:
    if plan.blob_sha256:
        load(cudnn, context, store.get_blob(plan.blob_sha256))
        print(plan.plan_name)
"""


def execute(script: str, home: Path, file: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script, str(home), str(file)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.cudnn
def test_real_plans_travel_and_load(tmp_path: Path, make: object) -> None:
    run: RunRecord = make.run("conv_bias_relu", plans=(), baseline=None)  # type: ignore[attr-defined]
    file = tmp_path / f"{run.id}.json"
    file.write_text(run.model_dump_json())
    execute(BUILD, tmp_path / "one", file)
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        assert import_run(two, export_run(one, run.id)).id == run.id
        got = two.get(run.id)
        assert got == one.get(run.id) and len(got.plans) > 10
        built = [plan for plan in got.plans if plan.status is Status.OK]
        assert len(built) == 4 and two.summary(run.id).counts[Status.OK] == 4
    assert execute(LOAD, tmp_path / "two", file) == [plan.plan_name for plan in built]
