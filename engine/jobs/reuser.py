"""A process that pays for one thing alone: ``python -m engine.jobs.reuser``. A study has one for every number, which
stands by (see ``standby``) until it is asked for that.

With PLANSCOPE_REUSE_GPU set it imports torch and executes on the GPU it sees; else it is a builder's like, and executes
nothing. Requests (``spec`` and ``target`` are JSON texts):

``imports {}`` -> ``done``: what it needs is imported and, where it executes, the GPU opened; cuDNN has loaded nothing.
``ready {"target"}`` -> ``done``: cuDNN's libraries loaded, by listing small graphs; where it executes, buffers of
    ``spec`` made.
``build {"spec", "target", "identity", "plan_name", "modes", "again": bool}`` -> ``done {"build_ms", "again_ms",
    "blob_bytes", "execute_ms"}``; ``again``: build it a second time.
``load {"spec", "target", "blob": PATH}`` -> ``done {"first_ms", "load_ms", "precompiled", "precompiled_message",
    "execute_ms"}``.
``shapes {"specs": [...], "sizes": [...], "way", "target", "modes", "blob_dir": PATH | null, "cache_in", "cache_out":
    PATH | null}`` -> a ``part {"plan": SizePlan, "blob_sha256"}`` per size, ``done {"cache_bytes", "cache_message"}``.
    With the way "override shape" the last size is built, and run at all where it executes.
``graphs {"spec", "target", "blob", "identity", "plan_name", "compiled", "seed"}`` -> ``done {"use": GraphUse}``.
``failed {"message"}`` where cuDNN will not. Times are wall clock, milliseconds.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.graph.spec import GraphSpec
from engine.jobs.builder import NO_LIBCUDA, import_cudnn, parse_spec, small_graphs, store_blob
from engine.jobs.protocol import Channel, die_with_parent
from engine.machine.driver import load_libcuda
from engine.plans.building import PlanFailure, load
from engine.plans.candidates import list_mode
from engine.plans.context import Context, TargetUnusable, open_context
from engine.plans.dynamic import build_first, new_cache, save_cache, way_context
from engine.plans.refusals import innermost_reason
from engine.plans.sources import open_source
from engine.plans.targets import Target
from engine.records.plan import PlanIdentity, Stage, Status
from engine.records.reuse import SizePlan, Way

ON_GPU = "PLANSCOPE_REUSE_GPU"
_log = logging.getLogger(__name__)


class Reuser:
    """``bench`` makes, for a graph, what executes it; None where nothing is executed."""

    def __init__(self, cudnn: Any, libcuda: str | None, bench: Any, channel: Channel) -> None:
        self._cudnn, self._libcuda, self._bench, self._channel = cudnn, libcuda, bench, channel
        self._context = lru_cache(maxsize=1)(self._open)

    def imports(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """It has come to answering, so that is done."""
        return {}

    def ready(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a process does once, done before anything is timed."""
        context = self._context(request["target"])
        for spec in small_graphs():
            list_mode(self._cudnn, spec, context, "A")
        if self._bench is not None:
            self._bench.prepare(parse_spec(request["spec"]))
        return {}

    def build(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Build one plan, and execute it once."""
        cudnn, context = self._cudnn, self._context(request["target"])
        identity = PlanIdentity.model_validate_json(request["identity"])
        spec, name, modes = parse_spec(request["spec"]), request["plan_name"], request["modes"]
        try:
            source, _ = open_source(cudnn, spec, context, identity, name, modes)
            graph, _, build_ms = source.build()
            blob_bytes = len(bytes(graph.serialize(as_bytes=True)))
            again_ms = None
            if request.get("again"):
                _, _, again_ms = open_source(cudnn, spec, context, identity, name, modes)[0].build()
        except (LookupError, cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
            raise PlanFailure(Status.BUILD_FAILED, Stage.BUILD, innermost_reason(str(error))) from None
        execute_ms = self._bench.first_ms(spec, graph) if self._bench is not None else None
        return {"build_ms": build_ms, "again_ms": again_ms, "blob_bytes": blob_bytes, "execute_ms": execute_ms}

    def load(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Load one plan twice, then without leave to compile; execute the second once."""
        context, blob = self._context(request["target"]), Path(request["blob"]).read_bytes()
        _, first_ms = load(self._cudnn, context, blob)
        graph, load_ms = load(self._cudnn, context, blob)
        execute_ms = self._bench.first_ms(parse_spec(request["spec"]), graph) if self._bench is not None else None
        precompiled, message = self._precompiled(context, blob)
        return {
            "first_ms": first_ms,
            "load_ms": load_ms,
            "execute_ms": execute_ms,
            "precompiled": precompiled,
            "precompiled_message": message,
        }

    def shapes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Build at every size, in one process."""
        way, context = Way(request["way"]), self._context(request["target"])
        cache, told = None, dict[str, Any](cache_bytes=None, cache_message=None)
        if way is Way.CACHE:
            saved = request["cache_in"]
            cache = new_cache(self._cudnn, Path(saved).read_text(encoding="utf-8") if saved else None)
        dynamic = way_context(context, way, cache)
        specs, modes = [parse_spec(text) for text in request["specs"]], request["modes"]
        parts: Iterator[tuple[SizePlan, str | None]]
        if way is Way.OVERRIDE:
            parts = self._overridden(specs, request["sizes"], dynamic, modes)
        else:
            parts = self._each(specs, request["sizes"], dynamic, modes, request["blob_dir"])
        for plan, sha256 in parts:
            self._channel.send(request, "part", plan=plan.model_dump(mode="json"), blob_sha256=sha256)
        if cache is not None:
            try:
                data = save_cache(cache)
                told["cache_bytes"] = len(data)
                if request["cache_out"]:
                    Path(request["cache_out"]).write_text(data, encoding="utf-8")
            except PlanFailure as failure:
                told["cache_message"] = failure.message
        return told

    def graphs(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What CUDA graphs give one plan."""
        if self._bench is None:
            raise PlanFailure(Status.EXEC_FAILED, Stage.EXECUTE, "CUDA graphs need a GPU.")
        blob = Path(request["blob"]).read_bytes()
        graph, _ = load(self._cudnn, self._context(request["target"]), blob)
        identity = PlanIdentity.model_validate_json(request["identity"])
        use = self._bench.graph_use(
            parse_spec(request["spec"]), graph, identity, request["plan_name"], request["compiled"], request["seed"]
        )
        return {"use": use.model_dump(mode="json")}

    def _each(
        self, specs: Sequence[GraphSpec], sizes: Sequence[int], context: Context, modes: list[str], blob_dir: str | None
    ) -> Iterator[tuple[SizePlan, str | None]]:
        for spec, size in zip(specs, sizes, strict=True):
            try:
                built = build_first(self._cudnn, spec, context, modes)
            except PlanFailure as failure:
                yield SizePlan(size=size, refused=failure.message), None
                continue
            yield _size_plan(size, built), store_blob(built.blob, Path(blob_dir)) if blob_dir is not None else None

    def _overridden(
        self, specs: Sequence[GraphSpec], sizes: Sequence[int], context: Context, modes: list[str]
    ) -> Iterator[tuple[SizePlan, str | None]]:
        largest = sizes.index(max(sizes))
        try:
            built = build_first(self._cudnn, specs[largest], context, modes)
        except PlanFailure as failure:
            yield from ((SizePlan(size=size, refused=failure.message), None) for size in sizes)
            return
        for spec, size in zip(specs, sizes, strict=True):
            plan = _size_plan(size, built)
            if size != sizes[largest]:  # it has been built once
                plan = plan.model_copy(update={"build_ms": 0.0, "list_ms": 0.0})
            if self._bench is not None:
                plan = plan.model_copy(update=self._bench.overridden(spec, specs[largest], built.graph))
            yield plan, None

    def _precompiled(self, context: Context, blob: bytes) -> tuple[bool | None, str | None]:
        graph = context.graph(self._cudnn)
        handle = () if context.handle is None else (context.handle,)
        try:
            graph.deserialize(*handle, blob, enforce_precompiled=True)
        except TypeError as error:  # a frontend that has not the option
            return None, str(error)[:300]
        except (self._cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
            return False, innermost_reason(str(error))
        return True, None

    def _open(self, target: str) -> Context:
        if self._libcuda is None:
            raise TargetUnusable(NO_LIBCUDA)
        handle = self._bench.handle if self._bench is not None else None
        return open_context(self._cudnn, Target.model_validate_json(target), handle)


def _size_plan(size: int, built: Any) -> SizePlan:
    return SizePlan(
        size=size,
        plans=built.plans,
        identity=built.identity,
        plan_name=built.plan_name,
        list_ms=built.list_ms,
        build_ms=built.build_ms,
    )


def _modules() -> tuple[Any, str | None, Any]:
    """cudnn, where the driver library came from, and what executes."""
    if not os.environ.get(ON_GPU):
        return *import_cudnn(), None
    libcuda = load_libcuda()
    import cudnn

    from engine.measure.reuse import Bench

    return cudnn, libcuda, Bench()


def main() -> None:
    """Serve until the parent closes the pipe."""
    die_with_parent()
    channel = Channel()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    reuser: Reuser | None = None
    for request in channel.requests():
        began = time.monotonic()
        try:
            reuser = reuser or Reuser(*_modules(), channel)
            channel.send(request, "done", **getattr(reuser, request["op"])(request))
        except PlanFailure as failure:
            channel.send(request, "failed", message=failure.message)
        except (TargetUnusable, OSError, RuntimeError, ValueError, ImportError) as error:
            _log.warning("%s failed after %.1f s", request["op"], time.monotonic() - began, exc_info=True)
            channel.send(request, "failed", message=str(error)[:2000])


if __name__ == "__main__":
    main()
