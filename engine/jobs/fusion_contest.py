"""One graph of a comparison on the measuring process: choose the tuned plan, then have all versions run against each
other. What takes the process with it costs the version or the plan that is to blame, and the rest is asked again."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.jobs.admission import Admission, Entry
from engine.jobs.conversation import Content, Lost
from engine.jobs.field import MOST_LOSSES, Field
from engine.jobs.fusion_plans import PlannedGraph
from engine.jobs.measuring import GpuWorker, Setback
from engine.jobs.protocol import JobError
from engine.jobs.sampling import HotSampling
from engine.measure.findings import Finding
from engine.measure.fusion_kinds import FUSED, kinds_for
from engine.measure.screening import Rule, survivors
from engine.plans.candidates import MODES
from engine.records.fusion import PieceRecord, Version, VersionKind
from engine.records.options import SweepOptions
from engine.records.plan import PlanRecord, Status
from engine.records.run import Refusal, first_pick
from engine.records.samples import Samples

logger = logging.getLogger(__name__)

CHOOSING = Rule(least=50, error=0.005, margin=1.05, budget_s=2.0)
"""To choose the tuned plan by. What it then shows comes from samples of its own, so choosing flatters nobody."""


class GraphContest:
    """Call ``run``, then ``pieces``. Both raise JobError and JobCancelled."""

    def __init__(self, made: PlannedGraph, worker: GpuWorker, blob_dir: Path, rule: Rule, seed: int) -> None:
        self._made, self._worker, self._blob_dir, self._rule, self._seed = made, worker, blob_dir, rule, seed
        self._failed: dict[int, str] = {}
        self._dropped: set[int] = set()
        self._losses = 0

    def run(self, kinds: Sequence[VersionKind] | None = None) -> tuple[Version, ...]:
        """Every version that was asked for, whatever became of it, in the order asked."""
        wanted = list(kinds or kinds_for(self._made.cut.graph))
        self._worker.begin(self._made.cut.graph, SweepOptions(seed=self._seed))
        self._worker.ready()
        fused, found = self._choose(wanted)
        while left := [kind for kind in wanted if kind not in found]:
            try:
                self._ask(left, fused, found)
                for kind in left:
                    found.setdefault(kind, Version(kind=kind, message="the measuring process did not tell of it."))
            except Setback as setback:
                self._take(setback, left, found)
        return tuple(found[kind] for kind in wanted)

    def pieces(self, alone: bool = False) -> tuple[PieceRecord, ...]:
        """The pieces as they ran; with ``alone`` each one's own time, where it could be taken."""
        times: dict[int, Samples] = {}

        def take(part: Content) -> None:
            if "hot" in part:
                times[int(part["place"])] = Samples.model_validate(part["hot"])

        if alone:
            try:
                self._load_pieces()
                rule = replace(self._rule, budget_s=min(self._rule.budget_s, 2.0))
                self._worker.request("alone", take, rule=asdict(rule), seed=self._seed)
            except Setback as setback:
                logger.warning("pieces were not timed on their own: %s", setback.message)
        told = []
        for place, piece in enumerate(self._made.pieces):
            changes: dict[str, Any] = {"hot": times.get(place)}
            if place in self._failed:
                refusal = Refusal(message=self._failed[place])
                changes |= {"runs_on": "torch", "plan": None, "refusal": refusal}
            told.append(PieceRecord(**{**dict(piece), **changes}))
        return tuple(told)

    # -- The fused plans

    def _choose(
        self, wanted: Sequence[VersionKind]
    ) -> tuple[dict[VersionKind, PlanRecord], dict[VersionKind, Version]]:
        """The first pick and the fastest plan; and as versions already ended what cannot run."""
        fused = [kind for kind in wanted if kind in FUSED]
        if not self._made.built:
            refusal = self._made.refusal
            why = refusal.message if refusal else "none of its plans could be built."
            return {}, {kind: Version(kind=kind, message=why) for kind in fused}
        findings = self._admit()
        right = {key: finding for key, finding in findings.items() if finding.status is Status.OK}
        plans = {plan.key: plan for plan in self._made.built}
        chosen: dict[VersionKind, PlanRecord] = {}
        ended: dict[VersionKind, Version] = {}
        pick = first_pick(self._made.plans, MODES)
        if pick is not None and pick.key in right:
            chosen[VersionKind.FIRST_PICK] = plans[pick.key]
        else:
            finding = findings.get(pick.key) if pick else None
            told = finding.message if finding else pick.message if pick else None
            ended[VersionKind.FIRST_PICK] = Version(
                kind=VersionKind.FIRST_PICK, message=told or "there is no first pick that runs."
            )
        fastest = self._fastest([plans[key] for key in right], right)
        if fastest is not None:
            chosen[VersionKind.TUNED] = fastest
        else:
            ended[VersionKind.TUNED] = Version(kind=VersionKind.TUNED, message="no plan gives a right result.")
        return chosen, {kind: version for kind, version in ended.items() if kind in fused}

    def _admit(self) -> dict[str, Finding]:
        admission, found = Admission(self._worker, self._seed), {}
        for plan in self._made.built:
            admission.add(self._entry(plan))
        while not admission.idle:
            if (finding := admission.step(0.1)) is not None:
                found[finding.key] = finding
        return found

    def _fastest(self, plans: Sequence[PlanRecord], right: dict[str, Finding]) -> PlanRecord | None:
        screened = {p.key: s.values.tolist() for p in plans if (s := right[p.key].screening) is not None}
        near = set(survivors(screened, margin=CHOOSING.margin))
        field = Field(self._worker, [self._entry(plan) for plan in plans if plan.key in near])
        sampling = HotSampling(field, CHOOSING, self._seed + 1, (), lambda fraction: None)
        sampling.run()
        medians = {key: Samples.of(s.values).median_us for key, s in sampling.sampled.items() if s.values}
        medians = {key: median for key, median in medians.items() if key not in field.lost}
        if not medians:
            return None
        best = min(medians, key=lambda key: medians[key])
        return next(plan for plan in plans if plan.key == best)

    def _entry(self, plan: PlanRecord) -> Entry:
        return Entry(plan, self._blob_dir / str(plan.blob_sha256))

    # -- All versions

    def _ask(
        self,
        kinds: Sequence[VersionKind],
        fused: dict[VersionKind, PlanRecord],
        found: dict[VersionKind, Version],
    ) -> None:
        """One contest; ``found`` gets what is told. Raises Setback."""
        self._worker.ready()
        for plan in {plan.key: plan for kind, plan in fused.items() if kind in kinds}.values():
            if plan.key not in self._worker.loaded:
                self._worker.request("reload", **self._entry(plan).content, executions=None)
                self._worker.loaded.add(plan.key)
        self._load_pieces()
        told: dict[VersionKind, Version] = {}

        def take(part: Content) -> None:
            version = _version(part.get("version"))
            told[version.kind] = version

        content = {
            "kinds": [kind.value for kind in kinds],
            "fused": {kind.value: _fused(plan) for kind, plan in fused.items() if kind in kinds},
            "rule": asdict(self._rule),
            "seed": self._seed,
            "scratch": tempfile.mkdtemp(prefix="compiled-", dir=self._blob_dir.resolve()),
        }
        self._worker.request("versions", take, **content)
        found.update(told)

    def _load_pieces(self) -> None:
        plans = {place: plan for place, plan in self._made.piece_plans.items() if place not in self._dropped}
        asked = {str(place): self._entry(plan).content for place, plan in plans.items()}
        try:
            answer = self._worker.request("pieces", plans=asked)
            self._failed.update({int(place): str(message) for place, message in answer["failed"].items()})
        except (KeyError, ValueError, AttributeError, ValidationError) as error:
            raise self._worker.setback(Lost(f"sent what is no answer about pieces: {error!r}")) from None

    def _take(self, setback: Setback, left: Sequence[VersionKind], found: dict[VersionKind, Version]) -> None:
        """Who is to blame ends with the message; where nobody is known, a few more tries."""
        key = setback.key or ""
        if key in {kind.value for kind in left}:
            kind = VersionKind(key)
            found[kind] = Version(kind=kind, message=setback.message[:2000])
            return
        if key.startswith("piece ") and int(key.split()[1]) not in self._dropped:
            place = int(key.split()[1])
            self._dropped.add(place)
            self._failed[place] = setback.message
            return
        self._losses += 1
        if self._losses >= MOST_LOSSES:
            raise JobError(f"the measuring process was lost {self._losses} times; the last time: {setback.message}")


def _version(content: object) -> Version:
    try:
        return Version.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise Lost(f"sent something that is no Version: {error}") from None


def _fused(plan: PlanRecord) -> dict[str, Any]:
    return {"key": plan.key, "name": plan.plan_name, "workspace_bytes": plan.workspace_bytes or 0}
