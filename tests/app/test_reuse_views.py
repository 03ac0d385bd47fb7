"""Figures and tables of a study by their data."""

from __future__ import annotations

import pytest

from app.chart_view import drawing, prepared
from app.reuse_charts import builds_figure, costs_figure, graphs_figure, speeds_figure
from app.reuse_tables import costs_table, graphs_table, matrix_table, shapes_table
from app.theme import PLANNED, provenance
from engine.records.reuse import Reuse
from tests.app.sample_reuse import cost, shapes, studied_run, study, times, use


def trace(figure, name):
    (found,) = [t for t in figure.data if t.name == name]
    return found


def texts(table):
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_build_and_load_stand_side_by_side_on_a_logarithmic_axis():
    figure = costs_figure(study())
    assert figure.layout.xaxis.type == "log"
    assert list(figure.layout.yaxis.ticktext) == ["eng4", "eng0"], "the dearest build first"
    assert list(trace(figure, "cold build").x) == [500.0, 0.2]
    assert list(trace(figure, "load").x) == [1.05, pytest.approx(0.84)]
    cold = trace(figure, "cold build").error_x
    assert (cold.array[0], cold.arrayminus[0]) == (pytest.approx(100), pytest.approx(50))
    assert list(figure.layout.yaxis2.ticktext) == ["476x", "0.0595x"]
    assert list(trace(figure, "build again, libraries loaded").x) == [0.05]
    assert len({t.marker.symbol for t in figure.data if t.name}) == 5, "no meaning by colour alone"


def test_what_was_not_measured_is_not_drawn():
    figure = costs_figure(study(costs=(cost(4, 500.0, 1.0, warm_ms=None), cost(5, 1.0, 1.0, cold_ms=None))))
    assert list(trace(figure, "build, compute cache warm").x) == [0.1]
    assert list(trace(figure, "cold build").y) == [0]
    nothing = cost(4, 1.0, 1.0, cold_ms=None, load_ms=None)
    assert costs_figure(study(costs=(nothing,))) is None
    assert graphs_figure(()) is None and speeds_figure(shapes(on_gpu=False)) is None


def test_builds_at_each_size_and_the_saving():
    figure = builds_figure(shapes())
    assert list(trace(figure, "each on its own").x) == [300.0] * 3
    assert list(trace(figure, "shared kernel cache").x) == [500.0, 3.0, 3.0]
    assert list(trace(figure, "override shape").x) == [400.0], "built once, for the largest"
    assert list(figure.layout.yaxis2.ticktext) == ["1.67x", "0.0100x", "0.0100x"]


def test_a_wrong_result_is_a_red_cross_and_no_speed_of_its_way():
    figure = speeds_figure(shapes())
    wrong = trace(figure, "wrong result")
    assert (list(wrong.x), list(wrong.y), wrong.marker.symbol) == ([5.0], [1], "x")
    assert "C is wrong" in wrong.hovertext[0]
    assert 5.0 not in list(trace(figure, "override shape").x)
    assert list(figure.layout.yaxis2.ticktext) == ["1.50x", "1.25x", "2.00x"]


def test_replays_beside_plain_calls():
    figure = graphs_figure((use(4), use(0, captured=False)))
    assert list(trace(figure, "plain calls").x) == [25.0, 25.0]
    assert [list(trace(figure, f"graph of {n}").x) for n in (1, 10, 100)] == [[14.0], [11.0], [10.0]]
    assert list(figure.layout.yaxis2.ticktext) == ["15.0 µs", "–"]


def test_every_figure_can_be_sent_to_the_browser():
    for figure in (costs_figure(study()), builds_figure(shapes()), speeds_figure(shapes()), graphs_figure((use(4),))):
        assert drawing(figure)["rows"]
        assert "label" in prepared(figure, "a figure")


def test_tables_say_in_words_what_figures_cannot():
    assert texts(costs_table(study()))[1][:2] == ["eng0", "precompiled"]
    once = {
        way: times(ms) for way, ms in (("execute_cold_ms", 3.0), ("execute_warm_ms", 2.0), ("execute_load_ms", 0.5))
    }
    table = costs_table(study(costs=(cost(4, 500.0, 1.0, **once),)))
    named = dict(zip((column.title for column in table.columns), texts(table)[0], strict=True))
    assert [named[f"first run, {after}"] for after in ("built", "warm", "loaded")] == ["3.00 ms", "2.00 ms", "500 µs"]
    failed = Reuse(on_gpu=False, repeats=1, costs=(cost(4, 1, 1, message="load: it crashed"),))
    assert texts(costs_table(failed))[0][8] == "no; load: it crashed"
    rows = texts(shapes_table(shapes()))
    assert rows[7][:2] == ["16", "override shape"] and rows[7][-1] == "≠ wrong: C is wrong"
    assert rows[7][7] == "–", "a wrong result has no speed"
    assert rows[3][7] == "1.50x"
    assert rows[0][4:6] == ["12 ms", "300 ms"], "what a new size costs is listing and building"
    refused = shapes().model_copy(update={"series": ()})
    assert texts(shapes_table(refused)) == []
    graphs = texts(graphs_table((use(4, populated=True, updated=True, update_right=False), use(0, captured=False))))
    assert graphs[0][2:7] == ["✓", "✓", "≠ wrong answer", "new answer", "update or new capture"]
    assert graphs[1][2] == "⊘ it cannot be captured"
    told = "populate_cuda_graph(handle, backend_cuda_graph) failed with message: , and code: CUDNN_STATUS_NOT_SUPPORTED"
    native = texts(graphs_table((use(0, populated=False, populate_message=told),)))[0][3]
    said = "This engine does not take native calls for CUDA graphs (CUDNN_STATUS_NOT_SUPPORTED, no reason given)."
    assert native == f"⊘ {said}"


def test_the_matrix_holds_ratios_to_the_plan_tuned_there():
    rows = texts(matrix_table(shapes()))
    assert rows[0] == ["n = 8", "eng8", "1.00x", "1.50x", "⊘ does not build"]
    assert texts(matrix_table(shapes(on_gpu=False)))[1][2:] == ["builds"] * 3


def test_a_study_on_a_gpu_is_measured_and_one_without_is_not():
    assert provenance(studied_run(), recorded=True).label.startswith("recorded on NVIDIA H200")
    assert provenance(studied_run(on_gpu=False), recorded=False) == PLANNED
