"""The findings of a run as one block: sentences beside the verdict, who wins each regime, and what trusting each
heuristics mode costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app.judged import Finding, Judged, findings
from app.sampled import REGIME_WORDS
from app.theme import NOTHING, fmt_ratio
from engine.records.plan import Status
from engine.records.run import RunRecord
from engine.records.timings import Regime
from engine.records.verdict import FirstPick, Verdict
from engine.records.wording import microseconds, several

Cells = tuple[str, str, str, str]

PICKS = "Trusting the heuristics: what each mode's first pick costs, hot"
PICK_HEADS = ("mode", "first pick", "its time", "within 2 % of the best")
WINNERS = "Regimes: who wins each, and how the hot winner fares there"
WINNER_HEADS = ("regime", "winner", "best time", "the hot winner there")


def findings_html(run: RunRecord, judged: Judged) -> str:
    """Everything there is to say besides the headline; "" of a run without times."""
    if judged.hot is None:
        return ""
    said = findings(run, judged)
    groups = dict.fromkeys(finding.about for finding in said)
    listing = "".join(_group(about, [one for one in said if one.about == about]) for about in groups)
    winners = _table(WINNERS, WINNER_HEADS, [winner_row(judged, regime) for regime in Regime])
    modes: dict[tuple[str, ...], list[str]] = {}
    for mode, *rest in (pick_row(judged.hot, pick) for pick in judged.hot.picks):
        modes.setdefault(tuple(rest), []).append(mode)  # modes that fare alike share a line
    picks = _table(PICKS, PICK_HEADS, [(", ".join(names), *rest) for rest, names in modes.items()])
    return f"<div class='ps-findings'><dl>{listing}</dl><div>{winners}{picks}</div></div>"


def winner_row(judged: Judged, regime: Regime) -> Cells:
    """A regime in cells: its winner, the smallest median (where plans tie it may be another's), and how the winner by
    hot GPU time stands in it."""
    words, verdict, hot = REGIME_WORDS[regime], judged.verdicts.get(regime), judged.winner
    if verdict is None:
        return words, "not measured", NOTHING, NOTHING
    if verdict.winner is None or verdict.best is None:
        return words, "none meets the constraints", NOTHING, NOTHING
    name, ties = verdict.names[verdict.winner], len(verdict.tie_set)
    sure = verdict.intervals[verdict.best]
    time = microseconds(sure.median, (sure.high - sure.low) / 2)
    winner = f"{name}, of {ties} that tie" if ties > 1 else name
    behind = verdict.behind(hot) if hot else None
    if hot == verdict.winner:
        stands = "★ wins"
    elif hot in verdict.tie_set:
        stands = "= ties"
    else:
        stands = "not measured" if behind is None else f"{fmt_ratio(behind)} the time of the best"
    return words, winner, time, stands


def pick_row(verdict: Verdict, pick: FirstPick) -> Cells:
    """A heuristics mode in cells: its first pick, what that costs, and how long its list is until one is near the
    best."""
    if not pick.listed:
        return pick.mode, "lists no plan", NOTHING, NOTHING
    plans = several(pick.listed, "plan")
    within = f"after {pick.close_after} of {plans}" if pick.close_after else f"none of {plans}"
    if pick.key is None:
        return pick.mode, "not in this run", NOTHING, within
    name = verdict.names[pick.key]
    if pick.regret is None:
        ended = "not measured" if pick.status in (Status.OK, Status.LISTED) else str(pick.status).replace("_", " ")
        return pick.mode, name, ended, within if verdict.best else NOTHING
    cost = f"{fmt_ratio(pick.regret)} the time of the best"
    if not pick.admitted:
        cost += ", does not meet the constraints"
    elif pick.key == verdict.winner:
        cost = "★ wins"
    elif pick.ties:
        cost = "= ties"
    return pick.mode, name, cost, within


def _group(about: str, said: Sequence[Finding]) -> str:
    lines = "".join(f"<dd>{'⚠ ' if one.warns else ''}{escape(one.text)}</dd>" for one in said)
    return f"<div><dt>{escape(about)}</dt>{lines}</div>"


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{title}</th>" for title in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"
