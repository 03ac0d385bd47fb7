"""onnxruntime 22705: the default heuristics mode may be far from the best; each mode's price stands beside."""

from __future__ import annotations

import json

import pytest

from engine.runs.recordings import SHIPPED

MODES = ("A", "B", "FALLBACK")


def regret(told, mode):
    return told["first_picks"][mode]["regret"]


@pytest.mark.parametrize("file", sorted(path.stem for path in SHIPPED.glob("*.zip")))
def test_onnxruntime_22705_every_recording_has_each_modes_ranks_first_pick_and_regret(file, invoke):
    path = SHIPPED / f"{file}.zip"
    told, text = json.loads(invoke("runs", "show", path, "--json").stdout), invoke("runs", "show", path).stdout
    best_us = min(plan["hot_us"]["median"] for plan in told["plans"] if plan["hot_us"])
    modes = told["options"]["modes"]
    assert modes == list(MODES) or (modes == ["FALLBACK"] and told["options"]["explicit"])
    for mode in modes:
        ranked = {plan["modes"][mode]: plan for plan in told["plans"] if mode in plan["modes"]}
        assert sorted(ranked) == list(range(len(ranked)))
        (line,) = [line for line in text.splitlines() if line.startswith(f"mode {mode} ")]
        if not ranked:
            assert mode not in told["first_picks"] and line.endswith("lists no plan")
            continue
        assert told["first_picks"][mode]["key"] == ranked[0]["key"]
        assert regret(told, mode) == pytest.approx(ranked[0]["hot_us"]["median"] / best_us)
        assert line.endswith(f"{ranked[0]['plan_name']}: {regret(told, mode):.2f}x the time of the best")
        row = next(line for line in text.splitlines() if line.startswith(f"{ranked[0]['plan_name']} "))
        assert f"{mode}:0" in row.split() and "first pick of" in row
    assert told["first_pick"] == told["first_picks"][modes[0]]["key"]


def test_onnxruntime_22705_the_default_mode_can_lose_and_fallback_can_win(show):
    told, _ = show("matmul_epilogue", activation="gelu")
    assert regret(told, "A") > 1.1, "mode A's first pick is not the best here"
    assert regret(told, "FALLBACK") < regret(told, "A")
    told, _ = show("conv_bias_relu", layout="nhwc", r="3")
    assert regret(told, "A") < 1.05 and regret(told, "FALLBACK") > 10
