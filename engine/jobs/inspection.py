"""Inspects this machine's libraries in a process of its own, because a broken set of them can abort whoever loads
it."""

from __future__ import annotations

import subprocess
import sys

from pydantic import ValidationError

from engine.jobs.protocol import ROOT
from engine.machine.cudnn_libraries import LibraryInfo
from engine.machine.libraries import LibraryReport


def inspect_machine(timeout_s: float = 60.0) -> LibraryReport:
    """The report; where the process crashes or hangs, a report whose one library says so."""
    command = [sys.executable, "-m", "engine.machine.libraries"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
        return LibraryReport.model_validate_json(done.stdout)
    except subprocess.TimeoutExpired:
        problem = f"loading it did not end within {timeout_s:.0f} s"
    except ValidationError:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1][:300]
        problem = f"loading it ended the process with status {done.returncode}: {last}"
    remedy = f"{sys.executable} -m pip install --force-reinstall nvidia-cudnn-cu13 nvidia-cudnn-frontend"
    broken = LibraryInfo(name="libcudnn", path=None, version=None, known_by="nothing", problem=problem, remedy=remedy)
    return LibraryReport(
        libraries=(broken,),
        cudnn_backend=None,
        cudnn_frontend=None,
        torch=None,
        python=sys.version.split()[0],
        deviceless_complete=False,
    )
