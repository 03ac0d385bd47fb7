"""Links: every state survives the trip through an address bar, and nothing in an address bar is an exception."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import links
from app.demands import written
from app.links import ExploreState, Regime, View, differing, from_query, to_query
from engine.graph.pipelines import CATALOGUE
from engine.records.constraints import Constraints
from engine.records.plan import PlanIdentity

NAMES = st.sampled_from(sorted(CATALOGUE))
KNOBS = st.dictionaries(st.from_regex(r"[A-Z][A-Z_0-9]{0,20}", fullmatch=True), st.integers(-9, 10**9), max_size=6)
KEYS = st.builds(lambda engine, knobs: PlanIdentity(engine_id=engine, knobs=knobs).key, st.integers(0, 999), KNOBS)
DEMANDS = st.builds(Constraints, st.none() | st.integers(0, 2**50), st.booleans(), st.booleans())


@st.composite
def states(draw):
    """States as the page makes them: some letters changed, to texts both right and wrong."""
    chosen = CATALOGUE[draw(NAMES)]
    letters = draw(st.sets(st.sampled_from([field.letter for field in chosen.fields()])))
    texts = {letter: draw(st.one_of(st.integers().map(str), st.text(max_size=40))) for letter in letters}
    return ExploreState(
        pipeline=chosen.name,
        given=differing(chosen, texts),
        target=draw(st.sampled_from(["", "h200", "local", "local:GPU-3f1c", "rtx5090", "file-0123456789ab"])),
        run=draw(st.one_of(st.just(""), st.from_regex(r"[0-9a-f]{32}", fullmatch=True))),
        plan=draw(st.one_of(st.just(""), KEYS)),
        demands=draw(st.one_of(st.just(""), st.builds(written, DEMANDS))),
        regime=draw(st.sampled_from(Regime)),
        view=draw(st.sampled_from(View)),
    )


@given(states())
def test_a_state_survives_the_address_bar(state):
    address = links.link("explore", state)
    read = dict(parse_qsl(address.partition("?")[2], keep_blank_values=True))
    assert from_query(read) == (state, ())


@given(st.dictionaries(st.text(max_size=60), st.text(max_size=300), max_size=8))
def test_nonsense_gives_a_state_and_says_what_was_ignored(query):
    state, problems = from_query(query)
    assert state.pipeline in CATALOGUE
    letters = {field.letter for field in CATALOGUE[state.pipeline].fields()}
    assert bool(problems) == bool(query.keys() - links.RESERVED - letters) or "pipeline" in query
    assert from_query(to_query(state)) == (state, ())


ANYTHING = st.one_of(st.text(max_size=90), st.sampled_from(["hot", "sdpa", "4;K=1"]))


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(links.RESERVED, ANYTHING)))
def test_nonsense_under_known_keys_falls_back_to_defaults(query):
    state, problems = from_query(query)
    assert from_query(to_query(state)) == (state, ())
    told = {problem.field for problem in problems}
    assert all(key in told or getattr(state, key) == query[key] for key in query if query[key])


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        ({"pipeline": "conv9d"}, "pipeline", "Choose one of conv_bias_relu, conv_relu, matmul, matmul_epilogue, sdpa."),
        ({"run": "latest"}, "run", "a run's id is 32 hex digits."),
        ({"plan": "<script>"}, "plan", "an engine id and its knobs"),
        ({"regime": "lukewarm"}, "regime", "must be one of hot, cold, host, host_ready, end_to_end."),
        ({"demands": "workspace:1GiB"}, "demands", "some of workspace:BYTES,deterministic,capturable"),
        ({"target": "../../etc"}, "target", "this is not the name of a target."),
        ({"pipeline": "matmul", "hq": "3"}, "hq", "matmul has no parameter of this name; it was ignored."),
    ],
)
def test_what_cannot_be_used_is_named(query, field, says):
    _, problems = from_query(query)
    assert [problem.field for problem in problems] == [field]
    assert says in str(problems[0])


def test_only_what_differs_from_the_defaults_is_written():
    matmul = CATALOGUE["matmul"]
    state = ExploreState(pipeline="matmul", given=differing(matmul, {"b": "8", "k": "4096", "dtype": "bf16"}))
    assert to_query(state) == {"pipeline": "matmul", "k": "4096"}


def test_wrong_parameter_texts_are_left_for_the_form_to_judge():
    state, problems = from_query({"pipeline": "conv_relu", "n": "abc"})
    assert state.parameters == {"n": "abc"}
    assert problems == ()


def test_no_parameter_letter_is_a_reserved_key():
    letters = {field.letter for chosen in CATALOGUE.values() for field in chosen.fields()}
    assert not letters & links.RESERVED
