"""What the measuring process is asked about one graph, request by request (see ``worker``), and its answers as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from engine.graph.spec import GraphSpec
from engine.jobs.protocol import Channel
from engine.measure.baselines.timed import measure_baseline
from engine.measure.device import Device
from engine.measure.regimes import measure_regimes
from engine.measure.repeats import measure_repeats
from engine.measure.rounds import Rounds, Tally
from engine.measure.sampling import Hung, Round
from engine.measure.screening import Rule
from engine.measure.session import FAILURES, Session, describe
from engine.plans.building import PlanFailure
from engine.records.options import SweepOptions
from engine.records.plan import Stage, Status
from engine.records.timings import Regime

OPS = ("admit", "reload", "rounds", "regimes", "repeat", "baseline")
Content = dict[str, Any]
M = TypeVar("M", bound=BaseModel)


class BadRequest(ValueError):
    """The parent asked for something this worker cannot do."""


class Blamed(RuntimeError):
    """A plan to blame for the request's failure; ``hung``: it still occupies the GPU."""

    def __init__(self, key: str, message: str, hung: bool = False) -> None:
        super().__init__(message)
        self.key, self.hung = key, hung


def prepare(device: Device, request: Content, channel: Channel) -> tuple[Questions, Content]:
    """Data and reference of a graph, and what the parent is told of them."""
    spec, options = parse(GraphSpec, request["graph"]), parse(SweepOptions, request["options"])
    began = time.monotonic()
    session = Session(device, spec, options, compares=bool(request.get("compares", True)))
    dtype = str(session.reference_dtype).removeprefix("torch.")
    told: Content = {"reference_dtype": dtype, "bytes": sum(tensor.nbytes for tensor in spec.real)}
    told["seconds"] = time.monotonic() - began
    return Questions(session, channel), told


class Questions:
    """The requests about the graph that is prepared."""

    def __init__(self, session: Session, channel: Channel) -> None:
        self._session, self._channel = session, channel

    def admit(self, request: Content) -> Content:
        """Load, execute, compare, screen."""
        blob, tell = read_blob(request), self._stages(request, request["key"])
        workspace, best_us = int(request["workspace_bytes"]), request["best_us"]
        finding = self._session.admit(request["key"], blob, workspace, best_us, tell)
        return {"finding": finding.model_dump(mode="json"), "suspect": finding.status is not Status.OK}

    def reload(self, request: Content) -> Content:
        """Load once more. Raises Blamed."""
        key, tell = request["key"], self._stages(request, request["key"])
        try:
            self._session.reload(key, read_blob(request), int(request["workspace_bytes"]), request["executions"], tell)
        except (PlanFailure, *FAILURES) as error:
            raise Blamed(key, describe(error)) from error
        return {}

    def rounds(self, request: Content) -> Content:
        """Sample plans in turns. Raises Blamed for a plan that hangs."""
        executions: Mapping[str, int | None] = request["executions"]
        before = {key: Tally(**tally) for key, tally in request["before"].items()}
        spent_s, rule = float(request["spent_s"]), Rule(**request["rule"])
        rounds = Rounds(list(executions), rule, int(request["seed"]), request["keep"], before, spent_s)

        def report(told: Sequence[Round]) -> None:
            held = self._session.executions(executions)
            self._channel.send(request, "part", **rounds_part(told, held), fraction=rounds.fraction)

        announce = self._announcing(request) if request["careful"] else None
        try:
            self._session.sample(rounds, executions, report, announce)
        except Hung as error:
            raise Blamed(error.key, str(error), hung=True) from error
        return {"stopped": rounds.stopped}

    def regimes(self, request: Content) -> Content:
        """Everything but hot, in blocks over all plans."""
        plans = {key: self._session.contestant(key) for key in request["keys"]}
        regimes = [Regime(name) for name in request["regimes"]]
        announce = self._announcing(request)
        if Regime.HOST_READY in regimes:
            for key in plans:
                announce(key)
                self._session.check_ready(key)
        found = measure_regimes(regimes, plans, self._session.flush, int(request["seed"]), announce)
        for key, samples in found.items():
            content = {regime.value: values.model_dump(mode="json") for regime, values in samples.items()}
            self._channel.send(request, "part", key=key, samples=content)
        return {}

    def repeat(self, request: Content) -> Content:
        """Each plan again and again on the same data."""
        for key in request["keys"]:
            self._channel.send(request, "stage", stage=Stage.CHECK, key=key)
            repeats = measure_repeats(self._session, key)
            if repeats is not None:
                self._channel.send(request, "part", key=key, repeats=repeats.model_dump(mode="json"))
        return {}

    def baseline(self, request: Content) -> Content:
        """torch."""
        self._channel.send(request, "stage", stage=Stage.TIME, key=None)
        baseline = measure_baseline(self._session, Rule(**request["rule"]), int(request["seed"]))
        return {"baseline": baseline.model_dump(mode="json"), "suspect": baseline.timings is None}

    def _stages(self, request: Content, key: str) -> Callable[[Stage], None]:
        return lambda stage: self._channel.send(request, "stage", stage=stage, key=key)

    def _announcing(self, request: Content) -> Callable[[str], None]:
        return lambda key: self._channel.send(request, "stage", stage=Stage.TIME, key=key)


def rounds_part(told: Sequence[Round], executions: Mapping[str, int]) -> Content:
    """Rounds as JSON: ``states``, one per round (null where the GPU does not tell);
    ``kept`` by plan: ``data`` as in Samples, the ``executions`` of each, and the ``rounds`` they are of; ``set_aside``
    by plan: how many were."""
    kept: dict[str, tuple[list[float], list[int]]] = {}
    set_aside: dict[str, int] = {}
    for number, one in enumerate(told):
        for key, value, is_kept in one.samples:
            if is_kept:
                values, numbers = kept.setdefault(key, ([], []))
                values.append(value)
                numbers.append(number)
            else:
                set_aside[key] = set_aside.get(key, 0) + 1
    states = [one.state.model_dump(mode="json") if one.state else None for one in told]
    return {
        "states": states,
        "kept": {
            key: {"data": encode(values), "executions": executions[key], "rounds": numbers}
            for key, (values, numbers) in kept.items()
        },
        "set_aside": set_aside,
    }


def encode(values: Sequence[float]) -> str:
    """Numbers as base64 of little-endian float32."""
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def parse(model: type[M], content: Any) -> M:
    """Strictly, as JSON: the models are strict, and a parsed list is no tuple to them."""
    try:
        return model.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise BadRequest(f"not a {model.__name__}: {error}") from None


def read_blob(request: Content) -> bytes:
    """The serialized plan of a request. Raises BadRequest where it is damaged, and what reading a file raises."""
    blob = Path(request["blob"]).read_bytes()
    if request["sha256"] and hashlib.sha256(blob).hexdigest() != request["sha256"]:
        raise BadRequest(f"the serialized plan is damaged: its checksum is not {request['sha256']}")
    return blob
