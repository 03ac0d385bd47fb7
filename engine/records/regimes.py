"""Verdicts of all regimes of a run side by side, and where the winner changes between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.records.constraints import Constraints
from engine.records.plan import PlanRecord
from engine.records.run import RunRecord
from engine.records.timings import Regime
from engine.records.verdict import Verdict, verdict

REGIME_WORDS = {
    Regime.HOT: "hot",
    Regime.COLD: "cold",
    Regime.HOST: "by host cost",
    Regime.HOST_READY: "by host cost with a ready variant pack",
    Regime.END_TO_END: "end to end",
}
"""How a regime is called inside a sentence."""

COMPARED = (Regime.HOT, Regime.COLD, Regime.END_TO_END)
"""What a program may wait for. The cost of a call to the host alone is no reason to choose a plan."""


@dataclass(frozen=True)
class RegimeChange:
    """``winners`` by regime, for all ``regimes`` that have one. ``changed``: regimes in which the winner of ``base`` is
    not in the tie set, with its time there over the best's (None where it was not measured). ``everywhere``: a plan
    that is in every tie set, preferred as winners are; None where there is none."""

    base: Regime
    winners: Mapping[Regime, str]
    changed: Mapping[Regime, float | None]
    everywhere: str | None

    @property
    def regimes(self) -> tuple[Regime, ...]:
        """Those compared."""
        return tuple(self.winners)


def verdicts(source: RunRecord | Iterable[PlanRecord], constraints: Constraints | None = None) -> dict[Regime, Verdict]:
    """The verdict of every regime in which a right plan was measured."""
    if not isinstance(source, RunRecord):
        source = tuple(source)
    judged = {regime: verdict(source, regime, constraints) for regime in Regime}
    return {regime: one for regime, one in judged.items() if one.intervals}


def regime_change(
    judged: Mapping[Regime, Verdict], base: Regime = Regime.HOT, compared: Sequence[Regime] = COMPARED
) -> RegimeChange | None:
    """Compare regimes with that of ``base``; None where fewer than two have a winner, or that one has none."""
    found = {regime: judged[regime].winner for regime in compared if regime in judged}
    winners = {regime: winner for regime, winner in found.items() if winner is not None}
    if base not in winners or len(winners) < 2:
        return None
    winner, tie_sets = winners[base], [judged[regime].tie_set for regime in winners]
    changed = {regime: judged[regime].behind(winner) for regime in winners if winner not in judged[regime].tie_set}
    shared = [key for key in tie_sets[0] if all(key in tied for tied in tie_sets)]
    preferred = [key for key in winners.values() if key in shared] or shared
    return RegimeChange(base, winners, changed, preferred[0] if preferred else None)
