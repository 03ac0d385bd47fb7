"""What a sweep has found out about each plan so far, and how that becomes records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.jobs.field import Field
from engine.jobs.ledger import Ledger
from engine.jobs.measuring import Setback
from engine.jobs.sampling import HotSampling
from engine.measure.findings import Finding
from engine.measure.screening import MOST_SURVIVORS, survivors
from engine.records.constraints import Constraints
from engine.records.plan import PlanRecord, Status
from engine.records.run import first_pick
from engine.records.samples import Samples
from engine.records.timings import Timings


class Outcomes:
    """Enters every outcome into the ledger; ``count``: how many plans were received."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._findings: dict[str, Finding] = {}
        self._seconds = {"list_s": 0.0, "build_s": 0.0, "check_s": 0.0, "screen_s": 0.0}

    @property
    def count(self) -> int:
        """Plans received."""
        return len(self._findings)

    def listed(self, at_s: float) -> None:
        """Plans were listed, so many seconds after the request."""
        self._seconds["list_s"] = self._seconds["list_s"] or at_s

    def built(self, plan: PlanRecord, at_s: float) -> None:
        """A plan was built, or could not be."""
        self._seconds["build_s"] = max(0.0, at_s - self._seconds["list_s"])
        self._ledger.enter(plan)

    def received(self, finding: Finding) -> None:
        """A plan was loaded, executed, compared and screened, as far as it came."""
        self._findings[finding.key] = finding
        self._seconds["check_s"] += finding.check_s
        self._seconds["screen_s"] += finding.screen_s
        plan = self._ledger.plans[finding.key]
        found: dict[str, Any] = {
            "status": finding.status,
            "stage": finding.stage,
            "accuracy": finding.accuracy,
            "deserialize_ms": finding.deserialize_ms,
            "capturable": finding.capturable,
        }
        if finding.status is not Status.OK:
            found["message"] = finding.message  # Else what building it remarked stays true.
        elif finding.screening is not None:
            found["timings"] = Timings(hot=finding.screening, gpu=finding.state)
        self._change(plan, found)

    def survivors(self, modes: Sequence[str], margin: float, meeting: Sequence[str] = ()) -> list[str]:
        """Who is sampled in turns, those ``meeting`` the constraints among them; the others keep what screening has
        shown."""
        right, picks = self._screened(), self.first_picks(modes)
        near = survivors(right, picks, margin)
        chosen = list(dict.fromkeys([*(key for key in picks if key in near), *meeting, *near]))[:MOST_SURVIVORS]
        for key in right:
            if key not in chosen:
                plan = self._ledger.plans[key]
                assert plan.timings is not None
                self._change(plan, {"timings": plan.timings.model_copy(update={"stopped": "screened"})})
        return [key for key in self._ledger.plans if key in chosen]

    def meeting(self, constraints: Constraints, margin: float) -> list[str]:
        """Where there are constraints: who is near the best plan that meets them. It may be far from the best of all,
        and its few samples of screening are too few to choose a winner by."""
        if not constraints.demands:
            return []
        plans = self._ledger.plans
        right = {key: values for key, values in self._screened().items() if constraints.admit(plans[key])}
        return survivors(right, (), margin)

    def _screened(self) -> dict[str, list[float]]:
        return {
            key: [float(value) for value in finding.screening.values]
            for key, finding in self._findings.items()
            if finding.screening is not None
        }

    def first_picks(self, modes: Sequence[str]) -> list[str]:
        """Each mode's own."""
        picks = (first_pick(self._ledger.plans.values(), (mode,)) for mode in modes)
        return list(dict.fromkeys(pick.key for pick in picks if pick is not None))

    def sampled(self, field: Field, sampling: HotSampling) -> None:
        """The hot samples are there."""
        self.left(field)
        for key in field.keys:
            timings = sampling.sampled[key].timings()
            if timings is not None:
                self._change(self._ledger.plans[key], {"timings": timings})

    def left(self, field: Field) -> None:
        """Plans that took the measuring process with them end so, whatever was known of them before."""
        for key, setback in field.lost.items():
            if self._ledger.plans[key].status is Status.OK:
                self._change(self._ledger.plans[key], _ended(setback))

    def add(self, key: str, regimes: dict[str, Samples]) -> None:
        """Samples of further regimes."""
        plan = self._ledger.plans[key]
        assert plan.timings is not None
        timings = Timings.model_validate({**dict(plan.timings), **regimes})
        self._change(plan, {"timings": timings})

    def change(self, key: str, **found: Any) -> None:
        """Something else about a plan."""
        self._change(self._ledger.plans[key], found)

    def seconds(self) -> dict[str, float]:
        """Seconds by phase."""
        return dict(self._seconds)

    def _change(self, plan: PlanRecord, found: dict[str, Any]) -> None:
        self._ledger.enter(PlanRecord.model_validate({**dict(plan), **found}))


def _ended(setback: Setback) -> dict[str, Any]:
    return {
        "status": setback.status,
        "stage": setback.stage,
        "message": setback.message,
        "timings": None,
        "repeats": None,
    }
