"""What asking beyond the heuristics brought: how many plans of which origin came how far.

Engines that nobody lists and knobs that nobody chose are worth the search only where the answer is told either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from engine.records.options import SweepOptions
from engine.records.plan import PlanOrigin, Status
from engine.records.run import RunKind, RunRecord
from engine.records.wording import several

_WORDS = {
    PlanOrigin.EXPLICIT: ("explicit plan", ""),
    PlanOrigin.ENGINE_LIST: ("plan", " of engines that no mode lists"),
    PlanOrigin.KNOB_SEARCH: ("knob choice", ""),
}


@dataclass(frozen=True)
class Tally:
    """Plans of one origin: how many there are, how many of them were built and measured, and how the others ended.
    ``measured`` is None of a run that measures nothing."""

    origin: PlanOrigin
    plans: int
    built: int
    measured: int | None
    failed: dict[Status, int]

    @property
    def sentence(self) -> str:
        """In words."""
        came = f"{self.built} built" if self.measured is None else f"{self.measured} measured"
        ends = [f"{count} {str(status).replace('_', ' ')}" for status, count in self.failed.items()]
        noun, which = _WORDS[self.origin]
        return f"{several(self.plans, noun)}{which} ({', '.join([came, *ends])})"


def beyond_the_heuristics(run: RunRecord) -> tuple[Tally, ...]:
    """By origin; nothing where nothing was asked for beyond the heuristics, and nothing is there."""
    asked = _asked(run.options)
    return tuple(tally for origin in _WORDS if (tally := _tally(origin, run)).plans or origin in asked)


def beyond_sentence(tallies: Iterable[Tally]) -> str:
    """All of them in one sentence."""
    return f"Besides the listed plans: {'; '.join(tally.sentence for tally in tallies)}."


def _asked(options: SweepOptions) -> set[PlanOrigin]:
    asked = {
        PlanOrigin.EXPLICIT: bool(options.explicit),
        PlanOrigin.ENGINE_LIST: options.every_engine,
        PlanOrigin.KNOB_SEARCH: options.knob_budget > 0,
    }
    return {origin for origin, was in asked.items() if was}


def _tally(origin: PlanOrigin, run: RunRecord) -> Tally:
    own = [plan for plan in run.plans if plan.origin is origin]
    failed = Counter[Status](plan.status for plan in own if plan.status not in (Status.OK, Status.LISTED))
    built = sum(plan.status is Status.OK and plan.blob_sha256 is not None for plan in own)
    measured = sum(plan.timings is not None for plan in own) if run.kind is RunKind.SWEEP else None
    return Tally(origin, len(own), built, measured, dict(failed))
