"""Which plan wins, and how sure that is: derived from a run's records, never stored.

A best plan is not invented where none stands out. The tie set holds every plan that cannot be told apart from the one
with the smallest median: within 1 % or 100 ns of it, whichever is larger, or with intervals that overlap. Inside it
speed decides nothing, so the winner is the plan with the smallest workspace; then the simplest: compiled in advance
before compiled at run time, fewer knobs, the lower engine id; and only then the faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from engine.records.constraints import Constraints, Demand
from engine.records.gpu_state import LOW_CLOCK
from engine.records.intervals import Interval, intervals
from engine.records.plan import PlanOrigin, PlanRecord, Status
from engine.records.run import RunRecord
from engine.records.timings import Regime

SAME_SHARE = 0.01
SAME_US = 0.1
CLOSE_SHARE = 0.02
MODES = ("A", "B", "FALLBACK")

CRITERIA: tuple[tuple[str, Callable[[PlanRecord], float]], ...] = (
    ("the smallest workspace", lambda plan: float("inf") if plan.workspace_bytes is None else plan.workspace_bytes),
    ("a kernel compiled in advance", lambda plan: plan.is_compiled),
    ("the fewest knobs", lambda plan: len(plan.identity.knobs)),
    ("the lowest engine id", lambda plan: plan.identity.engine_id),
)
"""What decides inside the tie set, in this order; the smaller value wins."""


@dataclass(frozen=True)
class FirstPick:
    """How a heuristics mode fares. ``regret``: its first pick's time over the best's, None where that pick was not
    measured; ``ties``: whether it is in the tie set; ``admitted``: whether it meets the constraints; ``close_after``:
    how many plans of the mode's list to try until one is within 2 % of the best, None where none is; ``listed``: how
    long the list is. ``key`` is None where the mode lists nothing."""

    mode: str
    listed: int
    key: str | None = None
    status: Status | None = None
    regret: float | None = None
    ties: bool = False
    admitted: bool = True
    close_after: int | None = None


@dataclass(frozen=True)
class Cost:
    """What a constraint costs: ``ratio`` of the best times with and without it, the others being as they are; None
    where no plan is left with it, or none without. ``excluded``: measured plans that do not meet it; ``same``: whether
    the two best cannot be told apart; ``is_set``: whether it is in force, or would be added."""

    demand: Demand
    words: str
    is_set: bool
    excluded: int
    ratio: float | None
    same: bool


@dataclass(frozen=True)
class Unlisted:
    """Whether plans that no heuristics mode lists are worth their trouble: how many were measured, the best of them,
    its time over the best listed plan's, and whether the two tie."""

    measured: int
    key: str
    origin: PlanOrigin
    ratio: float | None
    ties: bool


@dataclass(frozen=True)
class Verdict:
    """One regime's outcome, by plan key. ``intervals``: of every right plan that was measured, fastest first;
    ``admitted``: those of them that meet the constraints; ``best``: the smallest median among these; ``tie_set``: it
    and what cannot be told apart from it, fastest first; ``winner``: chosen among these, for ``reason``. All but
    ``intervals`` are empty where no plan is left to win."""

    regime: Regime
    constraints: Constraints
    intervals: Mapping[str, Interval]
    names: Mapping[str, str]
    admitted: tuple[str, ...]
    best: str | None
    tie_set: tuple[str, ...]
    winner: str | None
    reason: str | None
    picks: tuple[FirstPick, ...]
    costs: tuple[Cost, ...]
    unlisted: Unlisted | None

    def behind(self, key: str) -> float | None:
        """A plan's median over the best's."""
        if self.best is None or key not in self.intervals:
            return None
        return self.intervals[key].median / self.intervals[self.best].median


def verdict(
    source: RunRecord | Iterable[PlanRecord],
    regime: Regime = Regime.HOT,
    constraints: Constraints | None = None,
    modes: Iterable[str] = MODES,
) -> Verdict:
    """Judge one regime. A run brings its modes and, unless others are given, its constraints."""
    if isinstance(source, RunRecord):
        options = source.options
        return _Judge(source.plans, regime, constraints or Constraints.of(options), options.modes).verdict()
    return _Judge(source, regime, constraints or Constraints(), tuple(modes)).verdict()


class _Judge:
    """The plans of one verdict. A plan that ended in any way but well is never looked at for its times."""

    def __init__(
        self, plans: Iterable[PlanRecord], regime: Regime, constraints: Constraints, modes: tuple[str, ...]
    ) -> None:
        self._regime, self._constraints, self._modes = regime, constraints, modes
        self._plans = {plan.key: plan for plan in plans}
        series = {}
        for key, plan in self._plans.items():
            samples = plan.timings.of(regime) if plan.timings and plan.status is Status.OK else None
            if samples is not None:
                series[key] = samples.values.astype(float)
        found = intervals(series)
        self._intervals = {key: found[key] for key in sorted(found, key=lambda key: (found[key].median, key))}

    def verdict(self) -> Verdict:
        tied = self._tie_set(self._constraints)
        winner, reason = self._winner(tied)
        best = tied[0] if tied else None
        return Verdict(
            regime=self._regime,
            constraints=self._constraints,
            intervals=self._intervals,
            names={key: plan.plan_name for key, plan in self._plans.items()},
            admitted=tuple(key for key in self._intervals if self._constraints.admit(self._plans[key])),
            best=best,
            tie_set=tied,
            winner=winner,
            reason=reason,
            picks=tuple(self._pick(mode, tied) for mode in self._modes),
            costs=tuple(self._cost(demand, tied) for demand in ("workspace", "deterministic", "capturable")),
            unlisted=self._unlisted(),
        )

    def _admitted(self, constraints: Constraints) -> list[str]:
        """Measured plans that meet these, fastest first. Of what screening left behind, which was sampled at another
        time, only what is faster than all the others at any clock (a slow first pick is sampled to the end), or where
        nothing else is there."""
        keys = [key for key in self._intervals if constraints.admit(self._plans[key])]
        full = [key for key in keys if not self._is_screened(key)]
        if not full:
            return keys
        limit = LOW_CLOCK * self._intervals[full[0]].low
        return [key for key in keys if self._is_screened(key) and self._intervals[key].high < limit] + full

    def _is_screened(self, key: str) -> bool:
        timings = self._plans[key].timings
        return timings is not None and timings.stopped == "screened"

    def _tie_set(self, constraints: Constraints) -> tuple[str, ...]:
        keys = self._admitted(constraints)
        return tuple(key for key in keys if self._is_same(key, keys[0]))

    def _is_same(self, key: str, best: str) -> bool:
        this, that = self._intervals[key], self._intervals[best]
        return this.median - that.median <= max(SAME_SHARE * that.median, SAME_US) or this.overlaps(that)

    def _winner(self, tied: tuple[str, ...]) -> tuple[str | None, str | None]:
        if not tied:
            return None, None
        left = list(tied)
        for reason, value in CRITERIA:
            values = {key: value(self._plans[key]) for key in left}
            left = [key for key in left if values[key] == min(values.values())]
            if len(left) == 1:
                return left[0], reason if len(tied) > 1 else None
        return left[0], "the smaller median"

    def _pick(self, mode: str, tied: tuple[str, ...]) -> FirstPick:
        ranks = {key: plan.modes[mode] for key, plan in self._plans.items() if mode in plan.modes}
        first = next((self._plans[key] for key, rank in ranks.items() if rank == 0), None)
        if not tied:
            key, status = (first.key, first.status) if first else (None, None)
            return FirstPick(mode, len(ranks), key, status)
        best_us = self._intervals[tied[0]].median
        close = [
            rank + 1
            for key, rank in ranks.items()
            if key in self._intervals
            and self._constraints.admit(self._plans[key])
            and self._intervals[key].median <= (1 + CLOSE_SHARE) * best_us
        ]
        close_after = min(close, default=None)
        if first is None:
            return FirstPick(mode, len(ranks), close_after=close_after)
        own = self._intervals.get(first.key)
        regret = own.median / best_us if own else None
        admitted = self._constraints.admit(first)
        return FirstPick(mode, len(ranks), first.key, first.status, regret, first.key in tied, admitted, close_after)

    def _cost(self, demand: Demand, tied: tuple[str, ...]) -> Cost:
        is_set = demand in self._constraints.demands
        with_it = self._constraints if is_set else self._constraints.adding(demand)
        without = self._constraints.without(demand) if is_set else self._constraints
        kept, free = self._admitted(with_it), self._admitted(without)
        only = Constraints().adding(demand) if demand != "workspace" else Constraints(with_it.workspace_limit_bytes)
        excluded = sum(not only.admit(self._plans[key]) for key in self._intervals)
        words = with_it.words(demand)
        if not kept or not free:
            return Cost(demand, words, is_set, excluded, None, same=False)
        ratio = self._intervals[kept[0]].median / self._intervals[free[0]].median
        return Cost(demand, words, is_set, excluded, ratio, self._is_same(kept[0], free[0]))

    def _unlisted(self) -> Unlisted | None:
        """Screening decides where it left all of one side behind, unless the few samples it took are the faster ones:
        those were taken at another time."""
        comparable = self._admitted(self._constraints)
        rest = [key for key in self._intervals if self._constraints.admit(self._plans[key]) and key not in comparable]
        beyond = [key for key in [*comparable, *rest] if not self._plans[key].modes]
        if not beyond:
            return None
        best, origin = beyond[0], self._plans[beyond[0]].origin
        listed = next((key for key in [*comparable, *rest] if self._plans[key].modes), None)
        if listed is None:
            return Unlisted(len(beyond), best, origin, None, ties=False)
        fast, slow = sorted((best, listed), key=lambda key: self._intervals[key].median)
        if fast in rest and slow in comparable:
            return None
        ratio = self._intervals[best].median / self._intervals[listed].median
        ties = slow in comparable and self._is_same(slow, fast)
        return Unlisted(len(beyond), best, origin, ratio, ties)
