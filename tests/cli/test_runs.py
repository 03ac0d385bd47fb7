"""`runs`, `bundle`, `pipelines` and `env`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.bundles import load_plan as loader
from engine.cli.runs import print_run
from engine.cli.tables import number
from engine.graph.pipelines import CATALOGUE
from engine.records.verdict import verdict
from engine.runs.recordings import Recordings

ROOT = Path(__file__).resolve().parents[2]


def answer(result, status=0):
    code = result.returncode if hasattr(result, "returncode") else result.exit_code
    assert code == status, result.stderr
    return json.loads(result.stdout)


@pytest.mark.cudnn
def test_a_run_moves_between_machines(invoke, run_file, tmp_path):
    imported = answer(invoke("runs", "import", run_file, "--json"))
    assert imported["already"] is False
    assert answer(invoke("runs", "import", run_file, "--json")) == {**imported, "already": True}
    listed = {run["id"]: run for run in answer(invoke("runs", "list", "--json"))["runs"]}
    run = listed[imported["id"]]
    assert set(run) >= {"id", "pipeline", "parameters", "gpu", "cudnn", "recorded", "started_at"}
    assert (run["pipeline"], run["recorded"], run["kind"]) == ("matmul", False, "plan")
    again = answer(invoke("runs", "export", imported["id"][:10], "--out", tmp_path / "again.zip", "--json"))
    assert (tmp_path / "again.zip").read_bytes() == run_file.read_bytes()
    assert again["id"] == imported["id"]


@pytest.mark.cudnn
def test_show_by_id_by_its_beginning_and_by_file(invoke, run_file):
    run_id = answer(invoke("runs", "import", run_file, "--json"))["id"]
    shown = [answer(invoke("runs", "show", name, "--json")) for name in (run_id, run_id[:8].upper(), run_file)]
    assert shown[0] == shown[1] == shown[2]
    assert len(shown[0]["plans"]) == 2 and shown[0]["best"] is None
    people = invoke("runs", "show", run_id)
    assert people.exit_code == 0
    assert "planned for  NVIDIA H200 (read off a device)" in people.stdout


@pytest.mark.cudnn
def test_a_recording_is_never_shown_as_this_machines(invoke, tmp_path):
    recording = next(run for run in json.loads(invoke("runs", "list", "--json").stdout)["runs"] if run["recorded"])
    shown = json.loads(invoke("runs", "show", recording["id"], "--json").stdout)
    assert (shown["origin"], shown["recorded"]) == ("recording", True)
    assert shown["target"]["source"] == "the GPU itself"
    assert "recorded on  NVIDIA H200" in invoke("runs", "show", recording["id"]).stdout
    file = tmp_path / "run.zip"
    invoke("runs", "export", recording["id"], "--out", file)
    assert "imported, measured on  NVIDIA H200" in invoke("runs", "show", file).stdout


def test_a_few_samples_have_no_interval(capsys):
    found = Recordings()
    measured = (found.get(summary.id) for summary in found.summaries() if summary.measured)
    run = next(run for run in measured if any(plan.timings.hot.count == 1 for plan in run.timed()))
    judged = verdict(run).intervals
    print_run(run)
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("eng")}
    for plan in run.timed():
        own = judged[plan.key]
        assert (f"{number(own.low)}-{number(own.high)}" in lines[plan.plan_name]) == (own.samples >= 6)


def test_a_workspace_that_is_not_known_is_no_workspace_of_zero(capsys):
    recordings = Recordings()
    recorded = next(one for one in recordings.summaries() if one.pipeline == "matmul" and one.measured)
    run = recordings.get(recorded.id)
    unknown = tuple(plan.model_copy(update={"workspace_bytes": None}) for plan in run.plans)
    print_run(run.model_copy(update={"plans": unknown}))
    header, *lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("plan ", "eng"))]
    end = header.index("workspace_bytes") + len("workspace_bytes")
    assert lines and all(line[:end].split()[-1] == "-" for line in lines)


def test_text_of_a_foreign_run_file_does_nothing_to_the_terminal(invoke, run_file, tmp_path):
    file = tmp_path / "run.zip"
    harmful = "\x1b[2J\x07\x9b"
    with zipfile.ZipFile(run_file) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "SHA256SUMS"}
    run = json.loads(members["run.json"])
    run |= {"title": harmful, "message": harmful}
    run["environment"] |= {"torch": harmful}
    run["plans"][0] |= {"plan_name": harmful, "message": harmful}
    members["run.json"] = json.dumps(run).encode()
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(members.items()))
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {"SHA256SUMS": sums.encode(), **members}.items():
            archive.writestr(name, data)
    for command in (("runs", "show", file), ("runs", "import", file), ("runs", "list")):
        result = invoke(*command)
        assert result.exit_code == 0, result.output
        assert result.output.replace("\n", "").isprintable()
    result = invoke("bundle", "export", file, "--out", tmp_path / "bundle.zip")
    assert result.output.replace("\n", "").isprintable()


def test_listing_by_pipeline_and_for_people(invoke, run_file):
    answer(invoke("runs", "import", run_file, "--json"))
    others = answer(invoke("runs", "list", "--pipeline", "sdpa", "--json"))["runs"]
    assert all(run["pipeline"] == "sdpa" for run in others)
    people = invoke("runs", "list").stdout.splitlines()
    assert people[0].split()[:4] == ["run", "pipeline", "shape", "gpu"]
    assert any("imported" in line and "matmul" in line for line in people)
    studies = [run["id"][:12] for run in answer(invoke("runs", "list", "--json"))["runs"] if run["reuse"]]
    assert studies == [line.split()[0] for line in people if "done, a study of reuse" in line]


@pytest.mark.cudnn
def test_a_bundle_of_a_run_without_timings_takes_the_first_built_plan_and_says_so(invoke, run_file, tmp_path):
    told = answer(invoke("bundle", "export", run_file, "--out", tmp_path / "b.zip", "--json"))
    assert told["measured"] is False and "nothing was measured" in told["chosen"]
    members = loader.read_members(tmp_path / "b.zip")
    assert json.loads(members["plan-1.json"])["recipe"]["plan_key"] == told["plan"]
    run = answer(invoke("runs", "show", run_file, "--json"))
    assert told["plan"] == run["plans"][0]["key"]
    people = invoke("bundle", "export", run_file, "--out", tmp_path / "b.zip")
    assert f"cuDNN {told['cudnn']}; in another version it is built anew" in people.stdout


@pytest.mark.cudnn
def test_a_bundle_of_a_chosen_plan_by_key_or_name(invoke, run_file, tmp_path):
    second = answer(invoke("runs", "show", run_file, "--json"))["plans"][1]
    run_id = answer(invoke("runs", "import", run_file, "--json"))["id"]
    for run, plan in ((run_id, second["key"]), (run_file, second["plan_name"])):
        told = answer(invoke("bundle", "export", run, "--plan", plan, "--out", tmp_path / "b.zip", "--json"))
        assert told["plan"] == second["key"]


@pytest.mark.cudnn
def test_writing_over_a_file_is_all_or_nothing_and_keeps_no_litter(invoke, run_file, tmp_path):
    out = tmp_path / "b.zip"
    out.write_text("before")
    answer(invoke("bundle", "export", run_file, "--out", out, "--json"))
    first = out.read_bytes()
    answer(invoke("bundle", "export", run_file, "--out", out, "--json"))
    assert out.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir() if file.name not in ("home", "b.zip")] == []
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_pipelines_describe_every_parameter(engine):
    described = {p["name"]: p for p in answer(engine("pipelines", "--json"))["pipelines"]}
    assert list(described) == list(CATALOGUE)
    for name, pipeline in CATALOGUE.items():
        assert [f["letter"] for f in described[name]["parameters"]] == [f.letter for f in pipeline.fields()]
    causal = next(f for f in described["sdpa"]["parameters"] if f["letter"] == "causal")
    assert (causal["kind"], causal["default"]) == ("bool", True)
    people = engine("pipelines")
    assert people.returncode == 0 and "matmul_epilogue: " in people.stdout


def test_pipelines_start_at_once():
    """Processor time, which other work on the machine does not change much; and no library that is not needed."""
    code = (
        "import sys, resource\n"
        "from engine.cli.app import app\n"
        "app(['pipelines', '--json'], standalone_mode=False)\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "heavy = {'torch', 'cudnn', 'sqlalchemy', 'numpy', 'pandas', 'rich'} & set(sys.modules)\n"
        "print(used.ru_utime + used.ru_stime, sorted(heavy), file=sys.stderr)\n"
    )
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        seconds, heavy = done.stderr.split(None, 1)
        assert heavy.strip() == "[]"
        times.append(float(seconds))
    assert min(times) < 0.6


@pytest.mark.cudnn
def test_env_tells_versions_that_a_process_of_its_own_has_loaded(engine, home):
    told = answer(engine("env", "--json"))
    assert told["cudnn"]["backend"] and told["cudnn"]["frontend"]
    libraries = {library["name"]: library for library in told["libraries"]}
    assert {"libcuda", "libcudnn", "libnvrtc", "libcublasLt"} <= set(libraries)
    assert {"h200", "a100", "b200", "l4", "rtx5090"} == {target["name"] for target in told["targets"]}
    assert told["data_folder"] == {"path": str(home), "problem": None}
    people = engine("env")
    assert people.returncode == 0
    assert f"cuDNN     {told['cudnn']['backend']}" in people.stdout


def test_no_subcommand_and_help(engine):
    bare = engine()
    assert bare.returncode == 2 and "Usage:" in bare.stderr
    helped = engine("plan", "--help")
    assert helped.returncode == 0
    for option in ("--parameter", "--dtype", "--layout", "--target", "--modes", "--no-build", "--out", "--json"):
        assert option in helped.stdout


def test_a_reader_that_leaves_early_is_no_error(home):
    command = f"{sys.executable} -m engine pipelines --json | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "{\n" and done.stderr == ""
