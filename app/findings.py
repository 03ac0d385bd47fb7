"""The findings of a run as one block: sentences beside the verdict, and what trusting each mode costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app.judged import Finding, Judged, findings
from app.theme import NOTHING, fmt_ratio
from engine.records.plan import Status
from engine.records.run import RunRecord
from engine.records.verdict import FirstPick, Verdict

HEADS = ("mode", "first pick", "its time", "within 2 % of the best")


def findings_html(run: RunRecord, judged: Judged) -> str:
    """Everything there is to say besides the headline; "" of a run without times."""
    if judged.hot is None:
        return ""
    said = findings(run, judged)
    groups = dict.fromkeys(finding.about for finding in said)
    listing = "".join(_group(about, [one for one in said if one.about == about]) for about in groups)
    return f"<div class='ps-findings'><dl>{listing}</dl>{_picks(judged.hot)}</div>"


def pick_row(verdict: Verdict, pick: FirstPick) -> tuple[str, str, str, str]:
    """A heuristics mode in cells: its first pick, what that costs, and how long its list is until one is near the
    best."""
    if not pick.listed:
        return pick.mode, "lists no plan", NOTHING, NOTHING
    within = f"after {pick.close_after} of {pick.listed}" if pick.close_after else f"none of {pick.listed}"
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
        cost = "= ties with the best"
    return pick.mode, name, cost, within


def _group(about: str, said: Sequence[Finding]) -> str:
    lines = "".join(f"<dd>{'⚠ ' if one.warns else ''}{escape(one.text)}</dd>" for one in said)
    return f"<div><dt>{escape(about)}</dt>{lines}</div>"


def _picks(verdict: Verdict) -> str:
    head = "".join(f"<th>{title}</th>" for title in HEADS)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in pick_row(verdict, pick))}</tr>" for pick in verdict.picks
    )
    caption = "Trusting the heuristics: what each mode's first pick costs, hot"
    return f"<table><caption>{caption}</caption><tr>{head}</tr>{rows}</table>"
