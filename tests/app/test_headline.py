"""The headline says losses as plainly as wins."""

from __future__ import annotations

from app.headline import headline, headline_html
from app.judged import judge
from app.theme import PLANNED, provenance
from engine.graph.pipelines import CATALOGUE
from engine.records.constraints import Constraints
from engine.records.plan import Status
from engine.records.run import Baseline, Refusal, RunKind
from tests.app.sample_reuse import studied_run
from tests.app.sample_runs import accuracy, failed_plan, ok_plan, run_of, timings

FP32 = CATALOGUE["matmul"].graph({"dtype": "fp32"})


def said(plans, **more):
    return headline(run_of(plans, **more))


def torch_at(us, name="torch eager"):
    return Baseline(name=name, accuracy=(), timings=timings(us))


def test_a_win_over_both():
    sentence = said([ok_plan(1, 100.0, modes={"A": 0}), ok_plan(2, 50.0, modes={"A": 1})]).sentence
    assert sentence == (
        "eng2 wins hot with 50.00 µs (95 % interval 49.50 to 50.50 µs); the next plan takes 2.00x as long. "
        "The heuristics' first pick takes 2.00x the time of the best (100.0 µs); "
        "torch eager takes 2.60x the time of the best (130 µs)."
    )


def test_a_loss_is_said_as_one():
    outcome = said([ok_plan(1, 100.0, modes={"A": 0})], baseline=torch_at(80.0))
    assert outcome.sentence.endswith(
        "The heuristics' first pick wins; torch eager is faster: 0.800x the time of the best (80.0 µs)."
    )
    assert outcome.figures[2].beside == "0.800x the time of the best: torch eager wins"


def test_the_first_pick_is_named_and_says_how_it_stands():
    picks = ok_plan(1, 100.0, modes={"A": 0, "B": 1})
    assert said([picks, ok_plan(2, 50.0, modes={"B": 0})]).figures[1].beside == "eng1, 2.00x the time of the best"
    assert said([picks, ok_plan(2, 150.0)]).figures[1].beside == "eng1, wins"


def test_a_first_pick_that_does_not_meet_the_constraints_is_no_loss_of_the_winner():
    run = run_of([ok_plan(1, 80.0, modes={"A": 0}, workspace_bytes=64), ok_plan(2, 100.0, modes={"A": 1})])
    said = headline(run, judge(run, Constraints(workspace_limit_bytes=0)))
    assert (
        "first pick does not meet the constraints, and takes 0.800x the time of the best that meets the constraints"
        in said.sentence
    )
    assert said.figures[1].beside == "eng1, 0.800x the time of the best that meets the constraints"


def test_a_first_pick_that_wins_reads_as_long_in_both_places():
    leads, pick, *_ = said([ok_plan(1, 90.5, modes={"A": 0}), ok_plan(2, 150.0)]).figures
    assert (leads.label, leads.value, pick.value) == ("Winner", "90.50 µs", "90.50 µs")


def test_plans_that_tie_are_said_to_tie():
    outcome = said([ok_plan(1, 80.0, modes={"A": 0}, workspace_bytes=64), ok_plan(2, 80.3), ok_plan(3, 99.0)])
    assert outcome.sentence.startswith(
        "2 plans tie hot at 80.00 to 80.30 µs; eng2 is chosen among them for the smallest "
    )
    assert "The heuristics' first pick ties;" in outcome.sentence
    lead = outcome.figures[0]
    assert (lead.label, lead.value) == ("2 plans tie", "80.30 µs")
    assert lead.beside == "eng2, chosen for the smallest workspace, 95 % interval 80.02 to 80.58 µs"


def test_constraints_that_nothing_meets_are_said_to():
    run = run_of([ok_plan(1, 80.0, workspace_bytes=64)])
    outcome = headline(run, judge(run, Constraints(workspace_limit_bytes=0)))
    assert outcome.sentence == "None of 1 measured plan meets the constraints (No workspace)."
    assert outcome.figures == ()


def test_torch_ties_by_the_measure_that_plans_tie_by():
    for best, torch in ((100.0, 100.9), (100.0, 99.1), (2.0, 2.09)):
        outcome = said([ok_plan(1, best)], baseline=torch_at(torch))
        assert "Torch eager is as fast as the best" in outcome.sentence
        assert outcome.figures[-2].beside.endswith("no difference that matters")
    assert "Torch eager takes 1.01x" in said([ok_plan(1, 100.0)], baseline=torch_at(101.2)).sentence


def test_a_first_pick_that_failed_is_named():
    plans = [failed_plan(3, Status.WRONG_RESULT, modes={"A": 0}), ok_plan(1, 100.0, modes={"A": 1})]
    outcome = said(plans)
    assert "The heuristics' first pick ended as wrong result" in outcome.sentence
    assert outcome.figures[1].beside == "eng3, wrong result"


def test_without_torch_the_reason_stands_in_its_place():
    missing = Baseline(name="torch eager", accuracy=(), timings=None, message="out of memory")
    outcome = said([ok_plan(1, 100.0)], baseline=missing)
    assert "torch" not in outcome.sentence
    assert [(f.value, f.beside) for f in outcome.figures if f.label == "torch eager"] == [("–", "out of memory")]


def test_plans_alone_are_never_called_measured():
    plans = [ok_plan(1, 1.0, modes={"A": 0}, timings=None, accuracy=()), failed_plan(2, Status.UNSUPPORTED)]
    outcome = said(plans, kind=RunKind.PLAN, baseline=None)
    assert outcome.sentence == "1 of 2 plans built for NVIDIA H200; planned, not measured."
    assert not any("roofline" in figure.label for figure in outcome.figures)
    pick = next(figure for figure in outcome.figures if figure.label == "Heuristics' first pick")
    assert (pick.value, pick.beside) == ("engine 1", "eng1")  # a plan's name is too long for large print


def test_plans_that_were_cancelled_are_not_called_failed():
    plans = [ok_plan(1, 1.0, timings=None, accuracy=()), *(failed_plan(n, Status.CANCELLED) for n in (2, 3))]
    built = said(plans, kind=RunKind.PLAN, baseline=None).figures[0]
    assert (built.value, built.beside) == ("1 of 3", "0 failed, 2 cancelled")


def test_a_study_of_reuse_says_what_it_is_and_where_it_is_shown():
    sentence = headline(studied_run()).sentence
    assert sentence == (
        "1 of 1 plans built for NVIDIA H200; planned, not measured: a study of reuse, and what it found stands on the "
        "Reuse page."
    )


def test_a_refused_graph():
    outcome = said([], refusal=Refusal(message="no plan", reasons=("head dim",)), baseline=None)
    assert outcome == type(outcome)("cuDNN 9.19.0 has no plan for this graph.", ())


def test_every_number_stands_beside_its_origin_and_foreign_text_is_inert():
    run = run_of([ok_plan(1, 100.0, plan_name="<img src=x onerror=alert(1)>")])
    text = headline_html(headline(run), provenance(run, recorded=True))
    assert "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-01-02" in text
    assert "<img" not in text
    assert "planned, not measured" in headline_html(headline(run), PLANNED)


def test_no_name_turns_round_the_numbers_after_it():
    run = run_of([ok_plan(1, 100.0, plan_name="eng1\u202e")], baseline=torch_at(130.0, "torch\u2067"))
    text = headline_html(headline(run), provenance(run, recorded=False))
    assert not {"\u202e", "\u2067"} & set(text)


def test_torch_in_float32_is_no_silent_rival_of_a_plan_in_tf32():
    plan = ok_plan(1, 10.0, modes={"A": 0}, accuracy=(accuracy(1.5e-3, tolerance=6e-3),))
    rival = Baseline(name="torch eager", accuracy=(accuracy(3e-6, tolerance=6e-3),), timings=timings(20.0))
    same = rival.model_copy(update={"accuracy": (accuracy(1.5e-3, tolerance=6e-3),)})
    outcome = said([plan], graph=FP32, baseline=rival)
    assert outcome.sentence.endswith("torch eager takes 2.00x the time of the best (20.0 µs, in float32).")
    assert "in float32" in next(figure.beside for figure in outcome.figures if figure.label == "torch eager")
    assert "in float32" not in said([plan], graph=FP32, baseline=same).sentence
    assert "in float32" not in said([plan], baseline=rival).sentence, "bf16 operands are no matter of TF32"
