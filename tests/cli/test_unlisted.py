"""What `plan` and `sweep` take and tell of plans that no heuristics mode lists."""

import json

import pytest

from engine.records.plan import PlanOrigin

HANGING = "49;SPLIT_K_SLC=15;KERNEL_CFG=30"


@pytest.mark.parametrize("command", ["plan", "sweep"])
@pytest.mark.parametrize(
    ("arguments", "field", "rule"),
    [
        (["--explicit", "fast"], "explicit", "engine id"),
        (["--explicit", "4", "--explicit", "4;SPLITK=2"], "explicit", "no knob 'SPLITK'"),
        (["--explicit", ""], "explicit", "engine id"),
        (["--knob-budget", "-1"], "knob-budget", "from 0 to"),
        (["--knob-budget", "100001"], "knob-budget", "from 0 to"),
    ],
)
def test_nonsense_is_named(invoke, command, arguments, field, rule):
    done = invoke(command, "matmul", *arguments, "--json")
    assert done.exit_code == 2, done.output
    (error,) = json.loads(done.stdout)["error"]["fields"]
    assert error["field"] == field and rule in error["rule"] and error["remedy"]


@pytest.mark.parametrize("command", ["plan", "sweep"])
def test_the_options_are_explained(invoke, command):
    told = invoke(command, "--help").output
    assert all(option in told for option in ("--explicit", "--every-engine", "--knob-budget"))


@pytest.mark.cudnn
def test_plans_beyond_the_heuristics_are_listed_as_such(engine):
    done = engine(
        "plan", "conv_bias_relu", "--target", "h200", "--modes", "FALLBACK", "--no-build", "--json",
        "--explicit", HANGING, "--explicit", "9999", "--every-engine", "--knob-budget", "4",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    origins = {plan["key"]: plan["origin"] for plan in told["plans"]}
    assert set(origins.values()) == set(PlanOrigin)
    assert origins["49;KERNEL_CFG=30;SPLIT_K_SLC=15"] == origins["9999"] == "explicit"
    assert sum(origin == "knob search" for origin in origins.values()) == 4
    refused = next(plan for plan in told["plans"] if plan["key"] == "9999")
    assert (refused["status"], refused["error"]) == ("unsupported", "Invalid engine id.")
    assert any("Every engine was asked" in remark for remark in told["remarks"])


@pytest.mark.cudnn
def test_people_see_the_kernel_of_a_compiled_plan_and_where_it_comes_from(engine):
    done = engine(
        "plan", "matmul", "--target", "h200", "--modes", "FALLBACK", "--builders", 1,
        "--explicit", "4;KERNEL_CFG=2;SPLIT_K_SLC=2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("eng4_k17=2_k24=2 "))
    assert "fort_native_sm90" in row and "explicit" in row and " ok " in row
