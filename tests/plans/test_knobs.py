"""Knob choices by name, and those that only the plan's name tells."""

from types import SimpleNamespace

import pytest

from engine.plans.knobs import knobs_by_name, unnamed_knobs


class Knob:
    def __init__(self, name):
        self.name = name


NAMED = {Knob("TILE_SIZE"): 2, Knob("STAGES"): 0}
AND_OTHERS = {**NAMED, Knob("NOT_SET"): 2}


def test_named_choices_are_taken_as_they_are():
    assert knobs_by_name(NAMED, "eng32_k2=2_k14=0") == {"TILE_SIZE": 2, "STAGES": 0}
    assert knobs_by_name({}, "eng0") == {}


def test_not_set_is_never_a_choice_and_what_hides_behind_it_comes_from_the_plan_name():
    assert knobs_by_name(AND_OTHERS, "eng32_k2=2_k6=0_k14=0_k22=2") == {
        "TILE_SIZE": 2,
        "STAGES": 0,
        "LDGA": 0,
        "LDGC": 2,
    }
    assert knobs_by_name({Knob("NOT_SET"): 0}, "eng4") == {}


@pytest.mark.parametrize(("name", "expected"), [("eng1_k99=7", {"KNOB_99": 7}), ("eng1_k3=-1", {"USE_TEX": -1})])
def test_a_knob_newer_than_the_frontend_goes_by_its_number(name, expected):
    assert knobs_by_name({Knob("NOT_SET"): 1}, name) == expected


def test_two_plans_that_differ_in_an_unnamed_knob_are_two():
    names = ("eng32_k2=2_k6=0_k14=0_k22=2", "eng32_k2=2_k6=0_k14=0_k22=1")
    first, second = (knobs_by_name(AND_OTHERS, name) for name in names)
    assert first != second


def test_what_cannot_be_set_is_listed():
    cudnn = SimpleNamespace(knob_type=SimpleNamespace(__members__={"TILE_SIZE": 1}))
    assert unnamed_knobs(cudnn, {"TILE_SIZE": 1, "LDGA": 0}) == ["LDGA"]
