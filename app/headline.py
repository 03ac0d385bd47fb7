"""What a run comes to, in a sentence and a few numbers: losses as plainly as wins. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from app.graph_nodes import cleaned
from app.judged import Judged, judge, plan_of
from app.theme import (
    FASTEST_COLOUR,
    FIRST_PICK_COLOUR,
    OTHER_COLOUR,
    Provenance,
    fmt_bytes,
    fmt_ms,
    fmt_percent,
    fmt_ratio,
    fmt_us,
)
from engine.graph.roofline import roofline
from engine.records.arithmetic import arithmetic, seen_arithmetic
from engine.records.constraints import Constraints
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunKind, RunRecord
from engine.records.sentences import winner_sentence
from engine.records.verdict import SAME_SHARE, SAME_US, Verdict
from engine.records.wording import microseconds, span

_TF32 = "TF32 keeps 10 bits of mantissa: errors of 1e-3, where float32 has 1e-6"
_ORIGIN_COLOURS = {"blue": "#3b74d8", "green": FASTEST_COLOUR, "orange": FIRST_PICK_COLOUR, "gray": OTHER_COLOUR}


@dataclass(frozen=True)
class Figure:
    """One number of the headline: what it is, its value, and a line on how it compares."""

    label: str
    value: str
    beside: str


@dataclass(frozen=True)
class Headline:
    """``sentence`` is plain text."""

    sentence: str
    figures: tuple[Figure, ...]


def hot_us(plan: PlanRecord | None) -> float | None:
    """A plan's hot median, None where it has none."""
    return plan.timings.hot.median_us if plan is not None and plan.timings is not None else None


def headline(run: RunRecord, judged: Judged | None = None) -> Headline:
    """The headline of a run, whatever became of it. ``judged``: by which constraints; by the run's own where not
    given."""
    judged = judged or judge(run, Constraints.of(run.options))
    if run.refusal is not None:
        return Headline(f"cuDNN {run.environment.cudnn_backend} has no plan for this graph.", ())
    hot = judged.hot
    if hot is None:
        return _unmeasured(run)
    best, winner = plan_of(run, hot.best), plan_of(run, hot.winner)
    if best is None or winner is None:
        return Headline(winner_sentence(hot), ())
    best_us = hot.intervals[best.key].median
    torch = run.baseline.timings.hot.median_us if run.baseline and run.baseline.timings else None
    name = run.baseline.name if run.baseline else "torch eager"
    unlike = _unlike(run, best)
    figures = [_leads(hot, winner), *_versus(run, hot, best_us, torch, name, unlike)]
    sentence = f"{_wins(hot)} {_compared(run, hot, best_us, torch, name, unlike)}".strip()
    return Headline(sentence, (*figures, *_share(run, best_us), *_multiplies(run, winner)))


def _wins(hot: Verdict) -> str:
    """Who wins; of several that tie only the one that is chosen is named: chart and table mark the others."""
    if len(hot.tie_set) == 1 or hot.winner is None:
        return winner_sentence(hot)
    times = span(*(hot.intervals[key].median for key in (hot.tie_set[0], hot.tie_set[-1])))
    chosen = f"{hot.names[hot.winner]} is chosen among them for {hot.reason}"
    return f"{len(hot.tie_set)} plans tie hot at {times}; {chosen}."


def _leads(hot: Verdict, winner: PlanRecord) -> Figure:
    """Who wins, or how many tie."""
    time, interval = _time(hot, winner), hot.intervals[winner.key].words
    if len(hot.tie_set) == 1:
        return Figure("Winner", time, f"{winner.plan_name}, {interval}")
    beside = f"{winner.plan_name}, chosen for {hot.reason}, {interval}"
    return Figure(f"{len(hot.tie_set)} plans tie", time, beside)


def _time(hot: Verdict, plan: PlanRecord) -> str:
    """A plan's hot median, with as many digits as its interval supports where it has one."""
    sure = hot.intervals.get(plan.key)
    return fmt_us(hot_us(plan)) if sure is None else microseconds(sure.median, (sure.high - sure.low) / 2)


def _compared(run: RunRecord, hot: Verdict, best_us: float, torch: float | None, name: str, unlike: str) -> str:
    """The heuristics' first pick and torch beside the best, as a sentence; "" where neither is there."""
    pick, parts = run.first_pick, []
    best = _best(hot)
    if pick is not None and pick.key in hot.tie_set:
        parts.append(f"the heuristics' first pick {'wins' if pick.key == hot.winner else 'ties'}")
    elif pick is not None and pick.key in hot.intervals:
        ratio = fmt_ratio(hot.intervals[pick.key].median / best_us)
        meets = "takes" if hot.constraints.admit(pick) else "does not meet the constraints, and takes"
        parts.append(f"the heuristics' first pick {meets} {ratio} the time of {best} ({_time(hot, pick)})")
    elif pick is not None:
        parts.append(f"the heuristics' first pick ended as {_status(pick)}")
    if torch is not None:
        ratio = f"{fmt_ratio(torch / best_us)} the time of {best}"
        takes = {"ties": f"is as fast as {best}", "wins": f"is faster: {ratio}"}.get(_stands(torch, best_us))
        parts.append(f"{name} {takes or f'takes {ratio}'} ({fmt_us(torch)}{unlike})")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def headline_html(said: Headline, origin: Provenance) -> str:
    """The headline as one block: as Streamlit's metrics it would be a dozen elements, and as slow."""
    colour = f"--origin: {_ORIGIN_COLOURS.get(origin.colour, 'currentColor')};"
    lead = f'<span class="ps-origin" style="{colour}">{_inert(origin.label)}</span>{_inert(said.sentence)}'
    figures = "".join(
        f'<div><div class="label">{_inert(figure.label)}</div>'
        f'<div class="value">{_inert(figure.value)}</div><div class="beside">{_inert(figure.beside)}</div></div>'
        for figure in said.figures
    )
    return f'<div>{lead}</div><div class="ps-figures">{figures}</div>' if figures else f"<div>{lead}</div>"


def _inert(text: str) -> str:
    """Names come from run files: none may bring markup, or turn round the numbers that stand after it."""
    return escape(cleaned(" ".join(text.split())))


def _versus(run: RunRecord, hot: Verdict, best_us: float, torch: float | None, name: str, unlike: str) -> list[Figure]:
    pick, figures = run.first_pick, []
    if pick is not None:
        us = hot_us(pick)
        stands = "wins" if pick.key == hot.winner else "ties" if pick.key in hot.tie_set else _beside(us, best_us, hot)
        beside = f"{pick.plan_name}, {stands or _status(pick)}"
        figures.append(Figure("Heuristics' first pick", _time(hot, pick), beside))
    if torch is not None:
        outcome = {"wins": f": {name} wins", "ties": ": no difference that matters"}
        ending = outcome.get(_stands(torch, best_us), "")
        figures.append(Figure(name, fmt_us(torch), _beside(torch, best_us, hot) + unlike + ending))
    elif run.kind is RunKind.SWEEP:
        message = run.baseline.message if run.baseline else None
        figures.append(Figure(name, fmt_us(None), message or "not measured"))
    return figures


def _beside(us: float | None, best_us: float, hot: Verdict) -> str:
    return "" if us is None else f"{fmt_ratio(us / best_us)} the time of {_best(hot)}"


def _best(hot: Verdict) -> str:
    return "the best that meets the constraints" if hot.constraints.demands else "the best"


def _stands(us: float, best_us: float) -> str:
    """How something that is no plan stands to the best one, by the measure that plans tie by."""
    if abs(us - best_us) <= max(SAME_SHARE * best_us, SAME_US):
        return "ties"
    return "wins" if us < best_us else "loses"


def _unlike(run: RunRecord, best: PlanRecord) -> str:
    """What the baseline of an fp32 graph multiplies in, where the best plan does it in something else: no small part of
    the difference in speed."""
    mine = arithmetic(run.graph.io_dtype, best, run.options.data)
    theirs = seen_arithmetic(run.graph.io_dtype, run.baseline.accuracy, run.options.data) if run.baseline else None
    if mine is None or theirs is None or mine.word == theirs.word:
        return ""
    return f", in {theirs.word}"


def _share(run: RunRecord, best_us: float) -> list[Figure]:
    """How far the best plan comes by the GPU's public specification."""
    ceiling = roofline(run.graph, run.environment.gpu.name) if run.environment.gpu else None
    tflops = run.graph.flops() / best_us * 1e-6
    if ceiling is None:
        return [Figure("Rate of the best", f"{tflops:,.0f} TFLOP/s", "this GPU's specification is not listed")]
    beside = f"{tflops:,.0f} TFLOP/s, {ceiling.bound} bound, by public specification"
    return [Figure("Share of the roofline", fmt_percent(ceiling.floor_us / best_us), beside)]


def _multiplies(run: RunRecord, best: PlanRecord) -> list[Figure]:
    """What an fp32 graph's winner multiplies in: the first thing to know of its error, and of its speed."""
    found = arithmetic(run.graph.io_dtype, best, run.options.data)
    return [] if found is None else [Figure("fp32 is multiplied in", found.word, _TF32)]


def _unmeasured(run: RunRecord) -> Headline:
    built = [plan for plan in run.plans if plan.status is Status.OK]
    cancelled = sum(plan.status is Status.CANCELLED for plan in run.plans)
    failed = sum(plan.status not in (Status.OK, Status.LISTED) for plan in run.plans) - cancelled
    verb = "measured right" if run.kind is RunKind.SWEEP else "built"
    sentence = f"{len(built)} of {len(run.plans)} plans {verb} for {run.target.gpu_name}"
    figures = []
    if run.kind is RunKind.PLAN and built:
        pick = run.first_pick
        times = sorted(plan.build_ms for plan in built if plan.build_ms is not None)
        rest = f"{failed} failed" + (f", {cancelled} cancelled" if cancelled else "")
        figures.append(Figure("Plans built", f"{len(built)} of {len(run.plans)}", rest))
        if pick is not None:
            figures.append(Figure("Heuristics' first pick", f"engine {pick.identity.engine_id}", pick.plan_name))
        if times:
            figures.append(Figure("Build", fmt_ms(times[len(times) // 2]), f"median; longest {fmt_ms(times[-1])}"))
        sizes = [plan.workspace_bytes for plan in built if plan.workspace_bytes is not None]
        if sizes:
            figures.append(Figure("Workspace", fmt_bytes(max(sizes)), "largest of all plans"))
    if run.kind is RunKind.PLAN:
        sentence += "; planned, not measured"
    if run.reuse is not None:
        sentence += ": a study of reuse, and what it found stands on the Reuse page"
    return Headline(f"{sentence}.", tuple(figures))


def _status(plan: PlanRecord) -> str:
    return str(plan.status).replace("_", " ")
