"""A verdict in sentences, for pages and the command line alike: what wins and how surely, what trusting the heuristics
costs, what each constraint costs, where the winner changes, and what went on while it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.records.beyond import beyond_sentence, beyond_the_heuristics
from engine.records.circumstances import circumstances
from engine.records.confirming import confirm
from engine.records.constraints import Constraints
from engine.records.plan import PlanOrigin, Status
from engine.records.regimes import REGIME_WORDS, RegimeChange, regime_change, verdicts
from engine.records.run import RunRecord
from engine.records.timings import Regime
from engine.records.verdict import Cost, FirstPick, Unlisted, Verdict
from engine.records.wording import factor, listing, microseconds, percent, several, span

Topic = Literal["winner", "regimes", "confirmation", "heuristics", "unlisted", "constraints", "circumstances"]

_FOUND_BY = {
    PlanOrigin.HEURISTICS: "of the heuristics",
    PlanOrigin.ENGINE_LIST: "of the list of all engines",
    PlanOrigin.KNOB_SEARCH: "found by the knob search",
    PlanOrigin.EXPLICIT: "asked for explicitly",
}


@dataclass(frozen=True)
class Sentence:
    """One thing to know, and what it is about."""

    topic: Topic
    text: str


def sentences(run: RunRecord, constraints: Constraints | None = None, regime: Regime = Regime.HOT) -> list[Sentence]:
    """Everything there is to say about a measured run, most important first; nothing about one that was not measured.
    Heuristics and constraints are judged in one ``regime``."""
    judged = verdicts(run, constraints)
    if regime not in judged:
        return []
    one, change, confirmed = judged[regime], regime_change(judged), confirm(run)
    said: list[tuple[Topic, str | None]] = [
        ("winner", winner_sentence(one)),
        ("regimes", change_sentence(change, one.names) if change else None),
        ("confirmation", confirmed.sentence if confirmed else None),
        *(("heuristics", pick_sentence(one, pick)) for pick in one.picks),
        *(("unlisted", text) for text in beyond_sentences(run, one)),
        *(("constraints", cost_sentence(cost)) for cost in one.costs if cost.is_set),
        *(("circumstances", text) for text in circumstances(run)),
    ]
    return [Sentence(topic, text) for topic, text in said if text]


def winner_sentence(verdict: Verdict) -> str:
    """Who wins, or who ties: no best plan is invented."""
    regime = REGIME_WORDS[verdict.regime]
    if not verdict.intervals:
        return f"No right plan was measured {regime}."
    if verdict.winner is None:
        words = "; ".join(verdict.constraints.words(demand) for demand in verdict.constraints.demands)
        return f"None of {several(len(verdict.intervals), 'measured plan')} meets the constraints ({words})."
    names, tied = verdict.names, verdict.tie_set
    if len(tied) > 1:
        times = span(*(verdict.intervals[key].median for key in (tied[0], tied[-1])))
        return (
            f"{len(tied)} plans tie {regime} at {times}: {listing([names[key] for key in tied])}. "
            f"{names[verdict.winner]} is chosen among them for {verdict.reason}."
        )
    best = verdict.intervals[verdict.winner]
    time = microseconds(best.median, (best.high - best.low) / 2)
    return f"{names[verdict.winner]} wins {regime} with {time} ({best.words}); {_next_plan(verdict)}."


def _next_plan(verdict: Verdict) -> str:
    """What stands behind a winner that ties with none."""
    others = [key for key in verdict.admitted if key != verdict.winner]
    behind = min((v for key in others if (v := verdict.behind(key)) and v > 1), default=None)
    if behind:
        which = " that meets the constraints" if verdict.constraints.demands else ""
        return f"the next plan{which} takes {factor(behind)} as long"
    alone = len(verdict.intervals) == 1
    return "no other plan was measured" if alone else "no other measured plan meets the constraints"


def pick_sentence(verdict: Verdict, pick: FirstPick) -> str:
    """What trusting a heuristics mode costs."""
    mode = f"Mode {pick.mode}"
    if not pick.listed:
        return f"{mode} lists no plan."
    close = (
        f"none of its {several(pick.listed, 'plan')} comes within 2 % of the best"
        if pick.close_after is None
        else f"one within 2 % of the best comes after {pick.close_after} of its {several(pick.listed, 'plan')}"
    )
    if pick.key is None:
        return f"{mode}'s first pick is not in the run; {close}."
    first = f"{mode}'s first pick {verdict.names[pick.key]}"
    if pick.regret is None:
        ended = "not measured" if pick.status in (Status.OK, Status.LISTED) else str(pick.status).replace("_", " ")
        return f"{first}: {ended}; {close}." if verdict.best else f"{first}: {ended}."
    if not pick.admitted:
        return f"{first} does not meet the constraints ({factor(pick.regret)} the best that does); {close}."
    if pick.ties:
        return f"{first} {'wins' if pick.key == verdict.winner else 'ties with the best'}."
    return f"{first} takes {factor(pick.regret)} as long as the best; {close}."


def cost_sentence(cost: Cost) -> str:
    """What a constraint costs, or would."""
    if cost.ratio is None:
        return f"{cost.words}: {'leaves' if cost.is_set else 'would leave'} no plan."
    if not cost.excluded:
        return f"{cost.words}: excludes none of the measured plans."
    price = percent(cost.ratio - 1) if cost.ratio < 2 else f"{factor(cost.ratio)} the time"
    price, plans = "nothing that can be told" if cost.same else price, several(cost.excluded, "plan")
    verbs = ("costs", "excludes") if cost.is_set else ("would cost", "exclude")
    return f"{cost.words}: {verbs[0]} {price} and {verbs[1]} {plans}."


def beyond_sentences(run: RunRecord, verdict: Verdict) -> list[str]:
    """What was asked for beyond the heuristics and how far it came, and whether any of it won."""
    tallies = beyond_the_heuristics(run)
    said = [beyond_sentence(tallies)] if tallies else []
    if verdict.unlisted:
        return [*said, unlisted_sentence(verdict, verdict.unlisted)]
    return [*said, "Nothing of that could be compared, so whether any wins is not known."] if said else []


def unlisted_sentence(verdict: Verdict, unlisted: Unlisted) -> str:
    """Whether anything won that no heuristics mode lists."""
    best = f"{verdict.names[unlisted.key]}, {_FOUND_BY[unlisted.origin]},"
    if unlisted.ratio is None:
        return f"No listed plan was measured; of the others {best} is the best."
    if unlisted.ties or unlisted.ratio > 1:
        many = f"Of {unlisted.measured} plans that no mode lists none"
        count = "The one plan that no mode lists" if unlisted.measured == 1 else many
        no_gain = "is not faster" if unlisted.measured == 1 else "is faster"
        how = "ties with the best of these" if unlisted.ties else f"takes {factor(unlisted.ratio)} as long"
        return f"{count} {no_gain} than the listed ones; {best} {how}."
    count = f"Of {several(unlisted.measured, 'plan')} that no mode lists"
    return f"{count} {best} beats every listed one: it takes {factor(unlisted.ratio)} the time of the best of these."


def change_sentence(change: RegimeChange, names: Mapping[str, str]) -> str:
    """Where the winner changes between regimes."""
    base = REGIME_WORDS[change.base]
    if not change.changed:
        regimes = listing([REGIME_WORDS[regime] for regime in change.regimes], most=5)
        return f"The winner stays: {names[change.winners[change.base]]} is among the best {regimes}."
    parts = [f"{base} {names[change.winners[change.base]]}"]
    for regime, behind in change.changed.items():
        slower = f" (there the {base} one takes {factor(behind)} as long)" if behind else ""
        parts.append(f"{REGIME_WORDS[regime]} {names[change.winners[regime]]}{slower}")
    common = f" {names[change.everywhere]} is among the best in all of them." if change.everywhere else ""
    return f"The winner changes: {', '.join(parts)}.{common}"
