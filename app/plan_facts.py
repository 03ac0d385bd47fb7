"""Everything a record says of one plan, as pairs of name and text. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from app.judged import Judged
from app.sampled import REGIME_WORDS, spread, state_words
from app.theme import (
    NOTHING,
    STATUS_STYLES,
    fmt_bytes,
    fmt_ms,
)
from engine.plans.names import engine_label
from engine.records.arithmetic import arithmetic
from engine.records.circumstances import CALLED
from engine.records.gpu_state import GpuState
from engine.records.intervals import SPANNING
from engine.records.plan import PlanRecord
from engine.records.run import RunRecord
from engine.records.wording import microseconds, several, span

Fact = tuple[str, str]


def plan_facts(run: RunRecord, plan: PlanRecord, judged: Judged) -> list[Fact]:
    """Outcome, identity, how it was offered, what it needs, what it was seen to do. Accuracy is the
    passport's."""
    facts = [("outcome", STATUS_STYLES[plan.status].text)]
    if plan.message:
        facts += [("at stage", str(plan.stage)), ("message", plan.message)]
    label = engine_label(plan)
    facts += [("engine", f"{plan.identity.engine_id} ({label})" if label else str(plan.identity.engine_id))]
    facts += [("knobs", ", ".join(f"{k} = {v}" for k, v in sorted(plan.identity.knobs.items())) or "none")]
    facts += [("mode:rank", _ranks(plan))]
    facts += [("workspace", fmt_bytes(plan.workspace_bytes))]
    facts += [("behavior notes", _notes(plan.behavior_notes)), ("numerical notes", _notes(plan.numerical_notes))]
    if multiplies := arithmetic(run.graph.io_dtype, plan, run.options.data):
        facts.append(("multiplies in", multiplies.value))
    return [*facts, *_times(plan, judged), *_sampling(plan), *_sizes(plan)]


def _ranks(plan: PlanRecord) -> str:
    """As the table, the CSV file and the command line have it: a mode's first pick is its rank 0."""
    ranks = ", ".join(f"{mode}:{rank}" for mode, rank in plan.modes.items())
    return f"{ranks} (0 is first)" if ranks else f"no mode; {plan.origin}"


def _times(plan: PlanRecord, judged: Judged) -> list[Fact]:
    if plan.timings is None:
        return []
    facts, absent = [], []
    for regime, words in REGIME_WORDS.items():
        samples = plan.timings.of(regime)
        if samples is None:
            absent.append(words)
            continue
        s, judgement = spread(samples), judged.verdicts.get(regime)
        sure = judgement.intervals.get(plan.key) if judgement else None
        text = f"{microseconds(s.median_us, (sure.high - sure.low) / 2 if sure else 0.0)} median"
        few = s.samples < SPANNING
        if sure and (few or sure.low < sure.high):
            text += f", {sure.words}"
        if not few:
            text += f"; p10 to p90 {span(s.p10_us, s.p90_us)} of {several(s.samples, 'sample')}"
        facts.append((words, text))
    if absent:
        facts.append(("not measured", ", ".join(absent)))
    if plan.timings.dominates:
        waits = "the GPU is" if plan.timings.dominates == "gpu" else "the host is: a CUDA graph would hide it"
        facts.append(("longer per call", waits))
    return facts


_STOPPED = {
    "precise": "until its standard error was small enough",
    "budget": "until the budget of time and samples was used up",
    "screened": "in screening only: beyond any doubt far from the best",
}


def _sampling(plan: PlanRecord) -> list[Fact]:
    """How the hot samples came about, and the GPU meanwhile."""
    timings = plan.timings
    if timings is None:
        return []
    facts = [("sampled hot", _STOPPED[timings.stopped])] if timings.stopped else []
    if timings.set_aside:
        facts.append(("set aside", f"{several(timings.set_aside, 'sample')} below 75 % of the rated SM clock"))
    if timings.states:
        facts.append(("GPU meanwhile", _rounds(timings.states)))
    elif timings.gpu is not None:
        facts.append(("GPU meanwhile", state_words(timings.gpu) or NOTHING))
    if plan.capturable is not None:
        facts.append(("CUDA graph", "can be captured" if plan.capturable else "cannot be captured"))
    return facts


def _rounds(states: Sequence[GpuState]) -> str:
    """Ranges over all rounds, and in how many of them something held the clock down."""
    parts = []
    for name, unit in (("sm_clock_mhz", "MHz"), ("temperature_c", "°C"), ("power_w", "W")):
        values = [value for state in states if (value := getattr(state, name)) is not None]
        if values:
            low, high = f"{min(values):,.0f}", f"{max(values):,.0f}"
            parts.append(f"{low} {unit}" if low == high else f"{low} to {high} {unit}")
    held = Counter(CALLED.get(reason, reason) for state in states for reason in set(state.throttle_reasons))
    parts += [f"{reason} in {count} of {several(len(states), 'round')}" for reason, count in held.items()]
    return ", ".join(parts) or NOTHING


def _sizes(plan: PlanRecord) -> list[Fact]:
    facts = []
    if plan.build_ms is not None:
        beside = ", other builders at work" if plan.build_contended else ""
        facts.append(("build", fmt_ms(plan.build_ms) + beside))
    if plan.deserialize_ms is not None:
        facts.append(("load", f"{fmt_ms(plan.deserialize_ms)} from its serialized form"))
    if plan.blob_bytes is not None:
        facts.append(("serialized", fmt_bytes(plan.blob_bytes)))
    return facts


def _notes(notes: tuple[str, ...]) -> str:
    return ", ".join(notes) or "none"
