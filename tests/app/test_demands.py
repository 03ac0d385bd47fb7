"""Demands and sweep options as texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import demands
from app.sweep_options import duration, estimate_s, further_plans, read_options
from engine.graph.errors import InvalidInput
from engine.graph.pipelines import pipeline
from engine.records.constraints import Constraints
from engine.records.options import DataKind, Preset

ANY = st.builds(Constraints, st.none() | st.integers(0, 10**18 - 1), st.booleans(), st.booleans())


@given(ANY)
def test_constraints_survive_a_link_and_the_field(constraints):
    text = demands.written(constraints)
    assert demands.SHAPE.fullmatch(text)
    assert demands.read(text, Constraints(7)) == constraints
    limit = constraints.workspace_limit_bytes
    assert demands.read_limit(demands.limit_text(limit)) == limit


def test_a_link_without_demands_leaves_those_of_the_run():
    assert demands.read("", Constraints(7, True)) == Constraints(7, True)
    assert demands.read("none", Constraints(7, True)) == Constraints()


SIZES = [("0", 0), ("64 KiB", 65536), ("1.5m", 1572864), (" 2 GiB ", 2**31), ("1t", 2**40)]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_sizes_as_people_write_them(text, size):
    assert demands.read_limit(text) == size


@pytest.mark.parametrize("text", ["-1", "x", "1 lightyear", "9" * 19, "20000000000 GiB", "٣"])
def test_a_wrong_size_is_answered(text):
    with pytest.raises(InvalidInput) as caught:
        demands.read_limit(text)
    assert caught.value.errors[0].field == "workspace"


def test_options_of_every_kind():
    texts = {"seed": "7", "score_shift": "-40", "knob_budget": "12", "explicit": "4;KERNEL_CFG=43\n\n 11 "}
    choices = {"preset": Preset.QUICK, "data": DataKind.POSITIVE, "every_engine": True, "compute_cache": True}
    options = read_options(texts, choices, Constraints(64, True, False), pipeline("sdpa").graph({}))
    assert (options.seed, options.score_shift, options.knob_budget) == (7, -40.0, 12)
    assert [plan.key for plan in options.explicit] == ["4;KERNEL_CFG=43", "11"]
    assert (options.preset, options.data) == (Preset.QUICK, DataKind.POSITIVE)
    assert (options.workspace_limit_bytes, options.deterministic_only, options.capturable_only) == (64, True, False)
    plain = read_options(texts, {}, Constraints(), pipeline("matmul").graph({}))
    assert plain.score_shift == 0, "a shift typed for an attention means nothing to a matmul"


@pytest.mark.parametrize("shift", ["nan", "1_0"])
def test_every_wrong_field_is_named(shift):
    with pytest.raises(InvalidInput) as caught:
        read_options(
            {"seed": "x", "score_shift": shift, "knob_budget": "-1", "explicit": "a\nb"},
            {},
            Constraints(),
            pipeline("sdpa").graph({}),
        )
    assert [error.field for error in caught.value.errors] == ["seed", "score_shift", "knob_budget", *["explicit"] * 2]


def test_plans_asked_for_besides_are_counted_as_far_as_they_can_be_read():
    assert further_plans({}) == 0
    assert further_plans({"knob_budget": "100000", "explicit": "4\n\n 7;KERNEL_CFG=1\n"}) == 100_002
    assert further_plans({"knob_budget": "9" * 20}) == further_plans({"knob_budget": "many"}) == 0


def test_a_long_time_is_told_in_minutes():
    assert (duration(10.2), duration(89.9), duration(90), duration(3009)) == ("11 s", "90 s", "2 min", "51 min")


def test_the_estimate_grows_with_plans_and_precision():
    quick, thorough = estimate_s(Preset.QUICK, 30), estimate_s(Preset.THOROUGH, 30)
    assert 0 < quick < thorough
    assert estimate_s(Preset.QUICK, 30) < estimate_s(Preset.QUICK, 30, 500)
