"""What a run comes to, in a sentence and a few numbers: losses as plainly as wins. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from app.graph_nodes import cleaned
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
from engine.records.arithmetic import Arithmetic, arithmetic, seen_arithmetic
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunKind, RunRecord

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


def headline(run: RunRecord) -> Headline:
    """The headline of a run, whatever became of it."""
    if run.refusal is not None:
        return Headline(f"cuDNN {run.environment.cudnn_backend} has no plan for this graph.", ())
    best = run.best
    if best is None:
        return _unmeasured(run)
    best_us, pick, pick_us = hot_us(best) or 0.0, run.first_pick, hot_us(run.first_pick)
    torch = run.baseline.timings.hot.median_us if run.baseline and run.baseline.timings else None
    parts = [f"The fastest plan, {best.plan_name}, takes {fmt_us(best_us)}"]
    compared = []
    if pick is not None and pick.key == best.key:
        parts.append("it is the heuristics' first pick")
    elif pick_us is not None:
        compared.append(f"{_faster(pick_us / best_us)} the heuristics' first pick ({fmt_us(pick_us)})")
    elif pick is not None:
        parts.append(f"the heuristics' first pick ended as {_status(pick)}")
    name = run.baseline.name if run.baseline else "torch eager"
    if torch is not None:
        compared.append(f"{_faster(torch / best_us)} {name} ({fmt_us(torch)}{_unlike(run, best)})")
    if compared:
        parts.append(" and ".join(compared))
    figures = [Figure("Fastest plan", fmt_us(best_us), best.plan_name), *_versus(run, best, torch, name)]
    return Headline("; ".join(parts) + ".", (*figures, *_share(run, best_us), *_multiplies(run, best)))


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


def _versus(run: RunRecord, best: PlanRecord, torch: float | None, name: str) -> list[Figure]:
    best_us, pick, pick_us = hot_us(best) or 0.0, run.first_pick, hot_us(run.first_pick)
    figures = []
    if pick is not None:
        figures.append(Figure("Heuristics' first pick", fmt_us(pick_us), _picks(run)))
    if torch is not None:
        beside = f"{fmt_ratio(torch / best_us)} the time of the fastest"
        wins = f": {name} wins" if "slower" in _faster(torch / best_us) else ""
        figures.append(Figure(name, fmt_us(torch), beside + _unlike(run, best) + wins))
    elif run.kind is RunKind.SWEEP:
        message = run.baseline.message if run.baseline else None
        figures.append(Figure(name, fmt_us(None), message or "not measured"))
    return figures


def _unlike(run: RunRecord, best: PlanRecord) -> str:
    """What the baseline of an fp32 graph multiplies in, where the fastest plan does it in something else: no small part
    of the difference in speed."""
    mine = arithmetic(run.graph.io_dtype, best)
    theirs = seen_arithmetic(run.graph.io_dtype, run.baseline.accuracy) if run.baseline else None
    if mine is None or theirs is None or _word(mine) == _word(theirs):
        return ""
    return f", in {_word(theirs)}"


def _word(found: Arithmetic) -> str:
    return found.value.split(",")[0]


def _picks(run: RunRecord) -> str:
    """What each heuristics mode's own first pick costs, in times of the fastest plan."""
    regrets = {mode: (run.regret(pick), pick) for mode, pick in run.first_picks().items()}
    costs = ", ".join(f"{mode} {fmt_ratio(regret)}" for mode, (regret, _) in regrets.items() if regret is not None)
    ends = [f"{mode}: {_status(pick)}" for mode, (regret, pick) in regrets.items() if regret is None]
    return ", ".join(([f"{costs} the time of the fastest"] if costs else []) + ends)


def _share(run: RunRecord, best_us: float) -> list[Figure]:
    """How far the fastest plan comes by the GPU's public specification."""
    ceiling = roofline(run.graph, run.environment.gpu.name) if run.environment.gpu else None
    tflops = run.graph.flops() / best_us * 1e-6
    if ceiling is None:
        return [Figure("Rate of the fastest", f"{tflops:,.0f} TFLOP/s", "this GPU's specification is not listed")]
    beside = f"{tflops:,.0f} TFLOP/s, {ceiling.bound} bound, by public specification"
    return [Figure("Share of the roofline", fmt_percent(ceiling.floor_us / best_us), beside)]


def _multiplies(run: RunRecord, best: PlanRecord) -> list[Figure]:
    """What an fp32 graph's fastest plan multiplies in: the first thing to know of its error, and of its speed."""
    found = arithmetic(run.graph.io_dtype, best)
    return [] if found is None else [Figure("fp32 is multiplied in", _word(found), _TF32)]


def _unmeasured(run: RunRecord) -> Headline:
    built = [plan for plan in run.plans if plan.status is Status.OK]
    failed = [plan for plan in run.plans if plan.status not in (Status.OK, Status.LISTED)]
    verb = "measured right" if run.kind is RunKind.SWEEP else "built"
    sentence = f"{len(built)} of {len(run.plans)} plans {verb} for {run.target.gpu_name}"
    figures = []
    if run.kind is RunKind.PLAN and built:
        pick = run.first_pick
        times = sorted(plan.build_ms for plan in built if plan.build_ms is not None)
        figures.append(Figure("Plans built", f"{len(built)} of {len(run.plans)}", f"{len(failed)} failed"))
        if pick is not None:
            figures.append(Figure("Heuristics' first pick", f"engine {pick.identity.engine_id}", pick.plan_name))
        if times:
            figures.append(Figure("Build", fmt_ms(times[len(times) // 2]), f"median; longest {fmt_ms(times[-1])}"))
        sizes = [plan.workspace_bytes for plan in built if plan.workspace_bytes is not None]
        if sizes:
            figures.append(Figure("Workspace", fmt_bytes(max(sizes)), "largest of all plans"))
    return Headline(
        f"{sentence}; planned, not measured." if run.kind is RunKind.PLAN else f"{sentence}.", tuple(figures)
    )


def _faster(ratio: float) -> str:
    """In words like "1.28x faster than": a loss is said as one, and half a percent is no difference."""
    if abs(ratio - 1) < 0.005:
        return "as fast as"
    if ratio >= 1:
        return f"{fmt_ratio(ratio)} faster than"
    return f"{fmt_ratio(1 / ratio)} slower than"


def _status(plan: PlanRecord) -> str:
    return str(plan.status).replace("_", " ")
