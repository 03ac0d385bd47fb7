"""FE 254: what it costs to load a serialized plan, and whether anything is compiled again."""

from __future__ import annotations

import base64
import json
import re

import pytest

from engine.records.plan import Status
from tests.cases.conftest import members

CUBIN = re.compile(rb'"cubin":"([A-Za-z0-9+/]{64})')
ELF_OF_CUDA = (b"\x7fELF", 190)
"""What machine code for NVIDIA GPUs begins with, and the number of its architecture in ELF (EM_CUDA)."""


def carries_machine_code(blob: bytes) -> bool:
    found = CUBIN.search(blob)
    if found is None:
        return False
    header = base64.b64decode(found[1])
    return (header[:4], int.from_bytes(header[18:20], "little")) == ELF_OF_CUDA


def test_fe_254_every_recorded_plan_has_its_load_time_and_nothing_left_to_compile(recordings):
    compiled = 0
    for summary in filter(lambda one: one.measured, recordings.summaries()):
        for plan in recordings.get(summary.id).plans:
            if plan.status is Status.TIMEOUT:
                continue  # It took the process with it that would have told.
            assert 0 < plan.deserialize_ms < 300  # A precompiled one may be the first to load its library.
            if "RUNTIME_COMPILATION" in plan.behavior_notes:
                compiled += 1
                assert plan.deserialize_ms < plan.build_ms / 20, plan.plan_name
                assert carries_machine_code(recordings.blob(summary.id, plan.blob_sha256)), plan.plan_name
    assert compiled > 100


def test_fe_254_both_times_are_shown(show):
    told, text = show("sdpa", hq="16")
    for plan in told["plans"]:
        row = next(line for line in text.splitlines() if line.startswith(f"{plan['plan_name']} "))
        assert {f"{plan['deserialize_ms']:.4g}", f"{plan['build_ms']:.4g}"} <= set(row.split())
    assert "build_ms" in text and "load_ms" in text


@pytest.mark.cudnn
def test_fe_254_also_of_plans_made_without_a_gpu(run_file):
    inside = members(run_file.read_bytes())
    plans = json.loads(inside["run.json"])["plans"]
    compiled = [plan for plan in plans if "RUNTIME_COMPILATION" in plan["behavior_notes"]]
    assert compiled
    for plan in compiled:
        assert 0 < plan["deserialize_ms"] < plan["build_ms"] / 10
        assert carries_machine_code(inside[f"blobs/{plan['blob_sha256']}"])
