"""FE 120: attention on a GPU that is too old for it."""

from __future__ import annotations

import json

import pytest

from engine.plans.targets import resolve_target
from tests.cases.conftest import members

pytestmark = pytest.mark.cudnn


def test_fe_120_attention_below_compute_capability_8_0_is_refused_before_any_build_naming_the_floor(invoke, tmp_path):
    file, kept = tmp_path / "turing.json", tmp_path / "run.zip"
    properties = {**resolve_target("h200").properties, "deviceVer": 750, "deviceName": "A Turing GPU"}
    file.write_text(json.dumps(properties))
    done = invoke("plan", "sdpa", "--dtype", "fp16", "--target", file, "--builders", 1, "--out", kept, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["target"]["sm"] == 75 and told["plans"] == []
    assert "SM80" in told["refusal"]["message"]
    inside = members(kept.read_bytes())
    assert json.loads(inside["run.json"])["refusal"]["message"] == told["refusal"]["message"]
    assert not [name for name in inside if name.startswith("blobs/")], "nothing was built"
