"""A run with everything that a record can hold, imported as a run file: each thing stands on the page, said truly."""

from __future__ import annotations

import hashlib

import pytest

from app.findings import findings_html, winner_row
from app.judged import findings, judge
from engine.records.constraints import Constraints
from engine.records.timings import Regime
from engine.runs.archive import import_run, pack
from engine.runs.home import data_home
from engine.runs.store import Store
from tests.app.full_run import full_run
from tests.app.pages import components, opened, tables, texts
from tests.app.sample_runs import ok_plan, run_of

pytestmark = [pytest.mark.app, pytest.mark.usefixtures("home")]
BLOB = b"an invented blob"
WINNER, NAME = "41;STAGES=4;TILE_SIZE=3", "eng41_k0=3_k1=4"


def imported(run):
    """The run as a colleague's file brings it; gives the link that opens it."""
    digest = hashlib.sha256(BLOB).hexdigest()
    kept = {"blob_sha256": digest, "blob_bytes": len(BLOB)}
    plans = tuple(plan.model_copy(update=kept) if plan.blob_sha256 else plan for plan in run.plans)
    with Store(data_home()) as store:
        return {"run": import_run(store, pack(run.model_copy(update={"plans": plans}), {digest: BLOB})).id}


@pytest.fixture
def link():
    return imported(full_run())


def test_the_verdict_and_every_finding_stand_on_the_page(link):
    page = opened(**link)
    assert not page.exception
    said = texts(page)
    for sentence in (
        "imported, measured on NVIDIA H200, cuDNN 9.19.0, 2026-01-02",
        f"3 plans tie hot at 80.00 to 80.37 µs; {NAME} is chosen among them for the smallest workspace.",
        "The heuristics' first pick takes 1.28x the time of the best (102.5 µs)",
        "torch eager takes 1.64x the time of the best (131 µs)",
        f"The winner changes: hot {NAME}, cold eng10",
        "The difference is confirmed: in a fresh process, in turns,",
        "found by the knob search, ties with the best of these",
        "No workspace: would cost 28 % and exclude 3 plans.",
        "⚠ Power capping was active in 30 of 120 rounds (SM clock 1,740 to 1,980 MHz).",
        "⚠ 6 samples of 1 plan set aside: the SM clock was below 75 % of the rated one.",
        "⚠ Sampling ended by its budget of time and samples for 1 plan",
        "2 plans are beyond any doubt far from the best",
        "The hot verdict was there after 4.2 s, all else after 10.6 s.",
        "fp32 is multiplied in",
        "TF32",
    ):
        assert sentence in said
    assert "not measured" not in said


def test_every_regime_has_its_own_winner_and_says_how_the_hot_one_fares():
    judged = judge(full_run(), Constraints())
    rows = {regime: winner_row(judged, regime) for regime in Regime}
    assert rows[Regime.HOT] == ("GPU, hot", f"{NAME}, of 3 that tie", "80.00 µs", "★ wins")
    assert rows[Regime.COLD] == ("GPU, cold", "eng10", "92.03 µs", "1.10x the time of the best")
    assert rows[Regime.HOST][3] == "= ties"
    limited = judge(full_run(), Constraints(workspace_limit_bytes=0))
    assert winner_row(limited, Regime.HOT)[1] == "eng10"


def test_modes_that_fare_alike_share_a_line():
    picked = [ok_plan(1, 80.0, modes={"A": 0, "B": 0}), ok_plan(2, 99.0, modes={"FALLBACK": 0})]
    run = run_of(picked)
    html = findings_html(run, judge(run, Constraints()))
    assert "<td>A, B</td><td>eng1</td><td>★ wins</td><td>after 1 of 1 plan</td>" in html
    assert "<td>FALLBACK</td><td>eng2</td><td>1.24x the time of the best</td><td>none of 1 plan</td>" in html


def test_a_reversed_order_and_an_unlisted_winner_are_said_plainly():
    run = full_run(reversed_order=True)
    judged = judge(run, Constraints())
    said = {finding.about: finding for finding in findings(run, judged)}
    assert judged.hot.tie_set == (WINNER,)
    assert said["Confirmation"].warns
    assert said["Confirmation"].text.startswith("The order is reversed: do not trust the sweep")
    assert (
        "beats every listed one: it takes 0.869x the time of the best of these." in said["Beyond the heuristics"].text
    )


def test_a_confirmation_speaks_of_the_winner_that_it_measured():
    run = full_run()
    said = {finding.about: finding for finding in findings(run, judge(run, Constraints(workspace_limit_bytes=0)))}
    assert said["Confirmation"].text.endswith("That was the winner without the constraints that are set now.")
    run = run.model_copy(update={"options": run.options.model_copy(update={"workspace_limit_bytes": 1 << 40})})
    said = {finding.about: finding for finding in findings(run, judge(run, Constraints(workspace_limit_bytes=0)))}
    assert said["Confirmation"].text.endswith("That was the winner by the constraints of the sweep.")


def test_the_table_has_every_regime_and_how_each_plan_stands(link):
    page = opened(**link)
    (table,) = components(page, "table")
    titles = [column["title"] for column in table["columns"]]
    for title in ("hot (µs)", "cold (µs)", "host (µs)", "host, ready (µs)", "end to end (µs)", "differing"):
        assert title in titles
    standings = [row[titles.index("hot")] for row in tables(page)[0]]
    assert standings[:7] == ["★ winner", "= ties", "= ties", "behind", "behind", "○ screened", "○ screened"]
    outcomes = {row[0]: row[titles.index("outcome")] for row in tables(page)[0]}
    assert outcomes["eng3"] == "≠ wrong result"
    assert outcomes["eng49_k12=15_k24=30"] == "◷ timed out"


def test_the_winners_passport_and_sampling_are_complete(link):
    said = texts(opened(**link))
    for text in (
        "until its standard error was small enough",
        "6 samples below 75 % of the rated SM clock",
        "1,740 to 1,980 MHz, 47 to 61 °C, 412 to 699 W, power capping in 30 of 120 rounds",
        "no mode; knob search",
        "Repeats bit by bit: 10 runs on the same data gave the same 12,845,056 elements.",
        "Reference: float64; normal random inputs, seed 7.",
        "cuDNN may multiply fp32 in TF32",
    ):
        assert text in said


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            "3",
            (
                "✗ wrong",
                "NaN / Inf / never written 128 / 3 / 4,096 0 / 0 / 0",
                "not finite, wrongly 131",
                "cannot be handed over",
            ),
        ),
        ("7", ("⚠ Does not repeat: 311 of 12,845,056 elements differed",)),
        ("0", ("float32, by its error", "until the budget of time and samples was used up", "cannot be captured")),
        ("52", ("in screening only: beyond any doubt far from the best", "Bitwise repeatability: not looked at")),
        ("49;KERNEL_CFG=30;SPLIT_K_SLC=15", ("timed out", "No numeric passport", "no mode; explicit")),
    ],
)
def test_every_kind_of_plan_has_its_say(link, plan, expected):
    page = opened(**link, plan=plan)
    assert not page.exception
    said = " ".join(texts(page).split())
    for text in expected:
        assert text in said


def test_another_regime_redraws_the_chart_by_its_own_verdict(link):
    page = opened(**link, regime="cold")
    chart = components(page, "chart")[0]
    assert chart["rows"][0]["spoken"].startswith("eng10")
    assert "nothing of its own in the L2 cache" in chart["x"]["title"]
    assert chart["label"].startswith("5 of 11 plans timed; fastest eng10")
