"""What the Explore page says of a verdict: demands on the winner, absent regimes, findings, passport, sweep options."""

from __future__ import annotations

import re

import pytest

from app.passport import passport_html
from engine.records.gpu_state import GpuState
from engine.records.options import SweepOptions
from engine.records.passport import Repeatability
from engine.records.plan import PlanIdentity, PlanOrigin, Status
from engine.records.run import RunStatus
from engine.records.samples import Samples
from engine.records.timings import Timings
from tests.app.pages import alerts, components, fields, fill, opened, texts
from tests.app.sample_runs import accuracy, failed_plan, ok_plan, run_of, samples
from tests.app.test_page_explore import keep, link_to

pytestmark = [pytest.mark.app, pytest.mark.usefixtures("home")]


def plans():
    """Two that tie and one behind; the faster of the two that tie needs workspace and does not repeat."""
    full = Timings(
        hot=samples(80.0), cold=samples(95.0), host=samples(20.0), host_ready=samples(15.0), end_to_end=samples(110.0)
    )
    differs = Repeatability(runs=10, differing=3, elements=1000)
    first = ok_plan(1, 80.0, timings=full, workspace_bytes=4096, repeats=differs, modes={"A": 1})
    return [first, ok_plan(2, 80.3, modes={"A": 0}), ok_plan(3, 99.0, modes={"A": 2}, workspace_bytes=4096)]


def test_a_demand_changes_the_winner_and_is_written_into_the_address():
    page = opened(**link_to(keep(run_of(plans()))))
    assert "2 plans tie hot" in texts(page)
    fill(page, only="deterministic")
    assert not page.exception
    assert page.query_params["demands"] == "deterministic"
    said = texts(page)
    assert "eng2 wins hot" in said
    assert "Deterministic plans only: costs nothing that can be told and excludes 1 plan." in said
    again = opened(**dict(page.query_params))
    assert fields(again)["only"] == "deterministic"
    assert "eng2 wins hot" in texts(again)


def test_a_workspace_limit_that_is_no_size_is_answered_and_the_last_one_holds():
    page = opened(**link_to(keep(run_of(plans()))), demands="workspace:0")
    assert fields(page)["workspace"] == "0 B"
    fill(page, workspace="plenty")
    assert not page.exception
    assert any("must be a size in bytes, KiB, MiB, GiB or TiB." in alert for alert in alerts(page))
    assert "eng2 wins hot" in texts(page)
    fill(page, workspace="")
    assert alerts(page) == []
    assert "2 plans tie hot" in texts(page)


def test_beside_a_limit_that_is_no_size_the_other_demands_are_kept():
    page = opened(**link_to(keep(run_of(plans()))), demands="workspace:0")
    fill(page, workspace="plenty", only="deterministic")
    assert page.query_params["demands"] == "workspace:0,deterministic"
    assert fields(page)["workspace"] == "plenty"
    assert len(alerts(page)) == 1


def test_a_limit_that_is_no_size_is_forgotten_with_the_run_it_was_typed_for():
    first, second = keep(run_of(plans())), keep(run_of(plans(), id="2" * 32))
    page = opened(**link_to(first), demands="workspace:0")
    fill(page, workspace="plenty")
    assert len(alerts(page)) == 1
    for key, value in {**link_to(second), "demands": "none"}.items():
        page.query_params[key] = value
    page.run()
    assert fields(page)["workspace"] == ""
    assert alerts(page) == []


def test_regimes_that_were_not_measured_cannot_be_chosen_and_are_named():
    page = opened(**link_to(keep(run_of([ok_plan(1, 80.0)]))), regime="end_to_end")
    assert not page.exception
    assert fields(page)["regime"] == "hot"
    said = " ".join(texts(page).split())
    assert "host, pack ready not measured – – end to end not measured – –" in said


def test_every_regime_that_was_measured_has_a_chart():
    run = keep(run_of(plans()))
    for regime in ("hot", "cold", "host", "host_ready", "end_to_end"):
        page = opened(**link_to(run), regime=regime)
        assert not page.exception
        assert fields(page)["regime"] == regime
        assert components(page, "chart")[0]["rows"]


def test_what_was_not_looked_at_is_said_to_be_absent():
    said = texts(opened(**link_to(keep(run_of([ok_plan(1, 80.0, modes={"A": 1}), ok_plan(2, 99.0, modes={"A": 0})])))))
    assert "None: the winner was not measured again in a fresh process." in said
    assert "Not looked at: this run has listed plans only." in said
    assert "The GPU's clocks, power and temperature were not recorded." in said
    assert "Bitwise repeatability: not looked at in this run." in said
    assert "Errors by norm and in ulp, and counts of NaN and Inf apart, were not recorded in this run." in said
    assert "after 2 of 2 plans" in said


def test_what_became_of_plans_beyond_the_heuristics_is_told_also_where_none_was_measured():
    asked = SweepOptions(explicit=(PlanIdentity(engine_id=49),))
    hung = failed_plan(49, Status.TIMEOUT, modes={}, origin=PlanOrigin.EXPLICIT)
    said = texts(opened(**link_to(keep(run_of([ok_plan(1, 80.0, modes={"A": 0}), hung], options=asked)))))
    assert "Besides the listed plans: 1 explicit plan (0 measured, 1 timeout)." in said
    assert "whether any wins is not known" in said


def test_the_error_that_ended_the_sampling_is_told_with_what_it_supposes():
    sampled = Timings(hot=samples(80.0, 0.02), stopped="precise")
    error = 100 * sampled.hot.values.astype(float).std(ddof=1) / 41**0.5 / 80.0
    said = texts(opened(**link_to(keep(run_of([ok_plan(1, 80.0, timings=sampled)])))))
    assert f"small enough: {error:.2g} % of its mean at most, were samples independent." in said


def test_a_sweep_that_was_cut_short_in_its_rounds_is_not_said_to_have_timed_plans_one_by_one():
    begun = Timings(hot=samples(80.0), states=(GpuState(sm_clock_mhz=1980),))
    run = run_of([ok_plan(1, 80.0, timings=begun)], status=RunStatus.CANCELLED, message="cancelled")
    said = texts(opened(**link_to(keep(run))))
    assert "1 plan did not get all the samples that were wanted" in said
    assert "not in turns" not in said


def test_a_plan_too_slow_to_be_repeated_is_said_to_be_that_and_one_sample_is_no_plural():
    same = Repeatability(runs=10, differing=0, elements=1000)
    once = Timings(hot=Samples.of([120_643.0]), stopped="screened")
    run = keep(run_of([ok_plan(1, 80.0, modes={"A": 0}, repeats=same), ok_plan(2, 99.0, modes={"A": 1}, timings=once)]))
    page = opened(**link_to(run), plan="2")
    said = texts(page)
    assert "Bitwise repeatability: not looked at, for 10 runs would take longer than 0.2 s." in said
    assert "1 raw sample, GPU, hot, each of one execution; median" in str(components(page, "chart"))


def test_the_passport_says_what_repeats_and_stands_beside_torch():
    full = accuracy(2e-3, rel_norm=1e-3, max_ulp=3.0, nan=0, inf=0, reference_dtype="float64")
    same = Repeatability(runs=10, differing=0, elements=1000)
    run = run_of([ok_plan(1, 80.0, accuracy=(full,), repeats=same)])
    torch = run.baseline.model_copy(update={"accuracy": (accuracy(5e-3, rel_norm=4e-3),)})
    said = texts(opened(**link_to(keep(run.model_copy(update={"baseline": torch})))))
    assert "Repeats bit by bit: 10 runs on the same data gave the same 1,000 elements." in said
    assert "Reference: float64; normal random inputs, seed 0." in said
    assert "Tolerance: rounding a result to bf16" in said
    for text in ("error relative to the norm", "1.0e-3", "4.0e-3", "max. error in ulp", "torch eager"):
        assert text in said


def test_the_passport_says_which_error_the_tolerance_is_of():
    run = run_of([ok_plan(1, 80.0, accuracy=(accuracy(2e-3),))])
    labels = re.findall(r"<td title=[^>]*>([^<]*)<", passport_html(run, run.plans[0]))
    assert labels[labels.index("max. relative error") + 1] == "… that passes (tolerance)"


def test_the_options_of_a_sweep_answer_every_wrong_field_beside_it():
    page = opened(pipeline="sdpa", session={"sweep-options": True})
    assert not page.exception
    for key, text in (("seed", "-1"), ("score_shift", "1e9"), ("knob_budget", "many")):
        page.text_input(key=f"sweep-{key}").set_value(text).run()
    page.text_area(key="sweep-explicit").set_value("49;FOO=1\n4;KERNEL_CFG=43\nx").run()
    assert not page.exception
    said = "\n".join(alerts(page))
    for rule in (
        "a seed is a whole number from 0",
        "must be a number from -10,000 to 10,000.",
        "must be a whole number from 0 to 100,000.",
        "there is no knob 'FOO'.",
        "a plan begins with its engine id",
    ):
        assert rule in said
    assert "plans, as its latest run has, and 3 asked for besides: at least" in texts(page)


def test_only_attention_has_scores_to_shift():
    page = opened(pipeline="matmul", session={"sweep-options": True})
    assert not page.exception
    assert not any(field.key == "sweep-score_shift" for field in page.text_input)
