"""The process that owns a GPU: ``python -m engine.jobs.worker``, the GPU picked by CUDA_VISIBLE_DEVICES (a UUID).

It imports torch and cudnn, speaks ``engine.jobs.protocol`` and works off one request at a time:

``environment`` -> ``done {"environment": Environment}``; its ``gpu`` is null where this process sees no GPU.
``properties`` -> ``done {"properties": {...}}``: the device properties as a target file holds them.
``prepare {"graph": GraphSpec, "seed": int}`` -> ``done {"reference_dtype": "float64" | "float32", "bytes": int}``.
    Makes data and reference, in place of the last graph's. Needed before the next two, and again after a restart.
``measure {"plan": PlanRecord, "blob": PATH}`` -> ``stage {"stage": Stage}`` before each of load, execute, check, time;
    then ``done {"plan": PlanRecord, "restart": bool}``: the same record with the outcome filled in. A plan that fails
    to load, run or give the right values is such an outcome, not a failure of the request. The plan's
    ``blob_sha256`` is checked where it is set.
``baseline`` -> ``stage {"stage": "time"}``, ``done {"baseline": Baseline, "restart": bool}``.

Every other end is ``failed {"message": str, "restart": bool}``: no GPU, too little memory (with the numbers), nothing
prepared, an unreadable blob, an unknown op. ``restart`` true: an error has spoilt the CUDA context (an illegal access,
for example), and the worker exits with status EXIT_DEVICE_LOST after this line. A hang is the parent's to notice, by
the stage it has heard of last. Records travel as their JSON.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from engine.graph.spec import GraphSpec
from engine.jobs.protocol import Channel, die_with_parent
from engine.machine.driver import load_libcuda
from engine.records.plan import PlanRecord, Stage

EXIT_DEVICE_LOST = 3
Content = dict[str, Any]
M = TypeVar("M", bound=BaseModel)

logger = logging.getLogger(__name__)


class BadRequest(ValueError):
    """The parent asked for something this worker cannot do."""


class Worker:
    """The state between requests: the device, and the session of the graph prepared last."""

    def __init__(self, channel: Channel) -> None:
        # Only here: importing this module (its constants) must not load torch and cudnn.
        from engine.measure import device, session

        self._channel = channel
        self._device_module, self._session_module = device, session
        self._device: device.Device | None = None
        self._session: session.Session | None = None

    def device(self) -> Any:
        """The GPU; opened at the first request that needs it. Raises NoGpu."""
        if self._device is None:
            self._device = self._device_module.Device()
        return self._device

    def answer(self, request: Content) -> bool:
        """Work off one request, to its ``done`` or ``failed``; False when this process cannot go on."""
        ops = {
            "environment": self._environment,
            "properties": self._properties,
            "prepare": self._prepare,
            "measure": self._measure,
            "baseline": self._baseline,
        }
        try:
            if request.get("op") not in ops:
                raise BadRequest(f"no such op: {request.get('op')!r}")
            content, event = ops[request["op"]](request), "done"
        except (RuntimeError, ValueError, OSError, KeyError) as error:
            logger.warning("%s failed", request.get("op"), exc_info=True)
            content, event = {"message": _describe(error)}, "failed"
        lost = (
            self._device is not None and (event == "failed" or content.pop("suspect", False)) and self._device.is_lost()
        )
        if event == "failed" or request["op"] in ("measure", "baseline"):
            content["restart"] = lost
        self._channel.send(request, event, **content)
        return not lost

    def _environment(self, request: Content) -> Content:
        try:
            gpu = self.device().info
        except self._device_module.NoGpu:
            gpu = None
        return {"environment": _plain(self._device_module.environment(gpu))}

    def _properties(self, request: Content) -> Content:
        return {"properties": self.device().properties()}

    def _prepare(self, request: Content) -> Content:
        spec, device = _parse(GraphSpec, request["graph"]), self.device()
        self._session = None  # before the next one asks how much memory is free
        self._session = self._session_module.Session(device, spec, int(request["seed"]))
        dtype = str(self._session.reference_dtype).removeprefix("torch.")
        return {"reference_dtype": dtype, "bytes": sum(tensor.nbytes for tensor in spec.real)}

    def _measure(self, request: Content) -> Content:
        plan, session = _parse(PlanRecord, request["plan"]), self._prepared()
        blob = Path(request["blob"]).read_bytes()
        if plan.blob_sha256 and hashlib.sha256(blob).hexdigest() != plan.blob_sha256:
            raise BadRequest(
                f"the serialized plan of {plan.plan_name} is damaged: its checksum is not {plan.blob_sha256}"
            )
        record = session.measure(plan, blob, lambda stage: self._channel.send(request, "stage", stage=stage))
        return {"plan": _plain(record), "suspect": record.timings is None}

    def _baseline(self, request: Content) -> Content:
        session = self._prepared()
        self._channel.send(request, "stage", stage=Stage.TIME)
        baseline = session.baseline()
        return {"baseline": _plain(baseline), "suspect": baseline.timings is None}

    def _prepared(self) -> Any:
        if self._session is None:
            raise BadRequest("nothing is prepared")
        return self._session


def _parse(model: type[M], content: Any) -> M:
    """Strictly, as JSON: the models are strict, and a parsed list is no tuple to them."""
    try:
        return model.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise BadRequest(f"not a {model.__name__}: {error}") from None


def _plain(record: BaseModel) -> Content:
    return record.model_dump(mode="json")


def _describe(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"the request lacks {error}"
    return (str(error).strip() or type(error).__name__)[:4000]


def main() -> int:
    """Serve until the parent closes the pipe."""
    die_with_parent()
    channel = Channel()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    load_libcuda()
    worker = Worker(channel)
    for request in channel.requests():
        if not worker.answer(request):
            # Not sys.exit: tearing down a spoilt context can hang or abort.
            sys.stderr.flush()
            os._exit(EXIT_DEVICE_LOST)
    return 0


if __name__ == "__main__":
    sys.exit(main())
