"""Figures by their data: what is drawn, in which order, and how it can be picked."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app import readings
from app.charts import accuracy_figure, build_figure, picked_key, timings_figure
from app.frames import plans_frame
from app.plan_rows import log_ticks, shortened
from app.sampled import baseline_times, samples_frame
from app.samples_chart import samples_figure
from engine.records.constraints import Constraints
from engine.records.plan import Status
from engine.records.regimes import verdicts
from engine.records.samples import Samples
from engine.records.timings import Timings
from tests.app.full_run import full_run
from tests.app.sample_runs import accuracy, failed_plan, ok_plan, run_of, samples, timings, wide_run

FIGURES = (timings_figure, accuracy_figure, build_figure)


def trace(figure: go.Figure | None, name: str) -> Any:
    assert figure is not None
    (found,) = [t for t in figure.data if t.name == name]
    return found


def keys(figure: go.Figure) -> list[str]:
    """Plan keys from top to bottom, of everything that can be clicked."""
    spots = {
        (y, key) for t in figure.data if t.customdata is not None for y, key in zip(t.y, t.customdata, strict=True)
    }
    return [key for _, key in sorted(spots)]


@pytest.fixture(scope="module")
def wide() -> pd.DataFrame:
    return plans_frame(wide_run())


def test_one_dot_with_its_spread_per_timed_plan(wide: pd.DataFrame) -> None:
    figure = timings_figure(wide)
    assert figure is not None
    timed = wide[wide["hot_median_us"].notna()]
    assert keys(figure) == list(timed["key"])
    dots = [t for t in figure.data if "engine" in (t.name or "")]
    drawn = {key: i for t in dots for i, key in enumerate(t.customdata)}
    assert len(drawn) == sum(len(t.x) for t in dots) == len(timed)
    for t in dots:
        for i, key in enumerate(t.customdata):
            row = timed[timed["key"] == key].iloc[0]
            assert t.x[i] == row["hot_median_us"]
            assert t.x[i] - t.error_x.arrayminus[i] == pytest.approx(row["hot_p10_us"])
            assert t.x[i] + t.error_x.array[i] == pytest.approx(row["hot_p90_us"])


def test_legend_stays_readable_with_22_engines(wide: pd.DataFrame) -> None:
    figure = timings_figure(wide, baseline=baseline_times(wide_run()))
    assert figure is not None
    names = [t.name for t in figure.data if t.showlegend is not False]
    assert names == [f"engine {i}" for i in range(7)] + [
        "15 other engines",
        "95 % interval of the median",
        "winner",
        "heuristics' first pick",
        "torch eager 130 µs",
    ]


def test_marks_stand_on_their_plans() -> None:
    frame = plans_frame(run_of([ok_plan(1, 90.0, modes={"A": 0}), ok_plan(2, 80.0), ok_plan(3, 85.0)]))
    figure = timings_figure(frame, baseline=baseline_times(run_of([])))
    assert list(trace(figure, "winner").customdata) == ["2"]
    assert list(trace(figure, "heuristics' first pick").customdata) == ["1"]
    line = trace(figure, "torch eager 130 µs")
    assert line.mode == "lines"
    assert line.x[0] == line.x[1] == pytest.approx(130)
    symbols = {trace(figure, name).marker.symbol for name in ("winner", "heuristics' first pick")}
    assert len(symbols) == 2
    assert line.line.dash == "dash"


def test_every_interval_is_drawn_between_two_upright_ends() -> None:
    frame = plans_frame(run_of([ok_plan(1, 80.0), ok_plan(2, 90.0)]))
    drawn = trace(timings_figure(frame), "95 % interval of the median")
    ends = [(drawn.x[i], drawn.y[i], drawn.x[i + 1], drawn.y[i + 1]) for i in range(0, len(drawn.x), 3)]
    assert len(ends) == 2 * 3, "two ends and the line between them, for each plan"
    for row, (left, between, right) in enumerate((ends[:3], ends[3:])):
        low, high = frame["hot_low_us"][row], frame["hot_high_us"][row]
        assert (left[0], right[0]) == (left[2], right[2]) == pytest.approx((low, high))
        assert (between[0], between[2]) == pytest.approx((low, high))
        assert left[1] < row < left[3], "an end stands out above and below the dot"
        assert low < frame["hot_median_us"][row] < high


def test_what_a_few_samples_span_is_drawn_as_no_interval() -> None:
    few = Timings(hot=Samples.of([141.2, 141.5, 142.0, 142.8]), stopped="screened")
    frame = plans_frame(run_of([ok_plan(1, 80.0), ok_plan(2, 142.0, timings=few)]))
    assert frame["hot_low_us"].isna().tolist() == frame["hot_high_us"].isna().tolist() == [False, True]
    assert len(trace(timings_figure(frame), "95 % interval of the median").x) == 3 * 3


def test_a_tie_is_marked_by_shape_sign_and_word() -> None:
    frame = plans_frame(run_of([ok_plan(1, 80.0, workspace_bytes=64), ok_plan(2, 80.3), ok_plan(3, 99.0)]))
    figure = timings_figure(frame)
    assert list(trace(figure, "winner").customdata) == ["2"], "no workspace beats half a percent"
    assert list(trace(figure, "ties with the best").customdata) == ["1"]
    assert trace(figure, "winner").marker.symbol != trace(figure, "ties with the best").marker.symbol
    assert [text[:2] for text in figure.layout.yaxis2.ticktext] == ["= ", "★ ", "99"]
    assert "= ties with the best" in trace(figure, "engine 1").hovertext[0]


def test_screened_and_excluded_plans_are_hollow_and_named() -> None:
    few = Timings(hot=samples(400.0, count=3), stopped="screened")
    run = run_of([ok_plan(1, 80.0, workspace_bytes=4096), ok_plan(2, 90.0), ok_plan(3, 400.0, timings=few)])
    frame = plans_frame(run, judged=verdicts(run, Constraints(workspace_limit_bytes=0)))
    figure = timings_figure(frame)
    assert list(trace(figure, "winner").customdata) == ["2"]
    screened = trace(figure, "far from the best: a few samples only")
    excluded = trace(figure, "does not meet the constraints")
    assert (list(screened.customdata), list(excluded.customdata)) == (["3"], ["1"])
    assert screened.marker.symbol.endswith("-open") and excluded.marker.symbol.endswith("-open")
    assert screened.marker.symbol != excluded.marker.symbol
    assert not any(t.name in ("engine 1", "engine 3") for t in figure.data)
    assert timings_figure(frame, regime="host_ready") is None, "what nobody measured is not drawn"


def test_a_close_up_leaves_out_what_is_far_and_says_that_it_does_not_begin_at_zero() -> None:
    plans = [ok_plan(1, 80.0), ok_plan(2, 84.0), ok_plan(3, 400.0)]
    figure = timings_figure(plans_frame(run_of(plans)), baseline=baseline_times(run_of([])), close=True)
    assert keys(figure) == ["1", "2"]
    low, high = figure.layout.xaxis.range
    assert 70 < low < 80 and 84 < high < 95
    assert "does not begin at 0" in figure.layout.xaxis.title.text
    assert not any("torch" in (t.name or "") for t in figure.data), "130 us lie outside"


def test_log_axis_only_where_the_spread_asks_for_it(wide: pd.DataFrame) -> None:
    assert timings_figure(wide).layout.xaxis.type == "log"  # type: ignore[union-attr]
    near = plans_frame(run_of([ok_plan(1, 25.0), ok_plan(2, 43.0)]))
    figure = timings_figure(near)
    assert figure is not None
    assert figure.layout.xaxis.type is None
    assert figure.layout.xaxis.range[0] == 0
    far = timings_figure(near, baseline=baseline_times(run_of([])))
    assert far is not None
    assert far.layout.xaxis.range[1] > 130
    slow = run_of([]).model_copy(update={"baseline": None})
    assert baseline_times(slow) is None


def test_each_regime_has_its_own_numbers_order_and_title() -> None:
    slow_host = timings(80.0).model_copy(update={"host": timings(500.0).hot})
    frame = plans_frame(run_of([ok_plan(1, 80.0, timings=slow_host), ok_plan(2, 90.0)]))
    hot, cold, host = (timings_figure(frame, regime=regime) for regime in ("hot", "cold", "host"))
    assert hot is not None and cold is not None and host is not None
    assert keys(hot) == keys(cold) == ["1", "2"]
    assert keys(host) == ["2", "1"]
    assert trace(cold, "engine 1").x[0] == pytest.approx(96)
    titles = {figure.layout.xaxis.title.text for figure in (hot, cold, host)}
    assert len(titles) == 3
    assert all("µs" in title for title in titles)
    assert "TFLOP/s" in trace(cold, "engine 1").hovertext[0]
    assert "TFLOP/s" not in trace(host, "engine 1").hovertext[0]
    for figure in (accuracy_figure(frame, regime="host"), build_figure(frame, regime="host")):
        assert figure is not None
        assert keys(figure) == ["2", "1"]


def test_hover_scales_the_rates_with_the_regime() -> None:
    frame = plans_frame(run_of([ok_plan(1, 80.0)]))
    hot = trace(timings_figure(frame), "engine 1").hovertext[0]
    cold = trace(timings_figure(frame, regime="cold"), "engine 1").hovertext[0]
    assert "741 TFLOP/s" in hot
    assert "75 % of the roofline (public specification)" in hot
    assert "617 TFLOP/s" in cold
    assert "62 % of the roofline" in cold


@pytest.mark.parametrize("figure_of", FIGURES)
def test_the_selected_row_is_shaded(figure_of: Any, wide: pd.DataFrame) -> None:
    plain, chosen = figure_of(wide), figure_of(wide, selected=wide["key"].iloc[2])
    assert len(plain.layout.shapes) == 0
    (band,) = chosen.layout.shapes
    assert (band.y0, band.y1) == (1.5, 2.5)
    assert len(figure_of(wide, selected="no such plan").layout.shapes) == 0


@pytest.mark.parametrize("figure_of", FIGURES)
def test_sensible_where_there_is_little_or_nothing(figure_of: Any) -> None:
    assert figure_of(plans_frame([])) is None
    listed = plans_frame([failed_plan(1, Status.LISTED), failed_plan(2, Status.BUILD_FAILED)])
    assert figure_of(listed) is None
    single = figure_of(plans_frame(run_of([ok_plan(1, 80.0)])))
    assert keys(single) == ["1"]
    assert single.layout.height > 180


def test_errors_zero_missing_and_wrong() -> None:
    plans = [
        ok_plan(1, 80.0, accuracy=(accuracy(0.0),)),
        ok_plan(2, 81.0, accuracy=(accuracy(1e-3), accuracy(9e-3, "amax"))),
        failed_plan(3, Status.WRONG_RESULT, accuracy=(accuracy(0.7, unwritten=12),)),
        failed_plan(4, Status.WRONG_RESULT, accuracy=(accuracy(None, nonfinite=1000),)),
        failed_plan(5, Status.TIMEOUT),
    ]
    figure = accuracy_figure(plans_frame(run_of(plans)))
    assert figure is not None
    assert figure.layout.xaxis.type == "log"
    assert keys(figure) == ["1", "2", "3", "4"]
    low, high = (10.0**v for v in figure.layout.xaxis.range)
    exact, amax = trace(figure, "engine 1"), trace(figure, "engine 2")
    assert low < exact.x[0] < 9e-3
    assert "0 (exact)" in exact.hovertext[0]
    assert amax.x[0] == 9e-3
    assert "worst output amax" in amax.hovertext[0]
    wrong = trace(figure, "wrong result")
    assert list(wrong.customdata) == ["3", "4"]
    assert wrong.marker.symbol == "x"
    assert wrong.x[1] < high
    assert wrong.x[1] > wrong.x[0]
    assert "12 elements never written" in wrong.hovertext[0]
    assert "1,000 elements NaN or infinite" in wrong.hovertext[1]
    tolerance = trace(figure, "tolerance")
    assert {x for x in tolerance.x if x is not None} == {1e-2}
    assert list(figure.layout.yaxis2.ticktext) == ["0 (exact)", "9.0e-3", "7.0e-1", "no finite value"]


def test_each_row_shows_its_own_tolerance() -> None:
    plans = [
        ok_plan(1, 80.0, accuracy=(accuracy(1e-3, tolerance=1e-2),)),
        ok_plan(2, 81.0, accuracy=(accuracy(1e-6, "amax", tolerance=1e-5),)),
    ]
    steps = trace(accuracy_figure(plans_frame(run_of(plans))), "tolerance")
    assert [(x, y) for x, y in zip(steps.x, steps.y, strict=True) if x is not None] == [
        (1e-2, -0.5),
        (1e-2, 0.5),
        (1e-5, 0.5),
        (1e-5, 1.5),
    ]


def test_all_exact_still_draws() -> None:
    plans = [ok_plan(1, 80.0, accuracy=(accuracy(0.0, tolerance=0.0),))]
    figure = accuracy_figure(plans_frame(run_of(plans)))
    assert figure is not None
    assert np.isfinite(figure.layout.xaxis.range).all()


@pytest.mark.parametrize("number", [5e-324, 1e308])
def test_numbers_that_only_a_forged_run_has_leave_the_axes_to_the_others(number: float) -> None:
    plans = [
        ok_plan(1, 80.0, accuracy=(accuracy(1e-3),), build_ms=500.0, deserialize_ms=2.0),
        ok_plan(2, 81.0, accuracy=(accuracy(0.0, tolerance=number),), build_ms=number, deserialize_ms=number),
        failed_plan(3, Status.WRONG_RESULT, accuracy=(accuracy(number, unwritten=1),)),
    ]
    for draw, low, high in ((accuracy_figure, 1e-5, 1.0), (build_figure, 1.0, 1000.0)):
        figure = draw(plans_frame(run_of(plans)))
        assert figure is not None
        left, right = figure.layout.xaxis.range
        assert np.log10(low) < left < right < np.log10(high)


def test_build_against_load_with_gaps_zeros_and_company() -> None:
    plans = [
        ok_plan(1, 80.0, build_ms=500.0, deserialize_ms=2.0, build_contended=True),
        ok_plan(2, 81.0, build_ms=0.0, deserialize_ms=1.0, build_contended=False),
        ok_plan(3, 82.0, build_ms=9.0, deserialize_ms=None, build_contended=False),
    ]
    figure = build_figure(plans_frame(run_of(plans)))
    build, load = trace(figure, "build"), trace(figure, "load its serialized form")
    assert list(build.customdata) == ["1", "2", "3"]
    assert list(load.customdata) == ["1", "2"]
    assert list(build.x) == [500, 1, 9]
    assert "build 0 µs" in build.hovertext[1]
    assert "other builders at work" in build.hovertext[0]
    assert "other builders" not in build.hovertext[1]
    assert "250 times as long" in build.hovertext[0]
    alone = plans_frame(run_of(plans[:1]))
    assert trace(build_figure(alone), "build, other builders at work").x[0] == 500


def test_samples_in_the_order_taken() -> None:
    figure = samples_figure(samples_frame(timings(80.0)), "cold")
    dots = trace(figure, "sample")
    assert list(dots.x) == list(range(41))
    assert dots.y[0] == pytest.approx(96 * 0.95)
    assert trace(figure, "median 96.0 µs").y[0] == pytest.approx(96)
    assert samples_figure(samples_frame(timings(80.0)).iloc[:0]) is None


def test_samples_taken_at_the_power_limit_stand_out() -> None:
    winner = next(plan for plan in full_run().plans if plan.timings and plan.timings.set_aside)
    assert winner.timings is not None
    figure = samples_figure(samples_frame(winner.timings))
    calm, held = trace(figure, "sample"), trace(figure, "sample, clocks held down")
    assert (len(calm.x), len(held.x)) == (90, 30)
    assert calm.hovertext[0].endswith("<br>1,980 MHz, 47 °C, 412 W")
    assert held.hovertext[0].endswith("<br>1,740 MHz, 61 °C, 699 W, held back by power capping")
    assert len(trace(samples_figure(samples_frame(winner.timings), "cold"), "sample").x) == 60


def test_engines_are_called_what_cudnn_calls_them() -> None:
    kernel = "cudnn_generated_fort_native_sm90_matMul_knob_2_{}_5_0"
    named = [ok_plan(4, 80.0 + i, {"K": i}, engine_name=kernel.format(tile)) for i, tile in enumerate(("64x64", "8x8"))]
    foreign = ok_plan(5, 90.0, engine_name="<b>bold</b>")
    figure = timings_figure(plans_frame(run_of([*named, foreign])))
    dots = trace(figure, "engine 4 (fort_native_sm90)")
    assert "engine 4 (fort_native_sm90 64x64)" in dots.hovertext[0]
    assert "engine 5 (&lt;b&gt;bold&lt;/b&gt;)" in trace(figure, "engine 5").hovertext[0]


def test_foreign_names_are_text_in_plotly_too() -> None:
    name = '<a href="javascript:alert(1)">eng</a>'
    frame = plans_frame(run_of([ok_plan(1, 80.0, plan_name=name, modes={"<b>": 3})]))
    for figure_of in FIGURES:
        text = json.dumps(figure_of(frame).to_plotly_json(), default=str)
        assert "<a " not in text
        assert "<b>\\" not in text
        assert ":3" not in text or "&lt;b&gt;:3" in text


def test_long_names_lose_only_their_middle() -> None:
    real = "eng41_k2=0_k13=1_k18=0_k25=1_k27=1_k28=2"
    assert shortened(real) == real
    cut = shortened(real * 2)
    assert len(cut) == 42
    assert cut.startswith("eng41_k2=0")
    assert cut.endswith("_k28=2")


def test_the_picked_plan() -> None:
    def event(customdata: object) -> dict[str, Any]:
        return {"selection": {"points": [{"customdata": customdata}], "point_indices": [0]}}

    assert picked_key(event("4;KERNEL_CFG=43")) == "4;KERNEL_CFG=43"
    assert picked_key(event(["4"])) == "4"
    for nothing in (None, {}, {"selection": {"points": []}}, event(None), event([]), event("")):
        assert picked_key(nothing) is None


def test_nothing_fixed_to_light_or_dark_and_no_template(wide: pd.DataFrame) -> None:
    for figure_of in FIGURES:
        figure = figure_of(wide)
        layout = figure.to_plotly_json()["layout"]
        assert "paper_bgcolor" not in layout
        assert "font" not in layout
        assert "title" not in layout
        assert "layout" not in layout["template"]
        assert layout["xaxis"]["title"]["text"]


def test_figures_are_cheap(wide: pd.DataFrame) -> None:
    """20 ms for 40 plans is the aim (10 to 15 were seen); the bound leaves room for a loaded machine."""
    for figure_of in FIGURES:
        figure_of(wide)
        best = 1.0
        for _ in range(5):
            start = time.process_time()
            figure = figure_of(wide)
            best = min(best, time.process_time() - start)
        assert best < 0.06
        assert len(figure.to_json()) < 30_000


@pytest.mark.parametrize("low", [0.03, 1.0, 80.0])
@pytest.mark.parametrize("factor", [1.5, 9, 1480, 1e9])
def test_log_ticks_are_round_few_and_inside(low: float, factor: float) -> None:
    ticks = log_ticks(low / 1.3, low * factor * 1.3)
    assert 1 <= len(ticks) <= 12
    assert all(low / 1.3 <= tick <= low * factor * 1.3 for tick in ticks)


def test_the_charts_in_words(wide: pd.DataFrame) -> None:
    frame = plans_frame(run_of([ok_plan(1, 90.0, modes={"A": 0}), ok_plan(2, 80.0), failed_plan(3, Status.TIMEOUT)]))
    said = readings.timings_summary(frame, baseline=baseline_times(run_of([])))
    assert said == (
        "2 of 3 plans timed; fastest eng2, 80.00 µs; heuristics' first pick 90.00 µs (1.12x the time of the best); "
        "torch eager 130 µs (1.62x the time of the best)."
    )
    assert readings.accuracy_summary(wide) == (
        "34 of 41 plans checked; largest relative errors 1.0e-3 to 7.0e-1; 1 wrong."
    )
    assert readings.build_summary(wide) == "34 of 41 plans built; build 3.0 ms to 240 ms; load 500 µs to 4.5 ms."
    nothing = plans_frame([])
    assert readings.timings_summary(nothing) == "No plan was timed."
    assert readings.accuracy_summary(nothing) == "No plan was checked against the reference."
    assert readings.build_summary(nothing) == "No plan was built."
