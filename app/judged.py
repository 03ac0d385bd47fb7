"""What a run's samples decide under given constraints: the verdict of every regime and what there is to say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.records.circumstances import circumstances
from engine.records.confirming import Confirmed, confirm
from engine.records.constraints import Constraints
from engine.records.plan import PlanRecord
from engine.records.regimes import RegimeChange, regime_change, verdicts
from engine.records.run import RunKind, RunRecord
from engine.records.sentences import change_sentence, cost_sentence, unlisted_sentence
from engine.records.timings import Regime
from engine.records.verdict import Verdict


@dataclass(frozen=True)
class Judged:
    """``verdicts``: of every regime in which a right plan was measured; none of a run that was only planned.
    ``confirmed``: None where no confirmation was made; ``circumstances``: sentences on what disturbed the measuring."""

    constraints: Constraints
    verdicts: Mapping[Regime, Verdict]
    change: RegimeChange | None
    confirmed: Confirmed | None
    circumstances: tuple[str, ...]

    @property
    def hot(self) -> Verdict | None:
        """The verdict that names the winner."""
        return self.verdicts.get(Regime.HOT)

    @property
    def winner(self) -> str | None:
        """The winner's key, by hot GPU time."""
        return self.hot.winner if self.hot else None


def judge(run: RunRecord, constraints: Constraints) -> Judged:
    """Judge a run; takes some milliseconds per regime."""
    found = verdicts(run, constraints)
    said = tuple(circumstances(run.plans)) if run.kind is RunKind.SWEEP else ()
    return Judged(constraints, found, regime_change(found), confirm(run), said)


def plan_of(run: RunRecord, key: str | None) -> PlanRecord | None:
    """The plan of this key in the run."""
    return next((plan for plan in run.plans if plan.key == key), None)


@dataclass(frozen=True)
class Finding:
    """A sentence beside the verdict. ``warns``: it bears on how much the numbers are worth."""

    about: str
    text: str
    warns: bool = False


def findings(run: RunRecord, judged: Judged) -> list[Finding]:
    """What there is to know besides who wins: where the winner changes, whether it was confirmed, what constraints
    cost, what disturbed. What was not looked at is said to be absent."""
    hot = judged.hot
    if hot is None:
        return []
    found = [_change(judged, hot), _confirmation(run, judged)]
    if hot.unlisted:
        found.append(Finding("Beyond the heuristics", unlisted_sentence(hot, hot.unlisted)))
    elif run.options.explicit or run.options.every_engine or run.options.knob_budget:
        found.append(Finding("Beyond the heuristics", "No further plan was measured right."))
    else:
        found.append(Finding("Beyond the heuristics", "Not looked at: this run has listed plans only."))
    found += [Finding("Constraints", cost_sentence(cost)) for cost in hot.costs]
    found += [Finding("While measuring", text, warns=_disturbs(text)) for text in judged.circumstances]
    if all(plan.timings is None or (plan.timings.gpu is None and not plan.timings.states) for plan in run.plans):
        found.append(Finding("While measuring", "The GPU's clocks, power and temperature were not recorded."))
    elif not any(finding.warns for finding in found):
        found.append(Finding("While measuring", "Nothing held the clocks down, and no sample was set aside."))
    return found


def _change(judged: Judged, hot: Verdict) -> Finding:
    if judged.change:
        return Finding("Regimes", change_sentence(judged.change, hot.names))
    if hot.winner is None:
        return Finding("Regimes", "Without a winner there is nothing to compare.")
    if len(judged.verdicts) > 1:
        text = "The plans that meet the constraints were measured in one regime only, so there is nothing to compare."
        return Finding("Regimes", text)
    return Finding("Regimes", "Only one regime was measured.")


def _confirmation(run: RunRecord, judged: Judged) -> Finding:
    confirmed, about = judged.confirmed, "Confirmation"
    if confirmed is None:
        first = run.first_pick
        if first is not None and first.key == judged.winner:
            return Finding(about, "Not needed: the winner is the heuristics' first pick.")
        return Finding(about, "None: the winner was not measured again in a fresh process.")
    text, doubtful = confirmed.sentence, confirmed.outcome in ("reversed", "failed")
    if confirmed.winner != judged.winner:
        text += " That was the winner without the constraints that are set now."
    return Finding(about, text, warns=doubtful)


def _disturbs(text: str) -> bool:
    """Plans that screening left behind are no disturbance."""
    return "far from the best" not in text
