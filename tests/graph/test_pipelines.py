"""The catalogue: what its parameters accept, what its graphs contain, and what their references compute."""

from __future__ import annotations

import pytest
import torch

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType, Role

SMALL = {
    "conv_bias_relu": {"n": 2, "c": 5, "h": 9, "w": 8, "k": 6, "stride": 2, "dilation": 2},
    "conv_relu": {"n": 2, "c": 4, "h": 7, "w": 6, "k": 3, "r": 1, "s": 2, "pad": 0},
    "matmul": {"b": 3, "m": 5, "n": 4, "k": 6},
    "matmul_epilogue": {"b": 2, "m": 5, "n": 4, "k": 6, "activation": "gelu_tanh"},
    "sdpa": {"b": 2, "hq": 4, "hkv": 2, "sq": 6, "skv": 9, "d": 8},
}


def inputs(spec: GraphSpec) -> dict[int, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    values = {}
    for tensor in spec.with_role(Role.INPUT, Role.SCALAR):
        if tensor.role is Role.SCALAR:
            values[tensor.uid] = torch.full(tensor.dims, tensor.value, dtype=torch.float64)
        else:
            values[tensor.uid] = torch.randn(tensor.dims, generator=generator, dtype=torch.float64)
    return values


def outputs(spec: GraphSpec, values: dict[int, torch.Tensor], face: str) -> dict[str, torch.Tensor]:
    known = spec.walk(values, lambda operation, tensors: getattr(operation, face)(torch, tensors))
    return {tensor.name: known[tensor.uid] for tensor in spec.outputs}


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("dtype", DataType)
def test_defaults_build_a_graph_that_survives_json(name, dtype):
    spec = pipeline(name).graph({"dtype": dtype})
    again = GraphSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert again.graph_id == spec.graph_id
    assert [t.uid for t in spec.real] == list(range(1, len(spec.real) + 1))


@pytest.mark.parametrize("name", CATALOGUE)
def test_reference_and_torch_agree(name):
    spec = pipeline(name).graph(SMALL[name])
    values = inputs(spec)
    reference, eager = outputs(spec, values, "reference"), outputs(spec, values, "eager")
    for tensor in spec.outputs:
        assert tuple(reference[tensor.name].shape) == tensor.dims
        torch.testing.assert_close(reference[tensor.name], eager[tensor.name], rtol=1e-12, atol=1e-12)


def test_the_graph_id_knows_shapes_types_and_attributes_but_no_values():
    base = pipeline("matmul_epilogue").graph({})
    assert pipeline("matmul_epilogue").graph({"alpha": 2}).graph_id == base.graph_id
    others = [{"m": 511}, {"dtype": "fp16"}, {"activation": "relu"}, {"amax": "off"}, {"activation": "none"}]
    ids = {pipeline("matmul_epilogue").graph(other).graph_id for other in others}
    assert len(ids | {base.graph_id}) == len(others) + 1
    sdpa = pipeline("sdpa")
    assert sdpa.graph({"scale": 0.125}).graph_id == sdpa.graph({}).graph_id != sdpa.graph({"scale": 0.25}).graph_id
    conv = pipeline("conv_relu")
    assert conv.graph({"layout": "nchw"}).graph_id != conv.graph({}).graph_id


def test_flops_and_bytes_by_hand():
    spec = pipeline("conv_bias_relu").graph({})
    elements = 32 * 256 * 56 * 56
    assert spec.flops() == 2 * elements * 128 * 9 + 2 * elements
    assert spec.bytes_moved() == 2 * (32 * 128 * 56 * 56 + 256 * 128 * 9 + 256 + elements)
    causal, full = (
        pipeline("sdpa").graph({"sq": 3, "skv": 5}),
        pipeline("sdpa").graph({"sq": 3, "skv": 5, "causal": "off"}),
    )
    assert causal.flops() * 15 == full.flops() * 6
    tall = pipeline("sdpa").graph({"sq": 5, "skv": 3})
    assert tall.flops() == 2 * 4 * 16 * (1 + 2 + 3 + 3 + 3) * 128


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("value", ["0", "-3", str(2**31), "abc", "", "1.5", "nan", "1_000"])
def test_every_size_letter_refuses_nonsense_with_a_rule_and_a_remedy(name, value):
    found = pipeline(name)
    sizes = [field for field in found.fields() if field.kind == "int" and field.letter != "pad"]
    with pytest.raises(InvalidInput) as caught:
        found.graph({field.letter: value for field in sizes})
    assert {error.field for error in caught.value.errors} == {field.letter for field in sizes}
    for error in caught.value.errors:
        assert error.value == value
        assert "whole number from 1 to" in error.rule
        assert "default is" in error.remedy


@pytest.mark.parametrize(
    ("name", "given", "field", "words"),
    [
        ("conv_relu", {"r": 40}, "r", "only 34"),
        ("conv_relu", {"w": 1, "s": 9}, "s", "smaller s"),
        ("sdpa", {"hkv": 3}, "hkv", "divides hq"),
        ("sdpa", {"hq": 7}, "hkv", "an hq that is a multiple of hkv"),
        ("sdpa", {"scale": "1_0.5"}, "scale", "finite number"),
        ("matmul", {"layout": "nhwc"}, "layout", "no parameter"),
        ("matmul_epilogue", {"activation": "tanh"}, "activation", "gelu_tanh"),
        ("matmul_epilogue", {"alpha": "inf"}, "alpha", "finite"),
        ("matmul_epilogue", {"amax": "perhaps"}, "amax", "on or off"),
        ("conv_relu", {"dtype": "fp64"}, "dtype", "bf16, fp16, fp32"),
    ],
)
def test_other_bad_input_names_the_field(name, given, field, words):
    with pytest.raises(InvalidInput) as caught:
        pipeline(name).graph(given)
    assert [error.field for error in caught.value.errors] == [field]
    assert words in str(caught.value)


def test_an_unknown_pipeline_lists_the_known_ones():
    with pytest.raises(InvalidInput, match="conv_bias_relu, conv_relu, matmul, matmul_epilogue, sdpa"):
        pipeline("conv")


def test_a_graph_that_contradicts_itself_is_refused():
    spec = pipeline("conv_relu").graph({})
    data = spec.model_dump_json()
    wrong = data.replace('"dims":[8,64,32,32]', '"dims":[8,64,31,32]', 1)
    assert wrong != data
    with pytest.raises(ValueError, match="gives dims"):
        GraphSpec.model_validate_json(wrong)


def test_a_tensor_of_the_wrong_rank_is_refused_before_its_dims_are_read():
    data = pipeline("matmul").graph({}).model_dump_json()
    flat = data.replace('"dims":[8,256,512],"strides":[131072,512,1]', '"dims":[8],"strides":[1]', 1)
    assert flat != data
    with pytest.raises(ValueError, match="tensors of 3 dims"):
        GraphSpec.model_validate_json(flat)
