"""Which graphs of one operation real cuDNN takes for an H200, and what it says of those it refuses."""

from __future__ import annotations

import pytest

from engine.graph.pipelines import pipeline
from engine.jobs.fusion import FusionRequest, plan_fusion
from engine.jobs.fusion_plans import FusionPlanner
from tests.cudnn.conftest import H200

pytestmark = pytest.mark.cudnn


@pytest.fixture(scope="module")
def planner(bench):
    import threading

    return FusionPlanner(bench.pool, H200, bench.folder, threading.Event())


@pytest.mark.parametrize(
    ("name", "parameters", "in_torch"),
    [
        ("conv_bias_relu", {}, []),
        ("conv_bias_relu", {"dtype": "fp16", "n": 4}, []),
        ("conv_bias_relu", {"layout": "nchw"}, ["bias", "relu"]),
        ("matmul_epilogue", {}, ["amax"]),
        ("matmul_epilogue", {"activation": "relu", "dtype": "fp32"}, ["amax"]),
        ("matmul_epilogue", {"activation": "swish", "amax": "off"}, []),
        ("sdpa", {}, ["softmax"]),
        ("sdpa", {"causal": "off", "hkv": 4}, ["softmax"]),
    ],
)
def test_pieces_plan_and_build_alone_but_for_some(planner, name, parameters, in_torch):
    made = planner.plan(pipeline(name).graph(parameters), every=False)
    assert len(made.pieces) == len(made.cut.pieces), "no piece is dropped"
    assert [piece.label for piece in made.pieces if piece.runs_on == "torch"] == in_torch
    for place, piece in enumerate(made.pieces):
        assert (piece.refusal is not None) == (piece.label in in_torch)
        assert (place in made.piece_plans) == (piece.label not in in_torch)
        if piece.refusal is not None:
            assert piece.refusal.reasons
    assert made.refusal is None and made.built, "the whole graph has plans"


def test_every_stage_of_an_epilogue_has_a_fused_plan(bench):
    graph = pipeline("matmul_epilogue").graph({"m": 256, "n": 256})
    request = FusionRequest("matmul_epilogue", {}, graph, H200)
    record = plan_fusion(request, pool=bench.pool, blob_dir=bench.folder)
    assert not record.measured and record.environment.gpu is None
    assert [stage.refusal for stage in record.growth] == [None] * 5
    assert record.growth[-1].graph_id == graph.graph_id and record.fused_plans >= 3
