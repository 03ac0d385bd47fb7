"""A plan's numeric passport as a table: every error of every output, with torch's own in the same type beside it, so
that a number such as 2e-3 means something. Pure."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from app.theme import NOTHING, fmt_error, fmt_number
from engine.graph.operations import Attention
from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType
from engine.records.options import DataKind, SweepOptions
from engine.records.passport import MOST_REPEATING_US, REPEATED_RUNS, OutputAccuracy
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord
from engine.records.wording import several

Row = tuple[str, str, Callable[[OutputAccuracy], str]]


def _counts(one: OutputAccuracy) -> str:
    return " / ".join(NOTHING if count is None else f"{count:,}" for count in (one.nan, one.inf, one.unwritten))


def _wrongly(one: OutputAccuracy) -> str:
    """Nothing where the counts of NaN and Inf say it already."""
    return f"{one.nonfinite:,}" if one.nonfinite or one.nan is None else NOTHING


def _ulp(value: float | None) -> str:
    if value is None:
        return NOTHING
    return fmt_number(value, 2) if value < 1e5 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


ROWS: tuple[Row, ...] = (
    ("max. absolute error", "|got - want|", lambda one: fmt_error(one.max_abs)),
    ("max. relative error", "|got - want| over |want|, or over the rms if larger", lambda one: fmt_error(one.max_rel)),
    ("… that passes (tolerance)", "the largest that is still right", lambda one: fmt_error(one.tolerance)),
    ("error relative to the norm", "norm of the error over the reference's", lambda one: fmt_error(one.rel_norm)),
    ("max. error in ulp", "in the type's spacing at |want|, or at the rms if larger", lambda one: _ulp(one.max_ulp)),
    ("NaN / Inf / never written", "how many elements", _counts),
    ("not finite, wrongly", "NaN or infinite where the reference is finite", _wrongly),
)
"""Label, what it means, and how it reads."""


def passport_html(run: RunRecord, plan: PlanRecord) -> str:
    """The passport, or why there is none."""
    if not plan.accuracy:
        return f"<p class='ps-note'>{escape(_absent(plan))}</p>"
    baseline = run.baseline
    torch = {output.name: output for output in baseline.accuracy} if baseline else {}
    parts = [_table(output, torch.get(output.name), baseline.name if baseline else "torch") for output in plan.accuracy]
    notes = "".join(f"<li>{escape(note)}</li>" for note in passport_notes(run, plan))
    return f"<h4 class='ps-head'>Numeric passport</h4>{''.join(parts)}<ul class='ps-notes'>{notes}</ul>"


def passport_notes(run: RunRecord, plan: PlanRecord) -> list[str]:
    """What stands below the table: whether results repeat, what they were compared with and on which data, and why the
    tolerance is what it is."""
    notes, output = [], plan.accuracy[0]
    if (repeats := plan.repeats) is None:
        notes.append(f"Bitwise repeatability: {_unrepeated(run, plan)}.")
    elif repeats.bitwise:
        notes.append(
            f"Repeats bit by bit: {repeats.runs} runs on the same data gave the same {repeats.elements:,} elements."
        )
    else:
        share = f"{repeats.differing:,} of {repeats.elements:,} elements"
        notes.append(f"⚠ Does not repeat: {share} differed in at least one of {repeats.runs} runs on the same data.")
    reference = output.reference_dtype or "float64, or float32 where memory was short"
    notes.append(f"Reference: {reference}; {data_words(run.options)}.")
    notes.append(tolerance_reason(run.graph, run.options))
    if all(one.rel_norm is None and one.max_ulp is None for one in plan.accuracy):
        notes.append("Errors by norm and in ulp, and counts of NaN and Inf apart, were not recorded in this run.")
    return notes


def _unrepeated(run: RunRecord, plan: PlanRecord) -> str:
    """Why a plan was not run again and again."""
    looked, timings = any(one.repeats for one in run.plans), plan.timings
    if looked and timings and REPEATED_RUNS * timings.hot.median_us > MOST_REPEATING_US:
        return f"not looked at, for {REPEATED_RUNS} runs would take longer than {MOST_REPEATING_US * 1e-6:g} s"
    return "not looked at in this run"


def data_words(options: SweepOptions) -> str:
    """What the inputs were drawn from."""
    drawn = {
        DataKind.NORMAL: "normal random inputs",
        DataKind.UNIFORM: "uniform random inputs",
        DataKind.POSITIVE: "all-positive random inputs",
    }[options.data]
    shift = f", scores shifted by {options.score_shift:g}" if options.score_shift else ""
    return f"{drawn}, seed {options.seed}{shift}"


def tolerance_reason(graph: GraphSpec, options: SweepOptions) -> str:
    """Why the tolerance is what it is, in a sentence: its terms are those of the measuring process."""
    dtype = graph.io_dtype
    half = fmt_error(dtype.epsilon / 2)
    parts = [f"rounding a result to {dtype} moves it by up to {half} of itself, and a plan may round twice"]
    if any(isinstance(operation, Attention) for operation in graph.operations):
        parts.append("attention rounds its probabilities besides, which moves results by a share of the largest value")
    if dtype is DataType.FP32:
        parts.append("cuDNN may multiply fp32 in TF32, which cuts operands to 10 bits (2^-10 each)")
    parts.append("adding products in float32 loses a little with every one")
    if options.data is DataKind.POSITIVE:
        parts.append("sums of positive products grow and never cancel, so more is lost")
    if options.score_shift:
        parts.append("shifted scores pass through the shift's magnitude")
    return f"Tolerance: {'; '.join(parts)}. torch eager rounds after every operation and is allowed more."


def _absent(plan: PlanRecord) -> str:
    if plan.status is Status.OK:
        return "No numeric passport: this plan was built, not run."
    return (
        f"No numeric passport: this plan ended as {str(plan.status).replace('_', ' ')} before its result was compared."
    )


def _table(output: OutputAccuracy, torch: OutputAccuracy | None, name: str) -> str:
    passed = "✓ within tolerance" if output.passed else "✗ wrong"
    head = f"<tr><th>{escape(output.name)}, {several(output.elements, 'element')}: {passed}</th>"
    head += f"<th class='n'>this plan</th><th class='n'>{escape(name)}</th></tr>"
    rows = [
        f"<tr><td title='{escape(meaning, quote=True)}'>{label}</td><td class='n'>{own}</td>"
        f"<td class='n'>{text(torch) if torch else NOTHING}</td></tr>"
        for label, meaning, text in ROWS
        if (own := text(output)) != NOTHING or (torch and text(torch) != NOTHING)
    ]
    return f"<table class='ps-passport'>{head}{''.join(rows)}</table>"
