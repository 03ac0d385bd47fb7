"""Cut graphs: every operation is there once, tensors keep their uids, and the pieces compute what the whole does."""

from __future__ import annotations

import pytest
import torch

from engine.graph.cost import cost, piece_bytes
from engine.graph.cutting import Cut, cut
from engine.graph.growth import growth
from engine.graph.idioms import calls, calls_bytes, run_calls
from engine.graph.operations import Attention, Binary, Convolution, Matmul, Unary
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.graph.spec import GraphBuilder, GraphSpec
from engine.graph.tensors import DataType, Role

GRAPHS = {
    "conv": ("conv_bias_relu", {"n": 2, "c": 5, "h": 9, "w": 8, "k": 6, "stride": 2, "dilation": 2}),
    "conv, nchw": ("conv_bias_relu", {"n": 1, "c": 3, "h": 6, "w": 7, "k": 4, "layout": "nchw"}),
    "conv without bias": ("conv_relu", {"n": 2, "c": 4, "h": 7, "w": 6, "k": 3, "r": 1, "s": 2, "pad": 0}),
    "one pixel": ("conv_bias_relu", {"n": 1, "c": 1, "h": 1, "w": 1, "k": 1, "r": 1, "s": 1, "pad": 0}),
    "matmul": ("matmul", {"b": 3, "m": 5, "n": 4, "k": 6}),
    "epilogue": ("matmul_epilogue", {"b": 2, "m": 5, "n": 4, "k": 6}),
    "epilogue, relu": ("matmul_epilogue", {"b": 1, "m": 3, "n": 7, "k": 2, "activation": "relu", "amax": "off"}),
    "epilogue, no activation": ("matmul_epilogue", {"b": 2, "m": 4, "n": 4, "k": 4, "activation": "none"}),
    "attention": ("sdpa", {"b": 2, "hq": 2, "hkv": 2, "sq": 6, "skv": 9, "d": 8}),
    "attention, square": ("sdpa", {"b": 1, "hq": 2, "hkv": 2, "sq": 8, "skv": 8, "d": 8}),
    "attention, grouped": ("sdpa", {"b": 2, "hq": 6, "hkv": 2, "sq": 5, "skv": 7, "d": 4}),
    "attention, one head for all": ("sdpa", {"b": 2, "hq": 4, "hkv": 1, "sq": 7, "skv": 5, "d": 4, "causal": "off"}),
    "attention, decode": ("sdpa", {"b": 3, "hq": 4, "hkv": 2, "sq": 1, "skv": 17, "d": 8, "causal": "off"}),
    "attention, scaled": ("sdpa", {"b": 1, "hq": 2, "hkv": 2, "sq": 4, "skv": 4, "d": 8, "scale": 1.5}),
}  # fmt: skip
"""Shapes, layouts, causal or not, grouped heads or not."""


def values_of(made: GraphSpec | Cut, dtype: torch.dtype = torch.float64) -> dict[int, object]:
    """Data for inputs and constants, numbers for scalars."""
    spec = made.graph if isinstance(made, Cut) else made
    generator = torch.Generator().manual_seed(3)
    values: dict[int, object] = {t.uid: t.value for t in spec.with_role(Role.SCALAR)}
    for tensor in spec.with_role(Role.INPUT):
        drawn = torch.randn(tensor.dims, generator=generator, dtype=torch.float64).to(dtype)
        values[tensor.uid] = torch.empty_strided(tensor.dims, tensor.strides, dtype=dtype).copy_(drawn)
    if isinstance(made, Cut):
        for tensor, operation, port in made.constants:
            values[tensor.uid] = torch.empty_strided(tensor.dims, tensor.strides, dtype=dtype)
            operation.fill(torch, port, values[tensor.uid])
    return values


def whole(spec: GraphSpec, values: dict[int, object]) -> dict[int, torch.Tensor]:
    """Outputs by the operations' reference faces."""
    known = spec.walk(values, lambda operation, tensors: operation.reference(torch, tensors))
    return {tensor.uid: known[tensor.uid] for tensor in spec.outputs}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("face", ["reference", "eager"])
def test_the_pieces_compute_what_the_graph_does(graph, face):
    name, parameters = GRAPHS[graph]
    made = cut(pipeline(name).graph(parameters))
    values = values_of(made)
    known = made.walk(values, lambda operation, tensors: getattr(operation, face)(torch, tensors))
    for uid, wanted in whole(made.graph, values).items():
        assert tuple(known[uid].shape) == made.graph.by_uid[uid].dims
        torch.testing.assert_close(known[uid], wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [DataType.BF16, DataType.FP16, DataType.FP32])
@pytest.mark.parametrize("graph", ["conv", "epilogue", "attention", "attention, grouped"])
def test_the_pieces_round_to_the_io_type_and_stay_near(graph, dtype):
    name, parameters = GRAPHS[graph]
    made = cut(pipeline(name).graph({**parameters, "dtype": dtype}))
    values = values_of(made, getattr(torch, dtype.torch_name))
    known = made.walk(values, lambda operation, tensors: operation.eager(torch, tensors))
    wide = {uid: v.double() if isinstance(v, torch.Tensor) else v for uid, v in values.items()}
    for tensor in made.between:
        assert known[tensor.uid].dtype == getattr(torch, dtype.torch_name)
        assert known[tensor.uid].numel() == tensor.elements
    for uid, wanted in whole(made.graph, wide).items():
        assert float((known[uid].double() - wanted).abs().max()) < 20 * dtype.epsilon * float(wanted.abs().max())


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_operation_is_there_and_every_uid_is_kept(graph):
    name, parameters = GRAPHS[graph]
    spec = pipeline(name).graph(parameters)
    made = cut(spec)
    assert sorted({piece.origin for piece in made.pieces}) == list(range(len(spec.operations)))
    assert made == cut(spec), "uids do not depend on anything but the graph"
    assert Cut.model_validate_json(made.model_dump_json()) == made
    touched = {tensor.uid for piece in made.pieces for tensor in piece.spec.tensors}
    assert {tensor.uid for tensor in spec.real} <= touched
    for piece in made.pieces:
        assert piece.spec.outputs and all(tensor.is_real for tensor in piece.spec.tensors)
        for tensor in piece.spec.tensors:
            known = spec.by_uid.get(tensor.uid)
            if known is None:
                assert tensor.uid >= 201
            else:
                assert (tensor.name, tensor.elements) == (known.name, known.elements)


def test_an_attention_becomes_five_pieces_and_four_without_a_mask():
    labels = [piece.label for piece in cut(pipeline("sdpa").graph({})).pieces]
    assert labels == ["matmul", "scale", "mask", "softmax", "matmul"]
    labels = [piece.label for piece in cut(pipeline("sdpa").graph({"causal": "off"})).pieces]
    assert labels == ["matmul", "scale", "softmax", "matmul"]


def test_an_attention_with_gaps_in_memory_stays_whole():
    g = GraphBuilder(DataType.BF16)
    strides = (16 * 2 * 8, 8, 2 * 8, 1)  # heads inside positions
    ports = {port: g.input(port, (1, 2, 16, 8), strides) for port in "qkv"}
    g.output(g.apply(Attention, "sdpa", ports, scale=1.0, causal=False), "O")
    assert [piece.label for piece in cut(g.build()).pieces] == ["attention"]


def test_an_attention_whose_tensors_do_not_fit_together_stays_whole():
    g = GraphBuilder(DataType.BF16)
    ports = {"q": g.input("q", (1, 2, 4, 8)), "k": g.input("k", (1, 2, 6, 8)), "v": g.input("v", (1, 2, 5, 8))}
    g.output(g.apply(Attention, "sdpa", ports, scale=1.0, causal=True), "O")
    assert [piece.label for piece in cut(g.build()).pieces] == ["causal attention"]


# -- Cost


@pytest.mark.parametrize("graph", GRAPHS)
def test_what_is_saved_adds_up_to_the_difference(graph):
    name, parameters = GRAPHS[graph]
    made = cut(pipeline(name).graph(parameters))
    found = cost(made)
    assert found.unfused_bytes == sum(map(piece_bytes, made.pieces))
    assert found.fused_bytes == made.graph.bytes_moved()
    assert sum(one.saved_bytes for one in found.saved) == found.saved_bytes
    assert (found.pieces == 1) == (found.saved_bytes == 0)


def test_the_bytes_of_an_epilogue_by_hand():
    found = cost(cut(pipeline("matmul_epilogue").graph({"b": 2, "m": 8, "n": 16, "k": 4, "activation": "relu"})))
    a, b, c, bias = 2 * 8 * 4 * 2, 2 * 4 * 16 * 2, 2 * 8 * 16 * 2, 16 * 2
    assert found.fused_bytes == a + b + bias + c + 4
    assert found.unfused_bytes == (a + b + c) + (c + c) + (c + bias + c) + (c + c) + (c + 4)
    by_name = {one.name: one for one in found.saved}
    assert {name: one.saved_bytes for name, one in by_name.items()} == {
        "matmul.out": 2 * c, "scale.out": 2 * c, "bias.out": 2 * c, "C": c,
    }  # fmt: skip
    assert {name: one.how for name, one in by_name.items() if not one.stays_on_chip} == {"C": "read less"}


def test_a_mask_is_not_needed_where_attention_is_fused():
    saved = {one.name: one.how for one in cost(cut(pipeline("sdpa").graph({}))).saved}
    assert saved.pop("sdpa.hidden") == "not needed"
    assert set(saved.values()) == {"on chip"} and len(saved) == 4


# -- Growth


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_grows_by_one_operation_at_a_time(graph):
    name, parameters = GRAPHS[graph]
    spec = pipeline(name).graph(parameters)
    stages = growth(spec)
    assert [len(stage.spec.operations) for stage in stages] == list(range(1, len(spec.operations) + 1))
    assert stages[-1].spec == spec
    values = values_of(spec)
    known = spec.walk(values, lambda operation, tensors: operation.reference(torch, tensors))
    for stage in stages:
        assert stage.spec.outputs
        part = {uid: value for uid, value in values.items() if uid in stage.spec.by_uid}
        for uid, found in whole(stage.spec, part).items():
            torch.testing.assert_close(found, known[uid])


def test_the_stages_of_an_epilogue():
    stages = growth(pipeline("matmul_epilogue").graph({}))
    assert [stage.added for stage in stages] == ["matmul", "scale", "bias", "gelu", "amax"]
    assert [[t.name for t in stage.spec.outputs] for stage in stages] == [
        ["matmul.out"], ["scale.out"], ["bias.out"], ["C"], ["C", "amax"],
    ]  # fmt: skip


# -- As one would write it in torch


@pytest.mark.parametrize("graph", GRAPHS)
def test_rewritten_calls_compute_the_same(graph):
    name, parameters = GRAPHS[graph]
    spec = pipeline(name).graph(parameters)
    values, steps = values_of(spec), calls(spec)
    assert sorted(i for step in steps for i in step.operations) == list(range(len(spec.operations)))
    known = run_calls(torch, steps, values)
    for uid, wanted in whole(spec, values).items():
        torch.testing.assert_close(known[uid], wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "parameters", "wanted"),
    [
        ("conv_bias_relu", {}, ["conv2d with bias", "relu"]),
        ("conv_relu", {}, ["conv", "relu"]),
        ("matmul", {}, ["matmul"]),
        ("matmul_epilogue", {}, ["baddbmm with alpha", "gelu", "amax"]),
        ("sdpa", {}, ["scaled_dot_product_attention"]),
    ],
)
def test_what_is_called(name, parameters, wanted):
    assert [step.label for step in calls(pipeline(name).graph(parameters))] == wanted


def test_rules_know_sequences_and_no_pipelines():
    """Graphs of no pipeline: a product that two read is not taken away; a bias of its own is added once."""
    g = GraphBuilder(DataType.FP32)
    a, b, bias = g.input("a", (2, 3, 4)), g.input("b", (2, 4, 5)), g.input("bias", (2, 3, 5))
    product = g.apply(Matmul, "product", {"a": a, "b": b})
    g.output(g.apply(Binary, "added", {"x": product, "operand": bias}, mode="add"), "Y")
    lonely = g.build()
    assert [step.label for step in calls(lonely)] == ["baddbmm"]
    g.output(g.apply(Unary, "relu", {"x": product}, mode="relu"), "Z")
    shared = g.build()
    assert [step.label for step in calls(shared)] == ["matmul", "bias", "relu"]
    for spec in (lonely, shared):
        values = values_of(spec)
        known = run_calls(torch, calls(spec), values)
        for uid, wanted in whole(spec, values).items():
            torch.testing.assert_close(known[uid], wanted)


def test_a_bias_that_is_no_channel_vector_stays_an_addition():
    g = GraphBuilder(DataType.FP32)
    x, w, image = g.input("x", (2, 3, 4, 4)), g.input("w", (5, 3, 1, 1)), g.input("image", (2, 5, 4, 4))
    conv = g.apply(Convolution, "conv", {"image": x, "weight": w}, padding=(0, 0), stride=(1, 1), dilation=(1, 1))
    g.output(g.apply(Binary, "residual", {"x": conv, "operand": image}, mode="add"), "Y")
    assert [step.label for step in calls(g.build())] == ["conv", "bias"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_calls_move_less_than_pieces_and_more_than_one_kernel(name):
    spec = pipeline(name).graph({})
    assert spec.bytes_moved() <= calls_bytes(spec) <= cost(cut(spec)).unfused_bytes


def test_the_bytes_of_calls_by_hand():
    spec = pipeline("matmul_epilogue").graph({"b": 2, "m": 8, "n": 16, "k": 4, "activation": "relu"})
    a, b, c, bias = 2 * 8 * 4 * 2, 2 * 4 * 16 * 2, 2 * 8 * 16 * 2, 16 * 2
    assert calls_bytes(spec) == (a + b + bias + c) + (c + c) + (c + 4)


def test_a_row_for_every_row_of_a_batch_is_added_to_one_matrix_of_all_rows():
    """Alone in a graph, cuDNN 9.19 reads the row past its end from the second matrix on."""
    bias = cut(pipeline("matmul_epilogue").graph({"b": 3, "m": 5, "n": 4, "k": 6})).pieces[2]
    assert bias.label == "bias"
    assert [t.dims for t in bias.spec.tensors] == [(1, 1, 4), (1, 15, 4), (1, 15, 4)]
    one = cut(pipeline("matmul_epilogue").graph({"b": 1, "m": 5, "n": 4, "k": 6})).pieces[2]
    assert [t.dims for t in one.spec.tensors] == [(1, 1, 4), (1, 5, 4), (1, 5, 4)]
