"""Plans for a graph and for the pieces it is cut into: what a comparison runs, and what cuDNN refuses."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.graph.cost import piece_bytes
from engine.graph.cutting import Cut, Piece, cut
from engine.graph.spec import GraphSpec
from engine.jobs.endings import built, failure
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled
from engine.jobs.replies import End
from engine.plans.candidates import MODES
from engine.plans.targets import Target
from engine.records.environment import Environment
from engine.records.fusion import PieceRecord
from engine.records.plan import PlanRecord, Stage, Status
from engine.records.run import Refusal

TRIES = 3
"""How many of the heuristics' plans of a piece are tried until one builds."""


@dataclass(frozen=True)
class FirstPlan:
    """The first plan that built, of ``count``; where there is none, why not."""

    plan: PlanRecord | None
    count: int
    refusal: Refusal | None


@dataclass(frozen=True)
class PlannedGraph:
    """A graph ready to be measured fused and unfused. ``piece_plans``: by the piece's place; ``plans``: of the whole
    graph, as far as they were built."""

    cut: Cut
    pieces: tuple[PieceRecord, ...]
    piece_plans: dict[int, PlanRecord]
    plans: tuple[PlanRecord, ...]
    refusal: Refusal | None

    @property
    def built(self) -> tuple[PlanRecord, ...]:
        """Plans of the whole graph that can be run."""
        return tuple(plan for plan in self.plans if plan.blob_sha256 is not None)


class FusionPlanner:
    """Plans graphs with one pool. Equal pieces are asked about once. Everything raises JobCancelled and CannotPlan."""

    def __init__(
        self,
        pool: BuilderPool,
        target: Target,
        blob_dir: Path,
        cancel: threading.Event,
        modes: Sequence[str] = MODES,
        environment: Environment | None = None,
    ) -> None:
        self._pool, self._target, self._blob_dir, self._cancel = pool, target, blob_dir, cancel
        self._modes, self.environment = tuple(modes), environment
        self.remarks: list[str] = []
        self._known: dict[str, FirstPlan] = {}

    def plan(self, spec: GraphSpec, every: bool) -> PlannedGraph:
        """The pieces with one plan each; of the whole graph every plan, or its first one."""
        made = cut(spec)
        found = [self.first(piece.spec) for piece in made.pieces]
        pieces = tuple(_record(piece, first) for piece, first in zip(made.pieces, found, strict=True))
        plans = {i: first.plan for i, first in enumerate(found) if first.plan is not None}
        if not every:
            whole = self.first(spec)
            return PlannedGraph(made, pieces, plans, (whole.plan,) if whole.plan else (), whole.refusal)
        outcome = self._ask(spec, build=True)
        return PlannedGraph(made, pieces, plans, outcome[0], outcome[1])

    def first(self, spec: GraphSpec) -> FirstPlan:
        """The first plan of the heuristics that builds."""
        if spec.graph_id not in self._known:
            self._known[spec.graph_id] = self._first(spec)
        return self._known[spec.graph_id]

    def _first(self, spec: GraphSpec) -> FirstPlan:
        plans, refusal = self._ask(spec, build=False)
        if refusal is not None:
            return FirstPlan(None, 0, refusal)
        message = "cuDNN lists no plan."
        for plan in plans[:TRIES]:
            ended = self._build(spec, plan)
            if ended.status is Status.OK:
                return FirstPlan(ended, len(plans), None)
            message = ended.message or message
        return FirstPlan(None, len(plans), Refusal(message=f"none of its first plans builds: {message}"))

    def _ask(self, spec: GraphSpec, build: bool) -> tuple[tuple[PlanRecord, ...], Refusal | None]:
        outcome = plan_graph(
            spec,
            self._target,
            self._modes,
            pool=self._pool,
            blob_dir=self._blob_dir,
            build=build,
            reload=False,
            cancel=self._cancel,
            environment=self.environment,
        )
        if outcome.cancelled:
            raise JobCancelled
        self.environment = outcome.environment
        self.remarks += [remark for remark in outcome.remarks if remark not in self.remarks]
        return outcome.plans, outcome.refusal

    def _build(self, spec: GraphSpec, plan: PlanRecord) -> PlanRecord:
        content = {
            "spec": spec.model_dump_json(),
            "target": self._target.model_dump_json(),
            "identity": plan.identity.model_dump_json(),
            "plan_name": plan.plan_name,
            "modes": list(plan.modes),
            "blob_dir": str(self._blob_dir.resolve()),
        }
        reply = self._pool.submit("build", content, cancel=self._cancel).result()
        if reply.end is End.CANCELLED:
            raise JobCancelled
        told = failure(reply, Stage.BUILD) if reply.end is not End.DONE else {**built(reply), "status": Status.OK}
        return PlanRecord(**{**dict(plan), **told})


def _record(piece: Piece, first: FirstPlan) -> PieceRecord:
    return PieceRecord(
        label=piece.label,
        origin=piece.origin,
        contracts=piece.operation.contracts,
        runs_on="torch" if first.plan is None else "cudnn",
        plan=None if first.plan is None else (first.plan.key, first.plan.plan_name),
        plans=first.count,
        refusal=first.refusal,
        bytes_moved=piece_bytes(piece),
        flops=piece.spec.flops(),
    )
