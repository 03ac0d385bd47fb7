"""Records as tables: order, types, numbers, and a CSV that neither loses digits nor runs in a spreadsheet."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from app.frames import COLUMNS, frame_csv, plans_frame, worst_output
from app.judged import judge
from app.plan_facts import plan_facts
from app.readings import time_hover
from app.sampled import baseline_times, samples_frame, spread
from engine.graph.pipelines import pipeline
from engine.graph.roofline import roofline
from engine.records.constraints import Constraints
from engine.records.plan import Status
from engine.records.regimes import verdicts
from engine.records.samples import Samples
from engine.records.timings import Timings
from tests.app.sample_runs import accuracy, failed_plan, ok_plan, run_of, wide_run


def test_fastest_first_then_the_untimed() -> None:
    plans = [
        failed_plan(7, Status.UNSUPPORTED),
        ok_plan(1, 90.0, modes={"A": 0}),
        failed_plan(8, Status.WRONG_RESULT, accuracy=(accuracy(0.5),)),
        ok_plan(2, 80.0, modes={"A": 1}),
        failed_plan(9, Status.LISTED, modes={"A": 5}),
        failed_plan(10, Status.LISTED, modes={"A": 4, "B": 0}),
    ]
    frame = plans_frame(run_of(plans))
    assert list(frame["engine"]) == [2, 1, 8, 10, 9, 7]
    assert list(frame["is_best"]) == [True, False, False, False, False, False]
    assert list(frame["is_first_pick"]) == [False, True, False, False, False, False]
    assert frame["vs_fastest"].iloc[1] == pytest.approx(90 / 80)


def test_a_wrong_plan_is_never_best_and_has_no_time() -> None:
    wrong = failed_plan(3, Status.WRONG_RESULT, accuracy=(accuracy(0.5),), modes={"A": 0})
    frame = plans_frame(run_of([wrong]))
    assert not frame["is_best"].any()
    assert frame["is_first_pick"].all()
    assert frame["hot_median_us"].isna().all()
    assert frame["max_rel"].iloc[0] == 0.5


def test_rates_follow_from_the_graph_and_the_public_specification() -> None:
    run = run_of([ok_plan(1, 80.0)])
    row = plans_frame(run).iloc[0]
    assert row["tflops"] == pytest.approx(run.graph.flops() / 80e-6 / 1e12, rel=1e-6)
    ceiling = roofline(run.graph, "NVIDIA H200")
    assert ceiling is not None
    assert row["roofline_share"] == pytest.approx(ceiling.floor_us / 80, rel=1e-6)


def test_bare_plans_have_rates_only_with_graph_and_gpu() -> None:
    plans, graph = [ok_plan(1, 80.0)], pipeline("conv_bias_relu").graph({})
    assert plans_frame(plans)["tflops"].isna().all()
    assert plans_frame(plans, graph=graph)["tflops"].notna().all()
    assert plans_frame(plans, graph=graph)["roofline_share"].isna().all()
    assert plans_frame(plans, graph=graph, gpu_name="a card nobody knows")["roofline_share"].isna().all()
    run = run_of(plans)
    bare = plans_frame(plans, graph=graph, gpu_name="NVIDIA H200", judged=verdicts(run))
    pd.testing.assert_frame_equal(bare, plans_frame(run))


def test_spread_is_in_float64_and_interpolated() -> None:
    made = spread(Samples.of([1.0, 2.0, 3.0, 4.0]))
    assert (made.median_us, made.min_us, made.max_us, made.samples) == (2.5, 1.0, 4.0, 4)
    assert made.p10_us == pytest.approx(1.3)
    assert made.p90_us == pytest.approx(3.7)
    values = np.random.default_rng(1).lognormal(3, 1, 101).astype("<f4")
    made = spread(Samples.of(values))
    wanted = np.quantile(values.astype(float), [0, 0.1, 0.5, 0.9, 1])
    np.testing.assert_allclose([made.min_us, made.p10_us, made.median_us, made.p90_us, made.max_us], wanted, rtol=1e-12)
    assert spread(Samples.of([7.0])).p10_us == 7


def test_worst_output_goes_by_its_tolerance() -> None:
    mild, strict = accuracy(5e-3, "Y", 1e-2), accuracy(2e-4, "amax", 1e-4)
    assert worst_output([mild, strict]) == strict
    lost = accuracy(None, "Z", nonfinite=1000)
    assert worst_output([mild, strict, lost]) == lost
    unwritten = accuracy(1e-5, "W", unwritten=3)
    assert worst_output([mild, unwritten]) == unwritten
    assert worst_output([]) is None


def test_columns_keep_their_types_with_and_without_rows() -> None:
    for frame in (plans_frame([]), plans_frame(wide_run())):
        assert list(frame.columns) == list(COLUMNS)
        for name, dtype in COLUMNS.items():
            assert frame[name].dtype == pd.Series([], dtype=dtype).dtype, name
    failed = plans_frame([failed_plan(1, Status.TIMEOUT)])
    assert failed["unwritten"].isna().all()
    assert failed["build_contended"].isna().all()
    assert failed["message"].iloc[0] == "it ended as timeout"


def test_csv_keeps_every_digit() -> None:
    frame = plans_frame(wide_run())
    again = pd.read_csv(io.BytesIO(frame_csv(frame)), keep_default_na=True)
    assert list(again.columns) == list(frame.columns)
    for name in ("hot_median_us", "hot_p10_us", "tflops", "max_rel", "build_ms"):
        np.testing.assert_array_equal(again[name].to_numpy(), frame[name].to_numpy())
    assert list(again["key"]) == list(frame["key"])


@pytest.mark.parametrize("message", ['=HYPERLINK("x")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_csv_runs_nothing_in_a_spreadsheet(message: str) -> None:
    plan = failed_plan(1, Status.CRASHED, message=message, plan_name='é=ü,"x"\n')
    text = frame_csv(plans_frame([plan])).decode("utf-8")
    again = pd.read_csv(io.StringIO(text, newline=""))
    assert again["message"].iloc[0] == "'" + message
    assert again["plan_name"].iloc[0] == 'é=ü,"x"\n'


def test_baseline_and_samples() -> None:
    run = run_of([ok_plan(1, 80.0)])
    baseline = baseline_times(run)
    assert baseline is not None
    assert baseline.name == "torch eager"
    assert baseline.regimes["hot"].median_us == pytest.approx(130)
    assert list(baseline.regimes) == ["hot", "cold", "host"], "what was not timed is left out"
    assert baseline_times(run.model_copy(update={"baseline": None})) is None
    timings = run.plans[0].timings
    assert timings is not None
    raw = samples_frame(timings)
    assert raw.groupby("regime").size().to_dict() == {"hot": 41, "cold": 41, "host": 41}
    hot = raw[raw["regime"] == "hot"]
    np.testing.assert_array_equal(hot["us"], timings.hot.values.astype(float))
    assert list(hot["order"]) == list(range(41))


def test_a_plans_details_give_the_ranks_that_the_table_gives():
    plan = ok_plan(1, 10.0, modes={"A": 0, "B": 4})
    assert plans_frame([plan])["modes"][0] == "A:0, B:4"
    assert (
        dict(plan_facts(run_of([plan]), plan, judge(run_of([plan]), Constraints())))["mode:rank"]
        == "A:0, B:4 (0 is first)"
    )


def test_few_samples_have_no_quantiles() -> None:
    def said(*values: float) -> tuple[str, str]:
        run = run_of([ok_plan(1, 10.0, modes={"A": 0}, timings=Timings(hot=Samples.of(values)))])
        row = plans_frame(run).iloc[0].to_dict()
        facts = dict(plan_facts(run, run.plans[0], judge(run, Constraints())))
        return facts["GPU, hot"], time_hover(row, "hot", 7.0)

    text, hover = said(7.0)
    assert text == "7.000 µs median, 1 sample" and "p10" not in hover
    text, hover = said(7.0, 7.2)
    assert text == "7.100 µs median, 7.000 to 7.200 µs in 2 samples" and "p10" not in hover
    text, hover = said(*[7.0, 7.2] * 10)
    assert "p10 to p90 7.000 to 7.200 µs of 20 samples" in text and "p10 to p90" in hover
