"""`fusion` on a machine without a GPU: what it plans with real cuDNN, and how it says that it cannot measure."""

from __future__ import annotations

import json

import pytest

from engine.cli.fusion_output import fusion_json, print_fusion
from engine.records.fusion import FusionRecord, Launch
from engine.records.fusion_caveats import caveats
from tests.app.sample_fusions import K, comparison


@pytest.mark.cudnn
def test_a_plan_of_a_comparison_needs_no_gpu(engine, tmp_path, home):
    out = tmp_path / "fusion.json"
    arguments = [
        "matmul_epilogue",
        "-p",
        "m=256",
        "--target",
        "h200",
        "--plan-only",
        "--builders",
        1,
        "--out",
        out,
        "--json",
    ]
    done = engine("fusion", *arguments)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["measured"] is False and told["versions"] == [] and told["steps"] == [] and told["sentences"] == []
    assert [(piece["label"], piece["runs_on"]) for piece in told["pieces"]] == [
        ("matmul", "cudnn"), ("scale", "cudnn"), ("bias", "cudnn"), ("gelu", "cudnn"), ("amax", "torch"),
    ]  # fmt: skip
    assert told["pieces"][-1]["refusal"]["message"].startswith("cuDNN has no execution plan for this graph.")
    assert sum(piece["bytes_moved"] for piece in told["pieces"]) == told["unfused_bytes"]
    assert sum(one["saved_bytes"] for one in told["saved"]) == told["unfused_bytes"] - told["fused_bytes"]
    assert [stage["added"] for stage in told["growth"]] == ["matmul", "scale", "bias", "gelu", "amax"]
    record = FusionRecord.model_validate_json(out.read_bytes())
    assert record.id == told["id"] and not record.measured
    assert not (home / "fusion").exists(), "only what was measured is kept"


@pytest.mark.cudnn
def test_the_plan_as_a_table(engine):
    done = engine("fusion", "conv_relu", "--target", "h200", "--plan-only", "--builders", 1)
    assert done.returncode == 0, done.stderr
    assert "planned for  NVIDIA H200" in done.stdout
    assert "2 pieces must move 4.07 MiB, the fused graph 2.07 MiB: 1.97x as much unfused." in done.stdout


def test_stages_that_were_not_measured_are_dashes(capsys):
    record = comparison()
    growth = list(record.growth)
    growth[0] = growth[0].model_copy(update={"versions": ()})
    growth[1] = growth[1].model_copy(update={"versions": growth[1].versions[1:]})
    print_fusion(record.model_copy(update={"growth": tuple(growth)}))
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("stage "))
    assert lines[at + 1].split()[:4] == ["matmul", "-", "-", "-"]
    assert lines[at + 2].split()[:5] == ["+", "scale", "-", "30.0", "27.0"]


def test_memsets_ceilings_and_caveats_stand_in_the_text_as_on_the_page(capsys):
    record = comparison(remarks=("A stage was not measured.",))
    launches = (Launch(name="Memset", kind="fill", us=1.0), Launch(name="k", kind="kernel", us=1.0))
    versions = tuple(v.model_copy(update={"launches": launches}) if v.kind is K.TUNED else v for v in record.versions)
    record = record.model_copy(update={"versions": versions})
    print_fusion(record)
    out = capsys.readouterr().out
    (tuned,) = (line for line in out.splitlines() if line.startswith(f"{K.TUNED.words} ") and "+" in line)
    assert "1 + 1 memset" in tuned
    assert f"{record.ceilings.copy_gbps:,.0f} GB/s" in out and f"{record.ceilings.matmul_tflops:,.0f} TFLOP/s" in out
    assert caveats(record)[-1] == "A stage was not measured."
    assert all(f"\nnote: {text}\n" in out for text in caveats(record))
    told = fusion_json(record)
    assert told["caveats"] == caveats(record)
    by_kind = {version["kind"]: version for version in told["versions"]}
    assert (by_kind["tuned"]["kernels"], by_kind["tuned"]["memsets"], by_kind["tuned"]["memcpys"]) == (1, 1, 0)


def test_that_memory_is_not_counted_evenly_is_said_where_torch_multiplies_matrices():
    uneven = [any("cuBLAS" in text for text in caveats(comparison(name))) for name in ("sdpa", "conv_bias_relu")]
    assert uneven == [True, False]
    torch_alone = comparison(hot=dict.fromkeys((K.UNFUSED, K.FIRST_PICK, K.TUNED)))
    assert not any("cuBLAS" in text for text in caveats(torch_alone))


def test_without_a_gpu_it_says_so(invoke, monkeypatch):
    monkeypatch.setattr("engine.machine.gpus.list_gpus", lambda: ())
    result = invoke("fusion", "matmul", "--json")
    assert result.exit_code == 1
    (field,) = json.loads(result.stdout)["error"]["fields"]
    assert field["rule"].startswith("A comparison measures, and this machine has no NVIDIA GPU")
    assert "--plan-only" in field["remedy"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["matmuls"], "pipeline"),
        (["matmul", "-p", "m=0"], "m"),
        (["matmul", "--preset", "slow"], "preset"),
        (["matmul", "--seed", "-1"], "seed"),
        (["matmul", "--plan-only", "--target", "h900"], "target"),
        (["matmul", "--plan-only", "--out", "/nowhere/at/all.json"], "--out"),
        (["matmul", "--plan-only", "--builders", "0"], "builders"),
    ],
)
def test_wrong_input_is_named(invoke, arguments, field):
    result = invoke("fusion", *arguments, "--json")
    assert result.exit_code == 2, result.output
    assert json.loads(result.stdout)["error"]["fields"][0]["field"] == field
