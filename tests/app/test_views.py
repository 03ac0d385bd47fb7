"""What is sent to the browser for a chart and a table, and the words and seeds around them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.chart_view import prepared
from app.charts import accuracy_figure, build_figure, timings_figure
from app.frames import plans_frame
from app.notices import distinct
from app.plan_table import SHOWN, plan_table
from app.run_list import Filter, explore_state, run_table
from app.sampled import baseline_times, samples_frame
from app.samples_chart import samples_figure
from app.sweep_options import read_seed
from engine.graph.errors import InvalidInput
from engine.records.plan import Status
from engine.records.run import RunKind
from engine.runs.summary import Origin, brief, summarize
from tests.app.sample_runs import failed_plan, ok_plan, run_of, wide_run


def sent(figure):
    """The drawing as the browser gets it."""
    return json.loads(prepared(figure, "said"))


@pytest.mark.parametrize("figure", [timings_figure, accuracy_figure, build_figure])
def test_every_plan_of_a_chart_is_a_row_to_pick_and_to_hear(figure):
    run = wide_run()
    frame = plans_frame(run)
    data = sent(figure(frame))
    keys = [row["key"] for row in data["rows"]]
    assert len(keys) == len(set(keys)) >= 33
    assert set(keys) <= {plan.key for plan in run.plans}
    assert [row["y"] for row in data["rows"]] == list(range(len(keys)))
    assert all("<" not in row["spoken"] and row["spoken"] for row in data["rows"])
    assert len(data["right"]) == len(data["y"]["ticks"]) == len(keys)


def test_the_marks_and_torch_are_drawn_with_their_words():
    run = run_of([ok_plan(1, 10.0, modes={"A": 1}), ok_plan(2, 20.0, modes={"A": 0})])
    data = sent(timings_figure(plans_frame(run), baseline=baseline_times(run)))
    names = [trace["name"] for trace in data["traces"] if trace["legend"]]
    assert {"winner", "heuristics' first pick", "engine 1", "engine 2"} <= set(names)
    (torch,) = [trace for trace in data["traces"] if trace["name"].startswith("torch eager")]
    assert torch["lines"]
    assert torch["dash"] == "dash"
    spreads = [(t["minus"], t["plus"]) for t in data["traces"] if t["plus"]]
    assert all(low[0] > 0 and high[0] > 0 for low, high in spreads)


def test_raw_samples_have_no_rows_to_pick():
    plan = ok_plan(1, 10.0)
    data = sent(samples_figure(samples_frame(plan.timings)))
    assert data["rows"] == []
    assert len(data["traces"][0]["x"]) == plan.timings.hot.count


def test_foreign_names_reach_the_browser_as_plain_text():
    name = "<b>x</b><script>alert(1)</script>"
    data = sent(timings_figure(plans_frame(run_of([ok_plan(1, 10.0, plan_name=name)]))))
    assert "script" in data["rows"][0]["spoken"]
    table = plan_table(plans_frame(run_of([ok_plan(1, 10.0, plan_name=name)])))
    assert table.rows[0].cells[0].text == name, "cells are set as text, so that nothing needs to be taken out"


def test_the_table_holds_every_plan_and_every_number_of_the_charts():
    run = wide_run()
    table = plan_table(plans_frame(run))
    unknown = {"behavior_notes", "engine_name", "repeat_differing", "host_ready_median_us", "end_to_end_median_us"}
    assert {row.key for row in table.rows} == {plan.key for plan in run.plans}
    assert [column.title for column in table.columns] == [
        shown.column.title for name, shown in SHOWN.items() if name not in unknown
    ], "a column that nothing is known of is left out"
    at = [column.title for column in table.columns].index("hot (µs)")
    times = [row.cells[at].order for row in table.rows]
    assert times[:33] == sorted(times[:33])
    assert times[33:] == [None] * (len(times) - 33), "what was not timed has no number to sort by"


def test_a_table_of_no_plans_is_empty():
    assert plan_table(plans_frame([])).rows == ()


def test_planned_plans_show_no_empty_timing_columns():
    table = plan_table(plans_frame([failed_plan(1, Status.LISTED, modes={"A": 0})]))
    assert [column.title for column in table.columns] == ["plan", "engine", "outcome", "mode:rank"]


@pytest.mark.parametrize(("text", "seed"), [("", 0), (" 7 ", 7), (str(2**63 - 1), 2**63 - 1)])
def test_a_seed_is_a_whole_number(text, seed):
    assert read_seed(text) == seed


@pytest.mark.parametrize("text", ["-1", "1.0", "x", str(2**63), "٣", "1_000", "9" * 5000])
def test_a_wrong_seed_is_answered(text):
    with pytest.raises(InvalidInput) as caught:
        read_seed(text)
    assert caught.value.errors[0].field == "seed"
    assert "from 0 to 9,223,372,036,854,775,807" in str(caught.value)


def summary(**more):
    run = run_of([ok_plan(1, 10.0), failed_plan(2, Status.CRASHED)], **more)
    return summarize(run, map(brief, run.plans), Origin.OWN)


def test_entries_that_read_the_same_are_told_apart():
    assert distinct({"a": "x", "b": "y", "c": "x"}) == {"a": "x (a)", "b": "y", "c": "x (c)"}


def test_a_listed_run_says_what_it_came_to():
    table = run_table([summary()])
    (row,) = table.rows
    said = dict(zip([column.title for column in table.columns], [cell.text for cell in row.cells], strict=True))
    assert said["GPU"] == "NVIDIA H200"
    assert (said["winner (hot)"], said["vs torch"], said["plans"]) == ("10.0 µs", "13.0x", "1 of 2")
    assert "title" not in said


def test_titles_get_a_column_where_there_are_any():
    table = run_table([summary(title="mine"), summary()])
    assert table.columns[1].title == "title"
    assert [row.cells[1].text for row in table.rows] == ["mine", ""]


def test_filters():
    run = summary()
    assert Filter().keeps(run)
    assert Filter("conv_bias_relu", "NVIDIA H200", Origin.OWN).keeps(run)
    assert not Filter(pipeline="sdpa").keeps(run)
    assert not Filter(gpu="NVIDIA B200").keeps(run)
    assert not Filter(origin=Origin.RECORDING).keeps(run)


def test_a_run_of_another_version_has_no_link():
    run = summary(kind=RunKind.SWEEP)
    assert explore_state(run).run == run.id
    assert explore_state(run.model_copy(update={"pipeline": "conv9d"})) is None
    assert explore_state(run.model_copy(update={"parameters": {"gone": "1"}})) is None
    assert explore_state(run.model_copy(update={"graph_id": "0" * 16})) is None
    assert replace(explore_state(run), run="").given == ()
