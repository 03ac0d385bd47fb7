"""Everything wrong that a person can type: it names the field, the value, the rule and what to change."""

from __future__ import annotations

import json
import random
import string
import sys
import zipfile

import pytest

from engine.cli.output import print_table
from engine.jobs.planning import PlanOutcome
from engine.records.run import Refusal


def complaint(result, status=2):
    """The fields that a command with --json complained about."""
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    error = json.loads(result.stdout)["error"]
    assert error["message"] and error["fields"]
    for entry in error["fields"]:
        assert set(entry) == {"field", "value", "rule", "remedy"}
        assert entry["rule"]
    return error["fields"]


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["matmul", "-p", "m=0"], "m", "0"),
        (["matmul", "-p", "m=-1"], "m", "-1"),
        (["matmul", "-p", f"m={2**31}"], "m", str(2**31)),
        (["matmul", "-p", "m=abc"], "m", "abc"),
        (["matmul", "-p", "m=1.5"], "m", "1.5"),
        (["matmul", "-p", "m="], "m", ""),
        (["matmul", "-p", "z=1"], "z", "1"),
        (["matmul", "-p", "m"], "-p", "m"),
        (["matmul", "-p", "=5"], "-p", "=5"),
        (["matmul", "-p", "m=1", "-p", "m=2"], "m", "2"),
        (["matmul", "-p", "dtype=fp16", "--dtype", "bf16"], "dtype", "bf16"),
        (["matmul", "--dtype", "int4"], "dtype", "int4"),
        (["matmul", "--layout", "nhwc"], "layout", "nhwc"),
        (["conv_relu", "--layout", "chwn"], "layout", "chwn"),
        (["conv_relu", "-p", "h=1", "-p", "pad=0"], None, None),
        (["sdpa", "-p", "hkv=3"], "hkv", "3"),
        (["sdpa", "-p", "causal=perhaps"], "causal", "perhaps"),
        (["sdpa", "-p", "scale=nan"], "scale", "nan"),
        (["matmul_epilogue", "-p", "activation=tan"], "activation", "tan"),
        (["matmuls"], "pipeline", "matmuls"),
        (["matmul", "--target", "h900"], "target", "h900"),
        (["matmul", "--target", ""], "target", ""),
        (["matmul", "--target", "a" * 5000], "target", None),
        (["matmul", "--target", "a" * 5000 + ".json"], "target", None),
        (["matmul", "--target", "a\0b.json"], "target", None),
        (["matmul", "--modes", "A,Z"], "modes", "A,Z"),
        (["matmul", "--modes", ""], "modes", ""),
        (["matmul", "--builders", "0"], "builders", "0"),
        (["matmul", "--builders", "some"], "--builders", None),
        (["matmul", "-p", "b=1048576", "-p", "m=65536", "--target", "l4"], None, None),
        (["matmul", "--what"], "--what", None),
        (["matmul", "more"], None, None),
        ([], None, None),
    ],
)
def test_plan_arguments(invoke, arguments, field, value):
    fields = complaint(invoke("plan", *arguments, "--json"))
    if field is not None:
        assert fields[0]["field"] == field
    if value is not None:
        assert fields[0]["value"] == value


def test_every_wrong_field_is_named_at_once_and_in_words(engine):
    done = engine("plan", "matmul", "-p", "b=0", "-p", "m=-1", "-p", f"n={2**31}", "-p", "k=abc")
    assert (done.returncode, done.stdout) == (2, "")
    for told in ("b = 0", "m = -1", "n = 2147483648", "k = abc", "a whole number from 1 to 1,048,576"):
        assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_too_much_memory_names_a_letter_that_helps(invoke):
    (entry,) = complaint(invoke("plan", "sdpa", "-p", "b=200000", "--target", "h200", "--json"))
    assert entry["field"] == "b" and "NVIDIA H200 has" in entry["rule"] and "fits" in entry["remedy"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON (see line 1, column 1)"),
        (b'{"deviceName":\n  5,', "is not JSON (see line 2, column"),
        (b"{", "is not JSON (see line 1, column 2)"),
        (b"\xff\xfe", "is not JSON (byte 0 is no UTF-8 text)"),
        (b" " * 100_000, "at most"),
        (b"[]", "must hold one JSON object"),
        (b"null", "must hold one JSON object"),
        (b"{}\xff", "is not JSON (byte 2 is no UTF-8 text)"),
        (b'{"deviceName": 5}', "valid string"),
        (b"[" * 100_000, "at most"),
        (b"[" * 30_000, "is not JSON (nested too deep)"),
        (b"1" * 5_000, "is not JSON (a number in it is too long)"),
    ],
)
def test_broken_properties_files(invoke, tmp_path, content, said):
    file = tmp_path / "broken.json"
    file.write_bytes(content)
    assert said in complaint(invoke("plan", "matmul", "--target", file, "--json"))[0]["rule"]


def test_a_cell_that_nobody_could_read_is_cut(capsys):
    print_table(["plan"], [["x" * 5_000]])
    assert max(map(len, capsys.readouterr().out.splitlines())) == 160


def test_a_properties_file_that_lacks_a_key_names_it(invoke, tmp_path):
    file = tmp_path / "short.json"
    file.write_text('{"deviceName": "X"}')
    assert complaint(invoke("plan", "matmul", "--target", file, "--json"))[0]["field"] == "deviceVer"


def test_files_that_cannot_be_read_or_written(invoke, tmp_path):
    (tmp_path / "folder.json").mkdir()
    plan = ("plan", "matmul", "--json")
    for target in (tmp_path / "missing.json", tmp_path / "folder.json"):
        assert complaint(invoke(*plan, "--target", target))[0]["field"] == "target"
    (tmp_path / "nowhere").symlink_to(tmp_path / "no" / "such.zip")
    for out in (tmp_path, tmp_path / "no" / "such" / "folder.zip", tmp_path / "nowhere", "/proc/version", "x\0y", ""):
        assert complaint(invoke(*plan, "--out", out))[0]["field"] == "--out"


def test_run_files_that_cannot_be_read(invoke, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.runs.archive_reading.MAX_FILE_BYTES", 10)
    (tmp_path / "large.zip").write_bytes(b"x" * 11)
    for name, words in (("none.zip", "No such file"), (".", "Is a directory"), ("large.zip", "larger than 10 bytes")):
        (field,) = complaint(invoke("runs", "show", f"{tmp_path}/{name}", "--json"))
        assert field["field"] == "run file" and words in field["rule"]


def test_sweep_looks_at_its_arguments_before_it_asks_for_a_gpu(invoke, monkeypatch):
    monkeypatch.setattr("engine.machine.gpus.list_gpus", lambda: ())
    assert complaint(invoke("sweep", "matmul", "-p", "m=0", "--json"))[0]["field"] == "m"
    assert complaint(invoke("sweep", "matmul", "--seed", "-1", "--json"))[0]["field"] == "seed"
    for option, value in (
        ("preset", "hasty"),
        ("data", "zeros"),
        ("score-shift", "nan"),
        ("score-shift", "1e9"),
        ("workspace-limit", "64X"),
        ("workspace-limit", "-1"),
        ("workspace-limit", "9999999999G"),
        ("workspace-limit", ""),
    ):
        (entry,) = complaint(invoke("sweep", "matmul", f"--{option}={value}", "--json"))
        assert entry["field"] == option and entry["remedy"], (option, value)
    assert complaint(invoke("sweep", "matmul", "--score-shift=-40", "--json"))[0]["field"] == "score_shift"
    (entry,) = complaint(invoke("sweep", "matmul", "--json"), status=1)
    assert "no NVIDIA GPU" in entry["rule"] and "plan" in entry["remedy"]
    complaint(invoke("env", "--properties", "x.json", "--json"), status=1)
    (entry,) = complaint(invoke("env", "--gpu", "local:7", "--json"))
    assert entry["field"] == "--gpu" and "--properties" in entry["remedy"]


@pytest.mark.parametrize(
    "command", [("runs", "show"), ("runs", "export", "--out", "x.zip"), ("bundle", "export", "--out", "x.zip")]
)
def test_runs_that_do_not_exist(invoke, command):
    for name in ("0" * 32, "abcdef", "zz", "", "../../etc/passwd", "no.zip", "☃", "a\0b", "a" * 5000):
        complaint(invoke(*command, name, "--json"))


@pytest.mark.cudnn
def test_corrupt_run_files(invoke, run_file, tmp_path):
    whole = run_file.read_bytes()
    rng = random.Random(11)
    flipped = bytearray(whole)
    flipped[rng.randrange(200, len(whole) // 2)] ^= 0xFF
    texts = {"empty": b"", "text": b"hello", "half": whole[: len(whole) // 2], "flipped": bytes(flipped)}
    for name, data in texts.items():
        file = tmp_path / f"{name}.zip"
        file.write_bytes(data)
        for command in (("runs", "import"), ("runs", "show"), ("bundle", "export", "--out", tmp_path / "out.zip")):
            (field,) = complaint(invoke(*command, file, "--json"))
            assert (field["field"], field["value"]) == ("run file", str(file))
    assert not (tmp_path / "out.zip").exists()
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("run.json", "{}")
    complaint(invoke("runs", "import", tmp_path / "other.zip", "--json"))
    complaint(invoke("runs", "import", tmp_path, "--json"))
    assert json.loads(invoke("runs", "list", "--json").stdout)["runs"] == [
        run for run in json.loads(invoke("runs", "list", "--json").stdout)["runs"] if run["recorded"]
    ], "nothing of it was kept"


@pytest.mark.cudnn
def test_plans_that_a_run_does_not_have(invoke, run_file, tmp_path):
    (entry,) = complaint(
        invoke("bundle", "export", run_file, "--plan", "99;X=1", "--out", tmp_path / "b.zip", "--json")
    )
    assert (entry["field"], entry["value"]) == ("--plan", "99;X=1")
    assert not (tmp_path / "b.zip").exists()


def test_an_unusable_data_folder_leaves_recordings_and_names_the_variable(engine, tmp_path):
    (tmp_path / "file").write_text("")
    listed = engine("runs", "list", "--json", PLANSCOPE_HOME=str(tmp_path / "file"))
    assert listed.returncode == 0
    assert all(run["recorded"] for run in json.loads(listed.stdout)["runs"])
    assert "PLANSCOPE_HOME" in listed.stderr
    missed = engine("runs", "show", "0" * 32, "--json", PLANSCOPE_HOME=str(tmp_path / "file"))
    assert missed.returncode == 2, "nobody knows whether there is such a run"
    assert "runs of your own cannot be read" in json.loads(missed.stdout)["error"]["message"]
    shown = engine("env", "--json", PLANSCOPE_HOME=str(tmp_path / "file"))
    assert shown.returncode == 0
    assert "PLANSCOPE_HOME" in json.loads(shown.stdout)["data_folder"]["problem"]


def test_nonsense_never_ends_in_a_traceback(invoke, monkeypatch):
    """150 seeded command lines; cuDNN's part is left out, for it is the arguments that are looked at."""

    def refuse(*_, **__):
        return PlanOutcome(None, (), Refusal(message="no"), False, ())

    monkeypatch.setattr("engine.jobs.planning.plan_graph", refuse)
    rng = random.Random(3)
    numbers = ["0", "1", "8", "64", "-5", "1e3", "1_000", "٣", "0x10", " 7 ", str(2**31), str(2**63), "9" * 400, "nan"]
    words = [
        "",
        "on",
        "off",
        "bf16",
        "relu",
        "h200",
        "local",
        "A",
        "A,,B",
        "=",
        "==",
        "\n",
        "--",
        "-",
        "💥",
        "'\"",
        "%s{}",
    ]
    letters = [*"bmnkchwrsdz", "hq", "hkv", "sq", "skv", "pad", "stride", "causal", "alpha", "amax", "scale", "layout"]
    pipelines = ["matmul", "conv_relu", "sdpa", "matmul_epilogue", "conv_bias_relu", "nope", ""]
    seen = set()
    for _ in range(150):
        arguments = ["plan", rng.choice(pipelines)]
        for _ in range(rng.randrange(4)):
            value = rng.choice([*numbers, *words, "".join(rng.choices(string.printable, k=rng.randrange(9)))])
            arguments += rng.choice(
                [["-p", f"{rng.choice(letters)}={value}"]] * 4
                + [["--dtype", value], ["--layout", value], ["--modes", value], ["--target", value], [value]]
            )
        result = invoke(*arguments, "--json")
        assert result.exit_code in (0, 1, 2), arguments
        if result.exit_code:
            json.loads(result.stdout)
        seen.add(result.exit_code)
    assert seen >= {1, 2}


def test_a_link_to_itself_is_told_or_replaced(invoke, tmp_path):
    (tmp_path / "loop.zip").symlink_to(tmp_path / "loop.zip")
    run = json.loads(invoke("runs", "list", "--json").stdout)["runs"][0]["id"]
    done = invoke("runs", "export", run, "--out", tmp_path / "loop.zip")
    assert done.exit_code == (0 if sys.version_info >= (3, 13) else 2), done.output
