"""Plans that serve many shapes: built with a kernel cache that graphs share, or with shapes that may be overridden."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from engine.graph.spec import GraphSpec
from engine.plans.building import PlanFailure
from engine.plans.candidates import listed_graph, offered
from engine.plans.context import Context
from engine.plans.refusals import condense, innermost_reason, refusal
from engine.records.plan import PlanIdentity, Stage, Status
from engine.records.reuse import Way


@dataclass
class DynamicContext(Context):
    """A context whose graphs are made with more ``options``."""

    options: dict[str, Any] = field(default_factory=dict)

    def graph(self, cudnn: Any, **types: Any) -> Any:
        """A new ``cudnn.pygraph``."""
        return super().graph(cudnn, **types, **self.options)


@dataclass(frozen=True)
class FirstBuilt:
    """The first plan of the heuristics that builds; ``plans``: how many the mode listed."""

    graph: Any
    identity: PlanIdentity
    plan_name: str
    plans: int
    list_ms: float
    build_ms: float

    @property
    def blob(self) -> bytes:
        """Its serialized form."""
        return bytes(self.graph.serialize(as_bytes=True))


def way_context(context: Context, way: Way, kernel_cache: Any = None) -> Context:
    """A context for one way; ``kernel_cache``: what graphs share with Way.CACHE."""
    options: dict[Way, dict[str, Any]] = {
        Way.STATIC: {},
        Way.CACHE: {"is_dynamic_shape_enabled": True, "kernel_cache": kernel_cache},
        Way.OVERRIDE: {"is_override_shape_enabled": True},
    }
    known = {one.name: getattr(context, one.name) for one in fields(Context)}
    return DynamicContext(**known, options=options[way])


def build_first(cudnn: Any, spec: GraphSpec, context: Context, modes: Sequence[str]) -> FirstBuilt:
    """Build what the heuristics list first and cuDNN can build, wall clock; raises PlanFailure with cuDNN's reason."""
    refused: list[str] = []
    for mode in modes:
        began = time.perf_counter()
        try:
            graph = listed_graph(cudnn, spec, context, mode)
        except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
            refused.append(condense(str(error)))
            continue
        plans = list(offered(graph))
        list_ms = (time.perf_counter() - began) * 1e3
        for index, identity, name in plans:
            began = time.perf_counter()
            try:
                graph.build_plan_at_index(index)
            except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
                refused.append(innermost_reason(str(error)))
                continue
            build_ms = (time.perf_counter() - began) * 1e3
            return FirstBuilt(graph, identity, name, len(plans), list_ms, build_ms)
    reason = refusal(refused).message if refused else "the heuristics list no plan."
    raise PlanFailure(Status.UNSUPPORTED, Stage.BUILD, reason)


def new_cache(cudnn: Any, saved: str | None = None) -> Any:
    """A kernel cache, empty or as it was saved; raises PlanFailure."""
    try:
        cache = cudnn.create_kernel_cache()
        if saved is not None:
            cache.deserialize(saved)
    except (AttributeError, RuntimeError, ValueError) as error:  # a frontend without it, or another version's
        raise PlanFailure(Status.UNSUPPORTED, Stage.BUILD, innermost_reason(str(error))) from None
    return cache


def save_cache(cache: Any) -> str:
    """What ``new_cache`` takes; raises PlanFailure where cuDNN cannot save it."""
    try:
        return str(cache.serialize())
    except (AttributeError, RuntimeError) as error:
        raise PlanFailure(Status.UNSUPPORTED, Stage.BUILD, innermost_reason(str(error))) from None
