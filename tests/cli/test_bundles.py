"""`bundle export` and `bundle check` as people run them: real plans, no GPU."""

from __future__ import annotations

import json
import random
import zipfile

import pytest

from engine.bundles.reading import read_bundle
from engine.machine.gpus import list_gpus
from engine.runs.recordings import SHIPPED
from tests.bundles.mutations import mutant, packed, sealed, unpacked

pytestmark = pytest.mark.cudnn
without_gpu = pytest.mark.skipif(bool(list_gpus()), reason="says what it does without a GPU")


def answer(result, status=0):
    code = result.returncode if hasattr(result, "returncode") else result.exit_code
    assert code == status, (result.stdout, result.stderr)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def bundle_file(run_file, tmp_path_factory):
    """The two plans of a run that was planned here."""
    from typer.testing import CliRunner

    from engine.cli.app import app

    out = tmp_path_factory.mktemp("bundle") / "b.zip"
    done = CliRunner().invoke(app, ["bundle", "export", str(run_file), "--all", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def recorded_bundle(tmp_path_factory):
    """``recorded_bundle("sdpa")``: the winner of a recording, made by another cuDNN version than this one's."""
    from typer.testing import CliRunner

    from engine.cli.app import app

    folder = tmp_path_factory.mktemp("recorded")

    def make(name):
        out = folder / f"{name}.zip"
        run = SHIPPED / f"{name}.zip"
        done = CliRunner().invoke(app, ["bundle", "export", str(run), "--out", str(out)])
        assert done.exit_code == 0, done.output
        return out

    return make


def test_every_built_plan_of_a_pipeline_without_a_gpu(engine, tmp_path):
    out = tmp_path / "p.zip"
    graph = ("--pipeline", "matmul", "-p", "n=64", "--sizes", "m=64,128", "--modes", "FALLBACK", "--builders", 1)
    told = answer(engine("bundle", "export", *graph, "--target", "a100", "--out", out, "--json"))
    assert (told["measured"], told["target"]) == (False, "NVIDIA A100-SXM4-80GB")
    assert [graph["parameters"]["m"] for graph in told["graphs"]] == ["64", "128"]
    assert "first built plan that heuristics mode FALLBACK lists" in told["chosen"]
    bundle, blobs = read_bundle(out.read_bytes())
    assert [len(graph.plans) for graph in bundle.graphs] == [len(graph["plans"]) for graph in told["graphs"]]
    assert sum(len(graph.plans) for graph in bundle.graphs) == told["plans"] >= 2
    for graph in bundle.graphs:
        assert graph.plans[0].file.record.modes["FALLBACK"] == 0
        assert all(plan.file.recipe.plan_key for plan in graph.plans)
    assert "without a GPU" in bundle.manifest.label and len(blobs) == told["plans"]


def test_what_cudnn_refuses_gives_no_file(invoke, tmp_path):
    out = tmp_path / "p.zip"
    result = invoke("bundle", "export", "--pipeline", "sdpa", "-p", "d=100", "--out", out, "--target", "h200")
    assert result.exit_code == 1 and "error: " in result.stderr and not out.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Give either RUN or --pipeline"),
        (("SOME", "--pipeline", "matmul"), "Give either RUN or --pipeline"),
        (("SOME", "--target", "b200"), "--target = b200: a run has its graph and its GPU already."),
        (("SOME", "-p", "n=8", "--dtype", "fp16"), "-p = n=8: a run has its graph"),
        (("SOME", "--sizes", "n=8"), "plan anew with --pipeline"),
        (("--pipeline", "nonsense"), "no pipeline of this name"),
        (("--pipeline", "matmul", "--target", "nonsense"), "no target of this name"),
        (("--pipeline", "matmul", "-p", "n=0"), "n = 0"),
        (("--pipeline", "matmul", "--sizes", "n"), "LETTER=A,B,C"),
        (("--pipeline", "matmul", "--sizes", "n=8,,9"), "LETTER=A,B,C"),
        (("--pipeline", "matmul", "--sizes", "n=8,x"), "n = x"),
        (("--pipeline", "matmul", "-p", "n=8", "--sizes", "n=8"), "given twice"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(invoke, tmp_path, arguments, told):
    result = invoke("bundle", "export", *arguments, "--out", tmp_path / "b.zip")
    assert result.exit_code == 2 and told in result.stderr
    assert not (tmp_path / "b.zip").exists()


def test_without_trust_only_integrity_is_checked_and_it_says_so(engine, bundle_file):
    told = answer(engine("bundle", "check", bundle_file, "--json"))
    assert (told["trusted"], told["plans"], told["cudnn"], told["exit_status"]) == (False, [], None, 0)
    people = engine("bundle", "check", bundle_file)
    assert people.returncode == 0
    assert "Only its integrity was checked" in people.stdout and "not where it comes from" in people.stdout


@without_gpu
def test_a_bundle_of_this_cudnn_loads_and_rebuilds_and_nothing_was_run(engine, bundle_file):
    told = answer(engine("bundle", "check", bundle_file, "--trust", "--all", "--json"))
    assert (told["ran"], told["exit_status"], len(told["plans"])) == (False, 0, 2)
    assert all(plan["loading"]["ok"] and plan["rebuilding"]["ok"] for plan in told["plans"])
    assert [plan["is_default"] for plan in told["plans"]] == [True, False]
    people = engine("bundle", "check", bundle_file, "--trust")
    assert people.returncode == 0
    assert "Nothing was run: this machine has no GPU." in people.stdout
    assert "The serialized plan loads in" in people.stdout and "still builds this plan" in people.stdout


@without_gpu
@pytest.mark.parametrize(("name", "status"), [("conv_bias_relu", 1), ("sdpa", 2)])
def test_a_bundle_of_another_cudnn_is_only_good_by_its_recipe_if_that(engine, recorded_bundle, name, status):
    file = recorded_bundle(name)
    told = answer(engine("bundle", "check", file, "--trust", "--json"), status)
    (plan,) = told["plans"]
    assert not plan["loading"]["ok"] and "cuDNN 9.19.0 serialized it" in plan["loading"]["message"]
    assert plan["rebuilding"]["ok"] is (status == 1) and plan["running"] is None
    assert told["made_by"] == "9.19.0" != told["cudnn"]


@without_gpu
def test_a_plan_changed_inside_with_checksums_to_fit_does_not_pass_as_fine(engine, bundle_file, tmp_path):
    """Whoever seals a bundle anew can make its checksums fit: integrity is no proof of origin. What it says of its
    plans has to agree all the same."""
    members = unpacked(bundle_file.read_bytes())
    plan = json.loads(members["plan-1.json"])
    plan["recipe"]["plan_name"] = plan["record"]["plan_name"] = "eng999"
    manifest = json.loads(members["manifest.json"])
    manifest["plans"][0]["plan_name"] = "eng999"
    changed = {"plan-1.json": json.dumps(plan).encode(), "manifest.json": json.dumps(manifest).encode()}
    file = tmp_path / "changed.zip"
    file.write_bytes(packed(sealed({**members, **changed})))
    told = answer(engine("bundle", "check", file, "--trust", "--json"), 1)
    assert not told["plans"][0]["rebuilding"]["ok"]


@pytest.mark.parametrize("trust", [(), ("--trust",)])
def test_what_is_no_bundle_is_refused_with_a_reason(invoke, tmp_path, trust):
    files = {
        "empty.zip": (b"", "not a zip"),
        "run.zip": (min(SHIPPED.glob("*.zip")).read_bytes(), "no bundle of a plan"),
        "large.zip": (bytes((64 << 20) + 1), "at most 67,108,864 bytes"),
    }
    for name, (data, reason) in files.items():
        (tmp_path / name).write_bytes(data)
        result = invoke("bundle", "check", tmp_path / name, *trust)
        assert result.exit_code == 2 and reason in result.stderr, result.stderr
        assert "Refused: nothing of it was given to cuDNN." in result.stdout


def test_a_bundle_that_cannot_be_read_is_told_in_words(invoke, tmp_path):
    (tmp_path / "loop.zip").symlink_to(tmp_path / "loop.zip")
    for name, reason in (("none.zip", "No such file"), (".", "Is a directory"), ("loop.zip", "Too many levels")):
        result = invoke("bundle", "check", tmp_path / name)
        assert result.exit_code == 2 and f"the file cannot be read ({reason}" in result.stderr, result.stderr
        assert "Errno" not in result.stderr


def test_mutants_never_pass_where_anything_in_them_changed(invoke, bundle_file, tmp_path):
    """Nothing of them is to crash the command either: it ends with a status of its own."""
    whole, rng = bundle_file.read_bytes(), random.Random(5)
    members = unpacked(whole)
    for number in range(COUNT):
        kind, data = mutant(whole, members, rng)
        file = tmp_path / f"{number}.zip"
        file.write_bytes(data)
        result = invoke("bundle", "check", file, "--trust")
        if result.exit_code == 0:
            assert unpacked(data) == members, kind
        else:
            assert result.exit_code == 2 and "error: " in result.stderr, (kind, result.stderr)
        assert "Traceback" not in result.stderr


COUNT = 12
"""Each is opened by a process of its own; 10,000 go through the reader alone (tests/bundles/test_reading.py)."""


def test_a_bundle_says_in_its_name_and_text_what_a_terminal_would_obey(invoke, bundle_file, tmp_path):
    members = unpacked(bundle_file.read_bytes())
    manifest = json.loads(members["manifest.json"])
    manifest["label"] = "\x1b[2J\x07\x9b"
    file = tmp_path / "b.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in sealed({**members, "manifest.json": json.dumps(manifest).encode()}).items():
            archive.writestr(name, content)
    result = invoke("bundle", "check", file)
    assert result.exit_code == 0
    assert result.output.replace("\n", "").isprintable()
