"""A process of a benchmark's own: asked once through its stdin, answering with JSON objects, a line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.jobs.protocol import ROOT, JobError

_TOLD = 800
"""Of what a process that failed has written to stderr: its end, where the reason stands."""


@dataclass(frozen=True)
class Told:
    """``objects``: what it wrote; ``ending``: how it ended, to go on a sentence that names it."""

    objects: list[dict[str, Any]]
    failed: bool
    ending: str


def ask_process(module: str, what: str, text: str, environment: Mapping[str, str], deadline_s: float) -> Told:
    """Run ``python -m module`` to its end. ``what`` names it. Raises JobError where it has to be killed: a plan that
    hangs must not take with it what the benchmark has measured of other graphs."""
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
    except subprocess.TimeoutExpired:
        raise JobError(f"{what} did not end within {deadline_s:g} s and was killed") from None
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ending = f"ended with status {done.returncode}: {done.stderr.strip()[-_TOLD:]}"
    return Told(found, bool(done.returncode), ending)
