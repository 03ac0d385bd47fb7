"""The form: texts in, a graph or a message for each wrong field out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.form import carried_over, last_good, read
from engine.graph.pipelines import CATALOGUE
from engine.graph.pipelines.base import text_of

TEXTS = st.one_of(
    st.text(max_size=40), st.integers().map(str), st.sampled_from(["1e3", "0x10", "on", "nan", "٣", "1_0"])
)


@given(st.sampled_from(sorted(CATALOGUE)), st.data())
def test_any_texts_give_a_graph_or_messages(name, data):
    chosen = CATALOGUE[name]
    letters = [field.letter for field in chosen.fields()]
    texts = data.draw(st.dictionaries(st.sampled_from(letters), TEXTS))
    reading = read(chosen, texts)
    assert (reading.spec is None) == bool(reading.errors) == (reading.parameters is None)
    assert set(reading.errors) <= {*letters, ""}
    good = last_good(chosen, reading, {})
    assert good.spec is not None
    assert not good.errors


def test_an_empty_field_is_its_default():
    chosen = CATALOGUE["sdpa"]
    assert read(chosen, {"b": " ", "scale": ""}).spec == read(chosen, {}).spec


@pytest.mark.parametrize("text", ["0", "-1", "2147483648", "abc", "1.5", "1e9", "½"])
def test_a_wrong_size_is_answered_at_its_field(text):
    reading = read(CATALOGUE["conv_relu"], {"n": text, "c": "32"})
    (letter, error) = next(iter(reading.errors.items()))
    assert (letter, error.field, error.value) == ("n", "n", text)
    assert "must be a whole number from 1 to 1,048,576" in error.rule
    assert error.remedy == "The default is 8."


def test_every_wrong_field_gets_its_own_message():
    reading = read(CATALOGUE["matmul_epilogue"], {"b": "0", "alpha": "nan", "activation": "tanh", "amax": "perhaps"})
    assert set(reading.errors) == {"b", "alpha", "activation", "amax"}
    assert "none, relu, gelu, gelu_tanh, swish" in reading.errors["activation"].rule


def test_shapes_that_do_not_fit_together_name_the_field_to_change():
    reading = read(CATALOGUE["sdpa"], {"hq": "16", "hkv": "3"})
    assert set(reading.errors) == {"hkv"}
    assert "Use an hkv that divides hq, or an hq that is a multiple of hkv." in str(reading.errors["hkv"])


def test_a_slip_keeps_the_graph_that_was_good_before():
    chosen = CATALOGUE["conv_relu"]
    before = {"n": "4", "c": "32"}
    kept = last_good(chosen, read(chosen, {"n": "4x", "c": "32"}), before)
    assert kept.spec == read(chosen, before).spec


def test_a_link_with_a_wrong_value_keeps_its_right_ones():
    chosen = CATALOGUE["conv_relu"]
    given_texts = {"n": "-4", "c": "32"}
    kept = last_good(chosen, read(chosen, given_texts), given_texts)
    assert kept.spec == read(chosen, {"c": "32"}).spec


def test_what_means_the_same_is_carried_to_another_pipeline():
    conv, other, matmul = (CATALOGUE[name] for name in ("conv_bias_relu", "conv_relu", "matmul"))
    changed = {field.letter: text_of(field.default) for field in conv.fields()}
    changed |= {"n": "64", "dtype": "fp16", "layout": "nchw"}
    assert carried_over(conv, changed, other) == {"n": "64", "dtype": "fp16", "layout": "nchw"}
    assert carried_over(conv, changed, matmul) == {"dtype": "fp16"}, "a batch is no number of columns"
