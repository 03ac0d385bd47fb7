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
from engine.records.sentences import beyond_sentences, change_sentence, cost_sentence
from engine.records.timings import Regime
from engine.records.verdict import Verdict
from engine.records.wording import listing, several


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
    said = tuple(circumstances(run)) if run.kind is RunKind.SWEEP else ()
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
    beyond = beyond_sentences(run, hot) or ["Not looked at: this run has listed plans only."]
    found += [Finding("Beyond the heuristics", text) for text in beyond]
    return [*found, *_constraints(hot), *_measuring(run, judged)]


def _constraints(hot: Verdict) -> list[Finding]:
    """What each costs that is set, or would cost; those that would change nothing share a sentence."""
    idle = [cost.words for cost in hot.costs if not cost.is_set and not cost.excluded]
    said = [cost_sentence(cost) for cost in hot.costs if cost.is_set or cost.excluded]
    if idle:
        words = listing([idle[0], *(word[0].lower() + word[1:] for word in idle[1:])])
        said.append(f"{words} would exclude none of the measured plans.")
    return [Finding("Constraints", text) for text in said]


def _measuring(run: RunRecord, judged: Judged) -> list[Finding]:
    about, timings = "While measuring", [plan.timings for plan in run.plans if plan.timings is not None]
    found = [Finding(about, text, warns=_disturbs(text)) for text in judged.circumstances]
    if all(one.gpu is None and not one.states for one in timings):
        found.append(Finding(about, "The GPU's clocks, power and temperature were not recorded."))
    elif not any(finding.warns for finding in found):
        found.append(Finding(about, "Nothing held the clocks down, and no sample was set aside."))
    sampled = [one for one in timings if one.stopped in ("precise", "budget")]
    if sampled and all(one.stopped == "precise" for one in sampled):
        error = max(one.hot.relative_error for one in sampled)
        until = f"until each one's standard error was small enough: {error * 100:.2g} % of its mean at most"
        text = f"{several(len(sampled), 'plan')} sampled in turns, {until}, were samples independent."
        found.append(Finding(about, text))
    elif not sampled and run.phases is None and not any(one.states for one in timings):
        found.append(Finding(about, "Plans were timed one after another, not in turns."))
    if run.phases is not None and run.phases.verdict_at_s is not None and run.phases.total_s is not None:
        took = f"The hot verdict was there after {run.phases.verdict_at_s:.1f} s, all else after"
        found.append(Finding(about, f"{took} {run.phases.total_s:.1f} s."))
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
        constrained = bool(Constraints.of(run.options).demands)
        which = "by the constraints of the sweep" if constrained else "without the constraints that are set now"
        text += f" That was the winner {which}."
    return Finding(about, text, warns=doubtful)


def _disturbs(text: str) -> bool:
    """Plans that screening left behind are no disturbance."""
    return "far from the best" not in text
