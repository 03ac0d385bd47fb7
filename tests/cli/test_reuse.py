"""`reuse` as people run it, without a GPU."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from engine.cli.reuse_output import print_reuse
from engine.jobs.protocol import JobError
from engine.machine.gpus import list_gpus
from engine.records.reuse import Reuse, Way
from engine.runs.archive_reading import read_run_file
from engine.runs.recordings import SHIPPED

pytestmark = [pytest.mark.cudnn, pytest.mark.skipif(bool(list_gpus()), reason="says what it does without a GPU")]
SMALL = ("conv_relu", "-p", "c=16", "-p", "k=16", "-p", "h=8", "-p", "w=8", "--modes", "FALLBACK", "--target", "h200")

SIZED = (*SMALL, "--plans", "2", "--repeats", "1", "--sizes", "n=8,16", "--no-matrix")


@pytest.mark.slow
def test_a_study_for_programs_and_as_a_run_file(studied, invoke, monkeypatch):
    told = json.loads(studied.told)
    cost, _ = told["reuse"]["costs"]
    assert (told["reuse"]["on_gpu"], cost["message"], cost["execute_load_ms"]) == (False, None, None)
    assert cost["load_speedup"] == cost["cold_ms"]["values_ms"][0] / cost["load_ms"]["values_ms"][0]
    assert told["sentences"][-1].startswith("Built and loaded without a GPU")
    shapes = told["reuse"]["shapes"]
    assert [[size["size"] for size in series["sizes"]] for series in shapes["series"]] == [[8, 16]] * len(Way)
    assert len(shapes["matrix"]) == 4
    run = read_run_file(studied.file.read_bytes()).run
    assert run.id == told["run_id"] and run.reuse.costs[0].key == cost["key"]
    monkeypatch.setenv("PLANSCOPE_HOME", str(studied.home))
    kept = json.loads(invoke("runs", "list", "--json").stdout)["runs"]
    assert [one["reuse"] for one in kept if one["id"] == run.id] == [True]
    assert json.loads(invoke("runs", "import", studied.file, "--json").stdout) == {
        "id": run.id, "already": True, "original_id": None,
    }  # fmt: skip


def test_a_study_for_people_with_sizes(studied, invoke, monkeypatch):
    """Of the study that was done before."""
    file = read_run_file(studied.file.read_bytes())

    def study(asked, folder, *_):
        assert (list(asked.shapes), asked.letter, asked.matrix, asked.plans, asked.repeats) == (
            [8, 16],
            "n",
            False,
            2,
            1,
        )
        for sha256, blob in file.blobs.items():
            (folder / sha256).write_bytes(blob)
        return file.run, SimpleNamespace(remarks=("a word",))

    monkeypatch.setattr("engine.jobs.studying.study", study)
    done = invoke("reuse", *SIZED)
    assert done.exit_code == 0, done.stderr
    assert "without a GPU: nothing was executed" in done.stdout and "note: a word" in done.stderr
    assert "kernel cache" in done.stdout and "does not support override shape" in done.stdout
    assert "n=8" in done.stdout and "n=16" in done.stdout


def test_a_study_of_a_gpu_tells_first_executions_and_cuda_graphs(capsys):
    (file,) = (SHIPPED / "reuse").glob("matmul.zip")
    print_reuse(read_run_file(file.read_bytes()).run.reuse)
    lines = capsys.readouterr().out.splitlines()
    costs, graphs = (next(i for i, line in enumerate(lines) if word in line) for word in ("cold build", "replay us"))
    assert all(f"first run, {after}" in lines[costs] for after in ("built", "warm", "loaded"))
    assert lines[costs + 1].split()[-4:] == ["3.366", "3.236", "0.2066", "-"]
    assert lines[graphs + 1].split()[:4] == ["eng0_k24=0", "yes", "no", "-"]
    assert lines[graphs].split()[-3:] == ["new", "data", "reason"] and "does not take native calls" in lines[graphs + 1]
    assert "20.17" in lines[graphs + 1] and "3.387 in 100" in lines[graphs + 1] and "16.8" in lines[graphs + 1]


def test_a_study_of_a_gpu_tells_listing_beside_building_and_plans_at_other_sizes(capsys):
    print_reuse(read_run_file((SHIPPED / "reuse" / "matmul_epilogue.zip").read_bytes()).run.reuse)
    lines = capsys.readouterr().out.splitlines()
    sizes, matrix = (next(i for i, line in enumerate(lines) if word in line) for word in ("list ms", "tuned at"))
    assert lines[sizes + 1].split()[:7] == ["n=8", "static", "eng7_k24=41", "eng7_k24=35", "9", "19.23", "305.8"]
    assert lines[matrix + 1].split() == ["n=8", "eng7_k24=35", "1.00x", "0.987x", "1.09x", "1.18x", "1.65x"]


@pytest.mark.parametrize("times", [(1,), (1, 2)])
def test_one_repetition_is_no_median(times, capsys):
    print_reuse(Reuse(on_gpu=False, repeats=len(times), costs=()))
    assert ("One fresh process each" in capsys.readouterr().out) is (len(times) == 1)


def test_spaces_around_a_letter_are_no_part_of_it(studied, invoke, monkeypatch):
    run, asked = read_run_file(studied.file.read_bytes()).run, []

    def study(wanted, *_):
        asked.append(wanted)
        raise JobError("enough")

    monkeypatch.setattr("engine.jobs.studying.study", study)
    assert invoke("reuse", run.pipeline, "--target", "h200", "--sizes", " n = 8, 16").exit_code == 1
    assert (asked[0].letter, list(asked[0].shapes)) == ("n", [8, 16])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nonsense",), "no pipeline of this name"),
        (("matmul", "--repeats", "0"), "from 1 to 50"),
        (("matmul", "--plans", "0"), "from 1"),
        (("matmul", "--sizes", "n=8,x"), "sizes = x"),
        (("matmul", "--sizes", "nonsense"), "LETTER=A,B,C"),
        (("matmul", "--sizes", "zz=8"), "no size of this letter"),
        (("matmul", "--sizes", "dtype=bf16"), "no size of this letter"),
        (("matmul", "--target", "nowhere"), "no target of this name"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(invoke, arguments, told):
    result = invoke("reuse", *arguments)
    assert result.exit_code == 2 and told in result.stderr


def test_a_graph_that_cudnn_refuses_is_no_study(invoke):
    result = invoke("reuse", "sdpa", "-p", "d=100", "--target", "h200", "--modes", "A")
    assert result.exit_code == 1 and "error: " in result.stderr
