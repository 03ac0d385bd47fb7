"""A process of a benchmark's own: asked once through its stdin, answering with JSON objects, a line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.jobs.protocol import ROOT

_TOLD = 800
"""Of what a process that failed has written to stderr: its end, where the reason stands."""


@dataclass(frozen=True)
class Told:
    """``objects``: what it wrote; ``ending``: how it ended, to go on a sentence that names it."""

    objects: list[dict[str, Any]]
    failed: bool
    ending: str


def ask_process(module: str, text: str, environment: Mapping[str, str], deadline_s: float) -> Told:
    """Run ``python -m module`` to its end, or kill it at the deadline: a plan that hangs must not take with it what was
    measured of others."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env={**os.environ, **environment},
            input=text,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        written = late.stdout or ""  # bytes, whatever ``text`` says
        whole = written.decode(errors="replace") if isinstance(written, bytes) else written
        return Told(_objects(whole), True, f"did not end within {deadline_s:g} s and was killed")
    ending = f"ended with status {done.returncode}: {done.stderr.strip()[-_TOLD:]}"
    return Told(_objects(done.stdout), bool(done.returncode), ending)


def _objects(text: str) -> list[dict[str, Any]]:
    """Of every whole line that has one."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]
