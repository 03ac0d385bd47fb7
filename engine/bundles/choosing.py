"""Which plan of a run is handed over where nobody chose one, and the verdict that goes with it."""

from __future__ import annotations

from engine.bundles.contents import Contender, Judged
from engine.graph.errors import invalid
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord
from engine.records.sentences import sentences
from engine.records.timings import Regime
from engine.records.verdict import verdict

NOT_HANDED_OVER = frozenset(Status) - {Status.OK, Status.LISTED, Status.CANCELLED}


def default_plan(run: RunRecord) -> tuple[PlanRecord, str]:
    """The winner of the run's verdict; where nothing was measured, what the heuristics list first; and why it is this
    one. Raises InvalidInput where there is none."""
    found = verdict(run)
    winner = next((plan for plan in run.plans if plan.key == found.winner), None)
    if winner is not None and winner.blob_sha256:
        return winner, _why(len(found.tie_set), found.reason)
    if found.intervals:
        rule = "no measured plan meets the run's constraints." if winner is None else "the winner's form was not kept."
        raise invalid("plan", "", rule, "Choose a plan by --plan KEY.")
    offered = built_plans(run)
    if not offered:
        raise invalid("plan", "", "the run has no plan that was built and is right.", "Plan or sweep the graph anew.")
    first = offered[0]
    mode = next((mode for mode in run.options.modes if mode in first.modes), None)
    listed = f"that heuristics mode {mode} lists" if mode else "of the run"
    return first, f"the first built plan {listed}; nothing was measured in this run"


def built_plans(run: RunRecord) -> list[PlanRecord]:
    """Every plan that can be handed over: as the heuristics list them, mode after mode, and then those that no mode
    lists."""
    ranks = {mode: place for place, mode in enumerate(run.options.modes)}

    def order(plan: PlanRecord) -> tuple[int, int]:
        listed = [(ranks[mode], rank) for mode, rank in plan.modes.items() if mode in ranks]
        return min(listed, default=(len(ranks), 0))

    usable = [plan for plan in run.plans if plan.blob_sha256 and plan.status not in NOT_HANDED_OVER]
    return sorted(usable, key=order)


def judged(run: RunRecord) -> Judged | None:
    """The verdict on a run as a bundle carries it; None where nothing was measured."""
    found = verdict(run)
    if not found.intervals:
        return None
    first = run.first_pick
    keys = dict.fromkeys([*found.tie_set, *([first.key] if first else [])])
    plans = {plan.key: plan for plan in run.plans}
    return Judged(
        winner=found.winner,
        reason=found.reason,
        tie_set=found.tie_set,
        first_pick=first.key if first else None,
        sentences=tuple(sentence.text for sentence in sentences(run, regime=Regime.HOT)),
        contenders=tuple(c for key in keys if (c := _contender(plans[key])) is not None),
    )


def _contender(plan: PlanRecord) -> Contender | None:
    if plan.timings is None:
        return None
    return Contender(
        identity=plan.identity,
        plan_name=plan.plan_name,
        workspace_bytes=plan.workspace_bytes,
        hot=plan.timings.hot,
    )


def _why(tied: int, reason: str | None) -> str:
    return f"the winner among {tied} plans that tie, for {reason}" if tied > 1 and reason else "the winner of the run"
