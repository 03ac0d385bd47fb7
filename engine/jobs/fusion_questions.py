"""What the measuring process of a comparison is asked beside what a sweep asks (see ``fusion_worker``)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import cudnn
import torch

from engine.graph.cutting import Cut, cut
from engine.graph.spec import GraphSpec
from engine.jobs import questions
from engine.jobs.protocol import Channel
from engine.jobs.questions import BadRequest, Blamed, Content, Questions, parse, read_blob
from engine.measure.device import Device
from engine.measure.fusion.ceilings import measure_ceilings
from engine.measure.fusion.contest import contest, sample, settled
from engine.measure.fusion.lineup import FusedPlan, lineup
from engine.measure.fusion.unfused import Unfused
from engine.measure.sampling import Hung
from engine.measure.screening import Rule
from engine.measure.session import FAILURES, Session, describe
from engine.plans.building import PlanFailure, load
from engine.plans.context import Context
from engine.records.fusion import VersionKind
from engine.records.options import SweepOptions
from engine.records.plan import Stage

OPS = (*questions.OPS, "pieces", "versions", "alone", "ceilings")
__all__ = ["OPS", "BadRequest", "Blamed", "FusionQuestions", "prepare"]


def prepare(device: Device, request: Content, channel: Channel) -> tuple[FusionQuestions, Content]:
    """Data and reference of a graph, and what the parent is told of them."""
    spec, options = parse(GraphSpec, request["graph"]), parse(SweepOptions, request["options"])
    began = time.monotonic()
    session = Session(device, spec, options)
    return FusionQuestions(session, channel), {"seconds": time.monotonic() - began}


class FusionQuestions(Questions):
    """The requests about the graph that is prepared."""

    def __init__(self, session: Session, channel: Channel) -> None:
        super().__init__(session, channel)
        self._unfused: tuple[Cut, Unfused | str] | None = None

    def pieces(self, request: Content) -> Content:
        """Load what runs the pieces."""
        session, made = self._session, cut(self._session.spec)
        context, loaded, failed = Context(handle=session.device.handle), {}, {}
        for place, plan in request["plans"].items():
            self._channel.send(request, "stage", stage=Stage.LOAD, key=f"piece {place}")
            try:
                loaded[int(place)], _ = load(cudnn, context, read_blob(plan))
            except PlanFailure as failure:
                failed[place] = failure.message
        self._unfused = None  # Its memory first.
        try:
            self._unfused = made, Unfused(made, session.buffers, loaded, session.device.handle)
        except torch.OutOfMemoryError as error:
            self._unfused = made, f"the tensors between the pieces do not fit: {describe(error)[:300]}"
        return {"failed": failed}

    def versions(self, request: Content) -> Content:
        """All versions of the graph against each other."""
        made, unfused = self._cut()
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(request["scratch"])  # Read whenever something is compiled.
        fused = {VersionKind(kind): FusedPlan(**plan) for kind, plan in request["fused"].items()}
        kinds = [VersionKind(kind) for kind in request["kinds"]]
        entrants = lineup(self._session, made, kinds, unfused, fused)
        rule, seed = Rule(**request["rule"]), int(request["seed"])
        try:
            found = contest(self._session, made, entrants, rule, seed, self._turn(request))
        except Hung as error:
            raise Blamed(error.key, str(error), hung=True) from error
        for version in found:
            self._channel.send(request, "part", version=version.model_dump(mode="json"))
        return {}

    def alone(self, request: Content) -> Content:
        """The pieces one by one; one that cannot be timed is left out."""
        made, unfused = self._cut()
        if isinstance(unfused, str):
            return {}
        unfused.run()
        turn, ready = self._turn(request), {}
        for place in range(len(made.pieces)):
            turn(f"piece {place}")
            try:
                ready[str(place)] = settled(unfused.alone(place))
            except FAILURES as error:
                self._channel.send(request, "part", place=place, message=describe(error)[:500])
        rule, seed = Rule(**request["rule"]), int(request["seed"])
        for key, timings in sample(self._session, ready, rule, seed, turn, regimes=()).items():
            self._channel.send(request, "part", place=int(key), hot=timings.hot.model_dump(mode="json"))
        return {}

    def ceilings(self, request: Content) -> Content:
        """What this GPU can do."""
        self._turn(request)("ceilings")
        return {"ceilings": measure_ceilings(self._session, int(request["seed"])).model_dump(mode="json")}

    def _cut(self) -> tuple[Cut, Unfused | str]:
        if self._unfused is None:
            raise BadRequest("the pieces are not loaded")
        return self._unfused

    def _turn(self, request: Content) -> Callable[[Any], None]:
        return lambda key: self._channel.send(request, "stage", stage="version", key=str(key))
