"""Memory: a graph that cannot fit is refused with the letter that mends it, and what is offered really fits."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.plans.limits import GIB, check_memory
from engine.plans.targets import resolve_target

L4 = resolve_target("l4").info
SIZES = {name: [f.letter for f in p.fields() if f.kind == "int"] for name, p in CATALOGUE.items()}


@pytest.mark.parametrize("name", CATALOGUE)
def test_defaults_fit_every_shipped_gpu(name):
    check_memory(pipeline(name).graph({}), L4, pipeline(name), {})


@pytest.mark.parametrize(
    ("name", "parameters", "letter"),
    [
        ("matmul", {"m": "1048576", "n": "1048576"}, "m"),
        ("matmul", {"b": "1048576", "k": "65536"}, "b"),
        ("sdpa", {"sq": "1048576", "b": "64"}, "b"),
        ("sdpa", {"skv": "1048576", "b": "8"}, "b"),
        ("conv_bias_relu", {"n": "1048576"}, "n"),
        ("conv_relu", {"h": "65536", "w": "65536", "n": "1"}, "h"),
        ("matmul_epilogue", {"b": "1048576", "m": "1", "n": "1048576", "k": "1"}, "b"),
    ],
)
def test_the_letter_that_helps_is_named_and_its_remedy_holds(name, parameters, letter):
    found = pipeline(name)
    with pytest.raises(InvalidInput) as raised:
        check_memory(found.graph(parameters), L4, found, parameters)
    (error,) = raised.value.errors
    assert error.field == letter
    assert error.value == f"{int(parameters.get(letter, getattr(found.parse({}), letter))):,}"
    assert "GiB" in error.rule and "NVIDIA L4 has 24.0 GiB" in error.rule
    fitting = int(error.remedy.split(" = ")[1].split(" or less")[0].replace(",", ""))
    check_memory(found.graph({**parameters, letter: fitting}), L4)
    with pytest.raises(InvalidInput):
        check_memory(found.graph({**parameters, letter: fitting + 1}), L4)


def test_where_no_single_letter_is_enough_it_says_that():
    parameters = {"n": 1, "c": 1 << 20, "k": 1 << 20, "h": 1 << 20, "w": 1 << 20}
    found = pipeline("conv_relu")
    with pytest.raises(InvalidInput) as raised:
        check_memory(found.graph(parameters), L4, found, parameters)
    (error,) = raised.value.errors
    assert error.field in parameters and "another size as well" in error.remedy
    assert "take 4,096.0 PiB, but NVIDIA L4 has 24.0 GiB" in error.rule


def test_without_parameters_the_largest_tensor_is_named():
    with pytest.raises(InvalidInput) as raised:
        check_memory(pipeline("matmul").graph({"b": 1 << 20, "m": 1 << 10}), L4)
    (error,) = raised.value.errors
    assert error.field == "A" and error.value == "1048576x1024x512"


@given(st.sampled_from(sorted(CATALOGUE)), st.data())
def test_it_refuses_exactly_what_does_not_fit(name, data):
    letters = data.draw(st.lists(st.sampled_from(SIZES[name]), max_size=3, unique=True))
    parameters = {letter: 2 ** data.draw(st.integers(0, 20)) for letter in letters}
    found = pipeline(name)
    try:
        spec = found.graph(parameters)
    except InvalidInput:
        assume(False)
    total = sum(t.nbytes for t in spec.real)
    if total <= 24 * GIB:
        check_memory(spec, L4, found, parameters)
        return
    with pytest.raises(InvalidInput) as raised:
        check_memory(spec, L4, found, parameters)
    assert raised.value.errors[0].field in SIZES[name]
