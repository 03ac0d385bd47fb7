"""The headline says losses as plainly as wins."""

from __future__ import annotations

from app.headline import headline, headline_html
from app.theme import PLANNED, provenance
from engine.graph.pipelines import CATALOGUE
from engine.records.plan import Status
from engine.records.run import Baseline, Refusal, RunKind
from tests.app.sample_runs import accuracy, failed_plan, ok_plan, run_of, timings

FP32 = CATALOGUE["matmul"].graph({"dtype": "fp32"})


def said(plans, **more):
    return headline(run_of(plans, **more))


def torch_at(us, name="torch eager"):
    return Baseline(name=name, accuracy=(), timings=timings(us))


def test_a_win_over_both():
    sentence = said([ok_plan(1, 100.0, modes={"A": 0}), ok_plan(2, 50.0, modes={"A": 1})]).sentence
    assert sentence == (
        "The fastest plan, eng2, takes 50.0 µs; 2.00x faster than the heuristics' first pick (100 µs) "
        "and 2.60x faster than torch eager (130 µs)."
    )


def test_a_loss_is_said_as_one():
    outcome = said([ok_plan(1, 100.0, modes={"A": 0})], baseline=torch_at(80.0))
    assert outcome.sentence.endswith("it is the heuristics' first pick; 1.25x slower than torch eager (80.0 µs).")
    assert outcome.figures[2].beside == "0.800x the time of the fastest: torch eager wins"


def test_every_mode_says_what_its_first_pick_costs():
    plans = [ok_plan(1, 100.0, modes={"A": 0, "B": 1}), ok_plan(2, 50.0, modes={"B": 0}), ok_plan(3, 75.0)]
    assert said(plans).figures[1].beside == "A 2.00x, B 1.00x the time of the fastest"


def test_half_a_percent_is_no_difference():
    assert "as fast as torch eager" in said([ok_plan(1, 100.0)], baseline=torch_at(100.3)).sentence


def test_a_first_pick_that_failed_is_named():
    plans = [failed_plan(3, Status.WRONG_RESULT, modes={"A": 0}), ok_plan(1, 100.0, modes={"A": 1})]
    outcome = said(plans)
    assert "the heuristics' first pick ended as wrong result" in outcome.sentence
    assert outcome.figures[1].beside == "A: wrong result"


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
    assert outcome.sentence.endswith("2.00x faster than torch eager (20.0 µs, in float32).")
    assert "in float32" in next(figure.beside for figure in outcome.figures if figure.label == "torch eager")
    assert "in float32" not in said([plan], graph=FP32, baseline=same).sentence
    assert "in float32" not in said([plan], baseline=rival).sentence, "bf16 operands are no matter of TF32"
