"""Plans that a person names: what is taken, and what is said about nonsense."""

import pytest

from engine.graph.errors import InvalidInput
from engine.plans.explicit import parse_plan, parse_plans
from engine.plans.knobs import KNOBS
from engine.records.plan import PlanIdentity


@pytest.mark.parametrize(
    "identity",
    [
        PlanIdentity(engine_id=0),
        PlanIdentity(engine_id=49, knobs={"SPLIT_K_SLC": 15, "KERNEL_CFG": 30}),
        PlanIdentity(engine_id=9_999, knobs={"TILE_M": -1}),
        PlanIdentity(engine_id=4, knobs=dict.fromkeys(KNOBS, 1)),
    ],
)
def test_the_text_of_an_identity_gives_it_back(identity):
    assert parse_plan(identity.key) == identity


def test_order_case_and_spaces_do_not_matter():
    assert parse_plan(" 49 ; kernel_cfg = 30;SPLIT_K_SLC=15; ").key == "49;KERNEL_CFG=30;SPLIT_K_SLC=15"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "begins with its engine id"),
        (";", "begins with its engine id"),
        ("eng4", "begins with its engine id"),
        ("-4", "begins with its engine id"),
        ("٤", "begins with its engine id"),
        ("20000", "ids below 10,000"),
        ("9" * 5000, "ids below 10,000"),
        ("4;KERNEL_CFG", "is no knob choice"),
        ("4;;KERNEL_CFG=1", "is no knob choice"),
        ("4;KERNEL_CFG=", "is no whole number"),
        ("4;KERNEL_CFG=1.5", "is no whole number"),
        ("4;KERNEL_CFG=9999999999999999999999", "is no whole number of at most 9 digits"),
        ("4;KERNEL_CFG=1;kernel_cfg=2", "is given twice"),
        ("4;NOT_SET=1", "no knob 'NOT_SET'"),
        ("4;LDGA=1", "no knob 'LDGA'"),
        ("4,KERNEL_CFG=1", "begins with its engine id"),
    ],
)
def test_nonsense_is_named(text, rule):
    with pytest.raises(InvalidInput) as raised:
        parse_plan(text)
    (error,) = raised.value.errors
    assert error.field == "explicit" and rule in error.rule and error.remedy


def test_an_unknown_knob_brings_the_known_ones():
    with pytest.raises(InvalidInput) as raised:
        parse_plan("4;SPLITK=2")
    assert "SPLIT_K_SLC" in raised.value.errors[0].remedy and "KERNEL_CFG" in raised.value.errors[0].remedy


def test_many_at_once_each_once_and_every_wrong_one_is_told():
    assert [plan.key for plan in parse_plans(["4;KERNEL_CFG=2", "1", "4;KERNEL_CFG=2"])] == ["4;KERNEL_CFG=2", "1"]
    with pytest.raises(InvalidInput) as raised:
        parse_plans(["x", "1", "4;Y=1"], field="option")
    assert [(error.field, error.value) for error in raised.value.errors] == [("option", "x"), ("option", "4;Y=1")]
    with pytest.raises(InvalidInput, match="at most 1,024"):
        parse_plans(map(str, range(1025)))
