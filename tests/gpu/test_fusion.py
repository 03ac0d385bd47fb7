"""On a real GPU: every version of every pipeline right and timed, launches counted, and the command's record whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.graph.cutting import cut
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.jobs.fusion import FusionRequest, run_fusion
from engine.jobs.pool import BuilderPool
from engine.records.attribution import steps
from engine.records.fusion import FusionRecord, VersionKind
from engine.records.fusion_sentences import sentences
from engine.records.options import Preset

pytestmark = [pytest.mark.gpu, pytest.mark.process]
ROOT = Path(__file__).resolve().parents[2]
K = VersionKind
MAY_DECLINE = (K.FLASH, K.EFFICIENT, K.CUDNN, K.MATH)
"""torch's backends say themselves what they do not take."""

GRAPHS = {
    **{name: (name, {}) for name in CATALOGUE},
    "epilogue, relu, small": ("matmul_epilogue", {"activation": "relu", "b": 1, "m": 128, "n": 128, "k": 128}),
    "epilogue, fp32": ("matmul_epilogue", {"dtype": "fp32", "b": 4, "m": 256, "n": 256, "k": 512}),
    "conv, nchw": ("conv_bias_relu", {"layout": "nchw", "n": 4}),
    "attention, grouped, full": ("sdpa", {"hkv": 4, "causal": "off", "sq": 512, "skv": 512}),
    "attention, fp16, one head for all": ("sdpa", {"dtype": "fp16", "hkv": 1, "b": 2, "sq": 256, "skv": 384}),
}


@pytest.fixture(scope="module")
def compared(target, tmp_path_factory):
    """The whole comparison of a graph, once."""
    folder, known = tmp_path_factory.mktemp("fusion"), {}
    with BuilderPool.for_target(target, compute_cache=True) as pool:

        def make(graph):
            if graph not in known:
                name, parameters = GRAPHS[graph]
                chosen = pipeline(name)
                texts = chosen.texts(chosen.parse(parameters))
                request = FusionRequest(name, texts, chosen.graph(parameters), target, preset=Preset.QUICK)
                known[graph] = run_fusion(request, pool=pool, blob_dir=folder, cancel=threading.Event())
            return known[graph]

        yield make


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_version_is_right_and_timed(graph, compared):
    record = compared(graph)
    for version in record.versions:
        if version.kind in MAY_DECLINE and version.timings is None:
            assert version.message
            continue
        assert version.timings is not None, (version.kind, version.message)
        assert version.timings.hot.count >= 100 and version.timings.cold and version.timings.host
        assert all(output.passed for output in version.accuracy)
        assert version.memory_bytes is not None and version.memory_bytes > 0
    assert FusionRecord.model_validate_json(record.model_dump_json()) == record
    assert sentences(record) and (len(record.graph.operations) == 1 or steps(record))


@pytest.mark.parametrize("graph", GRAPHS)
def test_launches_are_counted(graph, compared):
    record = compared(graph)
    made = cut(record.graph)
    for version in record.versions:
        if version.timings is not None:
            assert version.kernels is not None and version.kernels >= 1, version.kind
    eager, unfused = record.version(K.EAGER), record.version(K.UNFUSED)
    assert eager.kernels >= len(made.pieces) and unfused.kernels >= len(made.pieces)
    for kind in (K.FIRST_PICK, K.TUNED):
        assert record.version(kind).kernels <= unfused.kernels
    if len(made.pieces) > 1:
        assert record.version(K.TUNED).kernels < unfused.kernels


def test_pieces_and_ceilings_are_measured_in_the_same_run(compared):
    record = compared("matmul_epilogue")
    assert [piece.runs_on for piece in record.pieces] == ["cudnn", "cudnn", "cudnn", "cudnn", "torch"]
    assert all(piece.hot is not None for piece in record.pieces)
    together = sum(piece.hot.median_us for piece in record.pieces)
    assert record.timed(K.UNFUSED).hot.median_us == pytest.approx(together, rel=0.5)
    ceilings = record.ceilings
    assert 50 < ceilings.copy_gbps < 20_000 and 20 < ceilings.matmul_tflops < 5_000
    assert 0.3 < ceilings.launch_us.median_us < 20
    assert record.version(K.COMPILED).compile_s > 0 and record.version(K.EAGER).compile_s is None
    for stage in record.growth:
        assert all(version.timings for version in stage.versions), stage.added
    assert record.growth[-1].version(K.TUNED).timings == record.timed(K.TUNED)


def test_the_heuristics_first_pick_is_never_faster_than_the_tuned_plan_by_much(compared):
    for graph in ("conv_bias_relu", "matmul_epilogue", "sdpa"):
        record = compared(graph)
        first, tuned = record.timed(K.FIRST_PICK), record.timed(K.TUNED)
        assert tuned.hot.median_us < 1.05 * first.hot.median_us, graph


def test_known_calls_launch_what_they_launch():
    script = """
import torch
from engine.measure.fusion.launches import count_launches
x, y = torch.rand(2, 1 << 20, device="cuda")
w = torch.rand(512, 512, device="cuda", dtype=torch.float16)
assert [one.kind for one in count_launches(lambda: x.add_(1.0))] == ["kernel"]
assert [one.kind for one in count_launches(lambda: (x.add_(1.0), y.mul_(2.0), x.relu_()))] == ["kernel"] * 3
assert [one.kind for one in count_launches(lambda: y.copy_(x))] == ["copy"]
assert [one.kind for one in count_launches(lambda: x.view(torch.uint8).zero_())][0] in ("fill", "kernel")
assert sum(one.kind == "kernel" for one in count_launches(lambda: torch.mm(w, w))) in (1, 2)
print("counted")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.stdout.strip() == "counted", done.stderr[-2000:]


def test_the_command_keeps_what_it_measured(tmp_path):
    out = tmp_path / "fusion.json"
    arguments = ["fusion", "matmul_epilogue", "-p", "m=256", "--preset", "quick", "--out", str(out), "--json"]
    environment = {**os.environ, "PLANSCOPE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "engine", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told, record = json.loads(done.stdout), FusionRecord.model_validate_json(out.read_bytes())
    assert told["id"] == record.id and told["measured"]
    for shown, version in zip(told["versions"], record.versions, strict=True):
        assert shown["hot_us"] == (version.timings.hot.median_us if version.timings else None)
        assert shown["kernels"] == version.kernels
    (kept,) = (tmp_path / "home" / "fusion").glob("*.json")
    assert kept.read_bytes() == out.read_bytes()
