"""The Explore page: recordings, links, wrong input, and a data folder that is empty, full of failures or unusable."""

from __future__ import annotations

import itertools
import statistics
import time
from functools import partial

import numpy as np
import pytest

from app import resources
from app.judged import judge, plan_of
from app.links import to_query
from app.run_list import explore_state
from app.sampled import REGIME_WORDS
from app.theme import fmt_ratio
from engine.records.constraints import Constraints
from engine.records.plan import Status
from engine.records.run import Refusal
from engine.records.timings import Regime
from engine.runs.home import data_home
from engine.runs.library import Library
from engine.runs.recordings import Recordings
from engine.runs.store import Store, StoreError
from engine.runs.summary import Origin, brief, summarize
from tests.app.pages import ROOT, alerts, components, fields, fill, opened, tables, tell, texts
from tests.app.sample_runs import ok_plan, run_of, wide_run

pytestmark = [pytest.mark.app, pytest.mark.usefixtures("home")]
SHIPPED = ROOT / "engine" / "plans" / "gpu_properties"
RECORDED = [one for one in Recordings().summaries() if one.measured]
NUMBERS = ["0", "-1", "2147483648", "abc", "1.5", "9" * 30]


def keep(run):
    """A run of somebody's own."""
    with Store(data_home()) as store:
        store.create_run(run)
    return run


def link_to(run):
    """The link that opens a run of the tests."""
    return to_query(explore_state(summarize(run, map(brief, run.plans), Origin.OWN)))


def test_a_first_visit_shows_a_recording_labelled_as_one():
    page = opened()
    assert not page.exception
    said = texts(page)
    assert "recorded on NVIDIA H200, cuDNN 9.19.0, " in said
    assert "wins hot with" in said or "plans tie hot at" in said
    assert "loads in cuDNN 9.19.0 only" in said
    chart = components(page, "chart")[0]
    assert len(chart["rows"]) > 10
    chosen = next(row for row in chart["rows"] if row["key"] == chart["selected"])
    assert chart["right"][chart["rows"].index(chosen)].startswith("★"), "the winner, where nobody chose another"
    assert len(tables(page)[0]) >= len(chart["rows"])


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: f"{run.pipeline}-{run.id[:6]}")
def test_every_recording_opens_by_its_link(run):
    page = opened(**to_query(explore_state(run)))
    assert not page.exception
    assert page.selectbox(key="source").value == run.id
    assert alerts(page) == []
    record = resources.resources().library.get(run.id)
    winner = plan_of(record, judge(record, Constraints.of(record.options)).winner)
    assert winner is not None and winner.plan_name in texts(page)
    assert not page.download_button(key="download-plan").disabled


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: f"{run.pipeline}-{run.id[:6]}")
def test_what_is_said_of_a_recording_is_so_and_what_it_lacks_is_said(run):
    record = Recordings().get(run.id)
    said = " ".join(texts(opened(run=run.id)).split())
    medians = {regime: {} for regime in Regime}
    for plan in record.timed():
        for regime in Regime:
            if samples := plan.timings.of(regime):
                medians[regime][plan.key] = float(np.median(samples.values.astype(float)))
    for regime, found in medians.items():
        assert (f"{REGIME_WORDS[regime]} not measured – –" in said) == (not found)
    best = min(medians[Regime.HOT].values())
    if (pick := record.first_pick) and (us := medians[Regime.HOT].get(pick.key)) and us > 1.05 * best:
        assert f"heuristics' first pick takes {fmt_ratio(us / best)} the time of the best" in said
    torch_us = record.baseline.timings.hot.median_us
    assert f"{fmt_ratio(torch_us / best)} the time of the best" in said
    assert (
        ("None: the winner was not measured again" in said) or record.confirmation or "Not needed: the winner" in said
    )
    sampled = any(plan.timings and plan.timings.stopped for plan in record.plans)
    assert ("Plans were timed one after another, not in turns." in said) == (not sampled)
    if all(output.nan is None for plan in record.plans for output in plan.accuracy):
        assert "counts of NaN and Inf apart, were not recorded in this run." in said


def test_a_link_shows_the_same_plan_chart_and_timing():
    run = RECORDED[-1]
    plan = resources.resources().library.get(run.id).plans[3]
    page = opened(**to_query(explore_state(run)), plan=plan.key, regime="cold", view="error")
    assert page.selectbox(key="plan").value == plan.key
    assert fields(page)["view"] == "error"
    assert fields(page)["regime"] == "cold"
    assert plan.plan_name in texts(page)


def test_a_choice_made_on_the_page_is_written_into_the_address():
    page = opened(pipeline="matmul")
    keys = page.selectbox(key="plan").options
    assert len(keys) == len(tables(page)[0])
    fill(page, view="build")
    other = resources.resources().library.get(page.selectbox(key="source").value).plans[-1].key
    page.selectbox(key="plan").set_value(other).run()
    assert not page.exception
    assert page.query_params["plan"] == other
    assert page.query_params["view"] == "build"
    assert page.query_params["target"] == "h200"
    assert opened(**dict(page.query_params)).selectbox(key="plan").value == other


def test_nothing_is_written_into_the_address_until_something_is_chosen():
    assert dict(opened().query_params) == {}


@pytest.mark.parametrize(
    "query",
    [
        {"pipeline": "nonsense", "n": "5"},
        {"run": "zzz", "plan": "<b>", "regime": "warm", "view": "?", "target": "tpu"},
        {"%00": "\x00", "pipeline": "conv_relu", "k": "🦆" * 500},
        {"run": "0" * 32},
        {"target": "local:GPU-none"},
        {"target": "file-000000000000"},
        {"dtype": "fp8", "layout": "nhwc8"},
        {"plan": "999;TILEK=1"},
    ],
)
def test_a_nonsense_link_is_answered_and_the_page_stays_usable(query):
    page = opened(**query)
    assert not page.exception
    assert alerts(page), query
    assert "recorded on NVIDIA H200" in texts(page)
    page.selectbox(key="pipeline").set_value("matmul").run()
    assert not page.exception
    assert not page.query_params.keys() & {"%00", "n", "view", "regime"}


@pytest.mark.parametrize("text", NUMBERS)
def test_a_wrong_number_is_answered_beside_its_field_and_the_graph_stays(text):
    page = opened(pipeline="conv_relu")
    before = components(page, "graph")
    fill(page, n=text)
    assert not page.exception
    (alert,) = alerts(page)
    rule = "must be a whole number from 1 to 1,048,576. The default is 8."
    assert alert == f"n = {text}: {rule}"
    assert components(page, "graph") == before
    assert fields(page)["n"] == text, "what was typed stays to be mended"
    fill(page, n="8")
    assert alerts(page) == []


@pytest.mark.parametrize("text", ["abc", "nan", "inf", "1e7"])
def test_a_wrong_scale_is_answered(text):
    page = opened(pipeline="matmul_epilogue")
    fill(page, alpha=text)
    assert alerts(page) == [
        f"alpha = {text}: must be a finite number from -1,000,000.0 to 1,000,000.0. The default is 0.125."
    ]


def test_sizes_that_do_not_fit_together_name_the_field():
    page = opened(pipeline="sdpa")
    fill(page, hkv="5")
    assert alerts(page) == [
        "hkv = 5: hq = 16 query heads cannot be shared evenly among 5 key/value heads. Use an hkv that divides hq, or "
        "an hq that is a multiple of hkv."
    ]


def test_more_memory_than_the_target_has_names_the_letter_and_what_fits():
    page = opened(pipeline="conv_bias_relu")
    fill(page, n="1048576")
    assert not page.exception
    said = alerts(page)
    assert said
    assert all(alert.startswith("n = 1,048,576: the tensors of this graph take 2,3") for alert in said)
    assert all("or less fits" in alert for alert in said)
    assert resources.resources().manager.jobs() == (), "nothing was planned"


def test_a_smaller_target_refuses_what_a_larger_one_takes():
    page = opened(pipeline="conv_bias_relu", n="4096", h="112", w="112", target="l4")
    assert any("NVIDIA L4 has" in alert for alert in alerts(page))


def test_a_link_to_a_target_that_is_not_here_says_so_until_something_is_changed():
    page = opened(pipeline="matmul", target="file-0123456789ab")
    for _ in range(2):  # A page runs again by itself, when planning ends.
        (alert,) = alerts(page)
        assert alert.startswith("target = file-0123456789ab: ") and "Upload the file again." in alert
        assert page.selectbox(key="target").value == "h200"
        page.run()
    fill(page, m="64")
    assert alerts(page) == []


def test_another_pipeline_keeps_what_means_the_same_and_the_way_back_loses_nothing():
    page = opened(pipeline="conv_relu")
    fill(page, k="64")
    fill(page, dtype="fp32")
    fill(page, n="32")
    fill(page, h="0")
    page.selectbox(key="pipeline").set_value("matmul").run()
    assert fields(page)["dtype"] == "fp32"
    assert fields(page)["n"] == "256"
    page.selectbox(key="pipeline").set_value("conv_relu").run()
    assert fields(page)["n"] == "32"
    assert not page.exception


def test_what_was_typed_before_a_link_was_followed_is_not_taken_for_the_link():
    page = opened(pipeline="matmul")
    before = components(page, "form")[0]["edition"]
    fill(page, m="128")
    page.query_params["m"] = "64"
    page.run()
    assert fields(page)["m"] == "64"
    fill(page, edition=before, m="999")
    assert fields(page)["m"] == "64"
    assert page.query_params["m"] == "64"
    fill(page, m="96")
    assert page.query_params["m"] == "96"


def test_a_link_with_a_wrong_number_still_opens_the_run_of_the_graph_that_is_drawn():
    run = next(one for one in RECORDED if explore_state(one) and not explore_state(one).given)
    page = opened(**{**to_query(explore_state(run)), "dtype": "fp8"})
    assert [alert.startswith("dtype = fp8") for alert in alerts(page)] == [True]
    assert page.selectbox(key="source").value == run.id


@pytest.mark.parametrize("typed", [None, 5, "m", [], {}, {"edition": 1}, {"edition": "x", "texts": []}])
def test_what_no_browser_of_ours_sends_leaves_the_form_as_it_is(typed):
    page = opened(pipeline="matmul")
    tell(page, 0, typed)
    assert not page.exception
    assert fields(page)["m"] == "256"


def with_properties(data, **query):
    """The page after a properties file has been uploaded as a target."""
    page = opened(session={"another-gpu": True}, **query)
    page.file_uploader(key="properties").set_value(("gpu.json", data, "application/json")).run()
    assert not page.exception
    return page


def test_an_uploaded_gpu_becomes_the_target_and_stays_in_the_link():
    page = with_properties((SHIPPED / "l4.json").read_bytes(), pipeline="conv_bias_relu", n="4096", h="112", w="112")
    name = page.selectbox(key="target").value
    assert name.startswith("file-")
    assert page.query_params["target"] == name
    assert any("NVIDIA L4 has" in alert for alert in alerts(page)), "its memory is what counts"
    assert opened(**dict(page.query_params)).selectbox(key="target").value == name


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", ""), (b"{", "JSON"), (b"[]", ""), (b"{}", "deviceVer"), (b"\xff\xfe", ""), (b'{"deviceVer": "x"}', "")],
)
def test_a_broken_properties_file_is_answered_and_the_target_stays(data, says):
    page = with_properties(data)
    assert page.selectbox(key="target").value == "h200"
    assert len(alerts(page)) == 1
    assert says in alerts(page)[0]


def test_the_samples_of_the_chosen_plan_are_a_table_too():
    run = keep(run_of([ok_plan(1, 80.0)]))
    assert len(tables(opened(**link_to(run)))) == 1, "only of plans until somebody asks"
    samples = tables(opened(session={"samples-panel": True}, **link_to(run)))[1]
    taken = run.plans[0].timings.hot.values
    assert [(number, float(us)) for number, us, *_ in samples] == [
        (str(number), pytest.approx(us, rel=1e-3)) for number, us in enumerate(taken.tolist())
    ]


def test_without_a_gpu_the_sweep_button_says_why_it_is_off():
    page = opened()
    assert page.button(key="sweep").disabled
    assert "it needs an NVIDIA GPU in this machine" in texts(page)


def test_a_run_with_every_kind_of_failure():
    run = keep(wide_run())
    page = opened(**link_to(run))
    assert not page.exception
    outcomes = {row[2] for row in tables(page)[0]}
    assert {"✓ ok", "≠ wrong result", "◷ timed out", "↯ crashed", "✗ build failed", "⊘ unsupported"} <= outcomes
    assert "measured here on NVIDIA H200" in texts(page)
    for plan in run.plans:
        if plan.status not in (Status.OK, Status.LISTED):
            page.selectbox(key="plan").set_value(plan.key).run()
            assert not page.exception
            assert page.download_button(key="download-plan").disabled
            assert "it cannot be handed over" in texts(page)
            assert plan.message in texts(page)


def test_a_refused_graph_shows_every_reason():
    refusal = Refusal(message="No plan for *this* graph", reasons=("head dim <100>", "not on sm_90"))
    page = opened(**link_to(keep(run_of([], refusal=refusal, baseline=None))))
    said = texts(page)
    assert not page.exception
    assert "cuDNN 9.19.0 has no plan for this graph." in said
    assert "head dim" in said
    assert "not on" in said


def test_a_reason_that_the_message_gives_is_not_said_twice():
    refusal = Refusal(message="The head dim is odd, so take d = 96", reasons=("The head dim is odd", "too new"))
    said = texts(opened(**link_to(keep(run_of([], refusal=refusal, baseline=None)))))
    assert "- The head dim is odd" not in said
    assert "- too new" in said


def test_an_own_run_is_chosen_among_several_and_the_recording_stays_one_choice_away():
    run = keep(wide_run())
    page = opened()
    assert page.selectbox(key="source").value == run.id
    labels = page.selectbox(key="source").options
    assert any(label.startswith("recorded on NVIDIA H200") for label in labels)
    assert any(label.startswith("planned here for NVIDIA H200") for label in labels)


def test_a_data_folder_that_cannot_be_used_leaves_the_recordings(home):
    home.write_text("a file stands where the folder should be")
    page = opened()
    assert not page.exception
    assert "recorded on NVIDIA H200" in texts(page)
    page.selectbox(key="source").set_value("here").run()
    assert not page.exception
    assert "PLANSCOPE_HOME" in texts(page)


def test_a_database_that_cannot_be_read_is_named_without_a_traceback(monkeypatch):
    page = opened()

    def locked():
        raise StoreError("The database is locked by another process: wait, then try again.")

    monkeypatch.setattr(resources.resources().library, "summaries", locked)
    for name in ("explore", "runs"):
        page.switch_page(f"../pages/{name}.py").run()
        assert not page.exception
        assert "The database is locked by another process" in texts(page)


def test_without_any_run_the_page_says_planned_not_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "Library", partial(Library, recordings=Recordings(tmp_path)))
    page = opened(pipeline="matmul", m="1048576", n="1048576")  # too large, so nothing is built for it
    assert not page.exception
    assert page.selectbox(key="source").options == [page.selectbox(key="source").options[0]]
    assert page.selectbox(key="source").options[0].endswith("not measured")


@pytest.mark.timing
def test_a_change_of_chart_or_plan_takes_under_150_ms_of_server_time():
    page = opened(pipeline="conv_bias_relu")
    keys = list(resources.resources().library.get(page.selectbox(key="source").value).plans)
    views = itertools.cycle(["error", "build", "time"])
    taken = []
    for i in range(20):  # the first ten make what is kept, as any first look does
        began = time.process_time()
        if i % 2:
            fill(page, view=next(views))
        else:
            page.selectbox(key="plan").set_value(keys[i].key).run()
        taken.append(time.process_time() - began)
        assert not page.exception
    assert statistics.median(taken[10:]) < 0.150


def test_a_recording_with_another_scalar_says_so():
    said = texts(opened(pipeline="matmul_epilogue", alpha="5"))
    assert "recorded on NVIDIA H200" in said
    assert "This run passed alpha = 0.125 instead of 5: its errors are of that value" in said
    assert "instead of" not in texts(opened(pipeline="matmul_epilogue"))
