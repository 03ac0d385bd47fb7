"""What follows the hot verdict, timed apart: torch, the other regimes, repeated runs, and the confirmation of the
winner against the heuristics' first pick in a fresh process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import ValidationError

from engine.jobs.admission import Entry
from engine.jobs.conversation import Content, Lost
from engine.jobs.field import Field
from engine.jobs.ledger import Ledger
from engine.jobs.measuring import GpuWorker, Setback, read
from engine.jobs.outcomes import Outcomes
from engine.jobs.protocol import JobError
from engine.jobs.request import Request
from engine.jobs.sampling import HotSampling
from engine.jobs.workers import Workers
from engine.measure.screening import MOST_SURVIVORS, Rule
from engine.records.constraints import Constraints
from engine.records.passport import Repeatability
from engine.records.plan import PlanRecord, Status
from engine.records.run import Baseline, Confirmation, first_pick
from engine.records.samples import Samples
from engine.records.timings import Regime
from engine.records.verdict import verdict

HOST = (Regime.HOST, Regime.HOST_READY, Regime.END_TO_END)
PAIRS = 100
HOPELESS = 20.0
"""Times the winner's: a first pick so slow needs no confirmation."""


class Aftermath:
    """One call of ``run``."""

    def __init__(
        self,
        request: Request,
        ledger: Ledger,
        outcomes: Outcomes,
        field: Field,
        workers: Workers,
        rule: Rule,
        blob_dir: Path,
    ) -> None:
        self._request, self._ledger, self._outcomes = request, ledger, outcomes
        self._field, self._workers, self._rule, self._blob_dir = field, workers, rule, blob_dir
        self._seed = request.options.seed

    def run(self, winner: PlanRecord | None) -> None:
        """``winner``: of the hot verdict, None where there is none. Raises JobError, JobCancelled and StoreError."""
        self._step("measuring torch eager", self._baseline, None)
        self._step("measuring what calls cost the host", lambda: self._regimes(HOST), "host_s")
        self._step("measuring with a cold cache", lambda: self._regimes((Regime.COLD,)), "cold_s")
        self._ledger.estimate.followed()
        if self._rival(winner) is not None:
            self._workers.second()  # Starts while bits are compared, which nothing disturbs.
        self._step("comparing the bits of repeated runs", self._repeat, "passport_s")
        self._ledger.estimate.followed()
        self._step("confirming the winner in a fresh process", lambda: self._confirm(self._winner()), "confirmation_s")
        self._ledger.estimate.followed()

    def _step(self, message: str, work: Callable[[], None], phase: str | None) -> None:
        began = time.monotonic()
        self._ledger.tell(message)
        work()
        if phase is None:
            self._ledger.estimate.followed()
        elif self._ledger.phases is not None:
            self._ledger.phases = self._ledger.phases.model_copy(update={phase: time.monotonic() - began})
        self._ledger.flush()

    def _baseline(self) -> None:
        rule = replace(self._rule, budget_s=min(self._rule.budget_s, 2.0))
        try:
            answer = self._workers.first.request("baseline", rule=asdict(rule), seed=self._seed)
            baseline = read(Baseline, answer.get("baseline"))
        except Setback as setback:
            baseline = Baseline(name="torch eager", accuracy=(), timings=None, message=setback.message)
        except Lost as lost:
            self._workers.first.close()
            baseline = Baseline(name="torch eager", accuracy=(), timings=None, message=f"the measuring process {lost}")
        self._ledger.enter_baseline(baseline)

    def _regimes(self, regimes: Sequence[Regime]) -> None:
        found: dict[str, dict[str, Samples]] = {}

        def take(part: Content) -> None:
            try:
                samples = {Regime(n).value: Samples.model_validate(v) for n, v in part["samples"].items()}
                found[str(part["key"])] = samples
            except (KeyError, ValueError, AttributeError, ValidationError) as error:
                raise Lost(f"sent samples that cannot be read: {error!r}") from None

        asked = {"regimes": [regime.value for regime in regimes], "seed": self._seed}
        self._field.ask("regimes", lambda keys, _: {"keys": keys, **asked}, take, self._full())
        self._outcomes.left(self._field)
        for key in self._field.keys:
            if found.get(key):
                self._outcomes.add(key, found[key])

    def _repeat(self) -> None:
        found: dict[str, Repeatability] = {}

        def take(part: Content) -> None:
            try:
                found[str(part["key"])] = Repeatability.model_validate_json(json.dumps(part["repeats"]))
            except (KeyError, ValidationError) as error:
                raise Lost(f"sent something that is no comparison of bits: {error!r}") from None

        right = self._right()
        for start in range(0, len(right), MOST_SURVIVORS):
            some = self._field_of(right[start : start + MOST_SURVIVORS])
            some.ask("repeat", lambda keys, _: {"keys": keys}, take)
            self._outcomes.left(some)
            for key in some.keys:
                if key in found:
                    self._outcomes.change(key, repeats=found[key])

    def _confirm(self, winner: PlanRecord | None) -> None:
        pick = self._rival(winner)
        if winner is None or pick is None:
            return
        try:
            found = self._paired(winner, pick)
        except JobError as error:
            found = {"message": str(error)}
        pair = {"winner": winner.key, "first_pick": pick.key}
        self._ledger.confirmation = Confirmation.model_validate({**pair, **found})

    def _winner(self) -> PlanRecord | None:
        """As it stands now: what followed the verdict may have cost the winner its place, or shown that its results do
        not repeat where only deterministic plans were asked for."""
        plans, options = self._ledger.plans, self._request.options
        judged = verdict(plans.values(), Regime.HOT, Constraints.of(options), options.modes)
        return plans[judged.winner] if judged.winner else None

    def _rival(self, winner: PlanRecord | None) -> PlanRecord | None:
        """Whom the winner is to be confirmed against: the first pick, where it is another plan."""
        pick = first_pick(self._ledger.plans.values(), self._request.options.modes)
        return None if winner is None or pick is None or pick.key == winner.key else pick

    def _paired(self, winner: PlanRecord, pick: PlanRecord) -> dict[str, object]:
        assert winner.timings is not None
        if pick.timings is None:
            return {"message": f"the first pick ended as {pick.status}"}
        if pick.timings.hot.median_us > HOPELESS * winner.timings.hot.median_us:
            return {"message": f"the first pick takes more than {HOPELESS:g} times as long"}
        worker = self._workers.second()
        worker.begin(self._request.graph, self._request.options, compares=False)
        field = self._field_of([winner, pick], worker)
        rule = Rule(least=PAIRS, error=1.0, margin=1e9, budget_s=self._rule.budget_s)
        sampling = HotSampling(field, rule, self._seed + 1, (), lambda fraction: None)
        sampling.run()
        if field.lost:
            key, setback = next(iter(field.lost.items()))
            return {"message": f"plan {key}: {setback.message}"}
        one, other = sampling.sampled[winner.key], sampling.sampled[pick.key]
        count = min(len(one.values), len(other.values))
        if count == 0:
            return {"message": "no samples were taken"}
        return {
            "winner_us": Samples.of(one.values[:count], executions=one.executions),
            "first_pick_us": Samples.of(other.values[:count], executions=other.executions),
            "states": tuple(one.states[:count]),
        }

    def _full(self) -> list[str]:
        """Plans that were not screened out."""
        plans = self._ledger.plans
        return [key for key in self._field.keys if (t := plans[key].timings) is not None and t.stopped != "screened"]

    def _field_of(self, plans: Iterable[PlanRecord], worker: GpuWorker | None = None) -> Field:
        entries = [Entry(plan, self._blob_dir / str(plan.blob_sha256)) for plan in plans]
        return Field(worker or self._workers.first, entries)

    def _right(self) -> list[PlanRecord]:
        return [p for p in self._ledger.plans.values() if p.status is Status.OK and p.timings is not None]
