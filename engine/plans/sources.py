"""Where a plan to build comes from: replayed from its identity, or, where that does not give it, found in the
heuristics' list."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from engine.graph.spec import GraphSpec
from engine.plans.candidates import listed_graph, note_names, offered
from engine.plans.context import Context
from engine.plans.knobs import unnamed_knobs
from engine.plans.lowering import lower
from engine.records.plan import PlanIdentity


class PlanSource(Protocol):
    """Gives graphs that hold the plan, as many as are asked for."""

    def build(self) -> tuple[Any, int, float]:
        """The graph with the plan built in it, the plan's index there, and the milliseconds that took."""

    def excluded_by(self, note: Any) -> bool:
        """Whether excluding plans with this numerical note excludes this one."""


class Replay:
    """The plan of an engine id and knob choices. Raises what cuDNN raises when it has none."""

    def __init__(self, cudnn: Any, spec: GraphSpec, context: Context, identity: PlanIdentity) -> None:
        self._cudnn, self._spec, self._context, self._identity = cudnn, spec, context, identity
        self._knobs = {cudnn.knob_type.__members__[name]: value for name, value in identity.knobs.items()}
        self._graph, self._create_ms = self._create()
        self._probe: Any = None

    @property
    def plan_name(self) -> str:
        """What cuDNN calls the replayed plan."""
        return str(self._graph.get_plan_name_at_index(0))

    @property
    def behavior_notes(self) -> list[Any]:
        """The replayed plan's."""
        return list(self._graph.get_behavior_notes_for_plan_at_index(0))

    def check_support(self) -> None:
        """Raises what cuDNN raises where it will not run this plan; compiles nothing."""
        self._graph.check_support()

    def build(self) -> tuple[Any, int, float]:
        started = time.perf_counter()
        self._graph.build_plan_at_index(0)
        return self._graph, 0, self._create_ms + (time.perf_counter() - started) * 1e3

    def excluded_by(self, note: Any) -> bool:
        """Asked of a graph that holds this plan alone: is it still supported? Exclusions add up, so that a yes costs a
        graph."""
        if self._probe is None:
            self._probe, _ = self._create()
        self._probe.deselect_numeric_notes([note])
        try:
            self._probe.check_support()
        except (self._cudnn.cudnnGraphNotSupportedError, RuntimeError):
            self._probe = None
            return True
        return False

    def _create(self) -> tuple[Any, float]:
        graph = lower(self._cudnn, self._spec, self._context)
        graph.validate()
        graph.build_operation_graph()
        started = time.perf_counter()
        graph.create_execution_plan(self._identity.engine_id, self._knobs)
        return graph, (time.perf_counter() - started) * 1e3


class Listed:
    """The plan of this identity and name in what a heuristics mode lists. Raises LookupError when none lists it any
    more."""

    def __init__(
        self,
        cudnn: Any,
        spec: GraphSpec,
        context: Context,
        identity: PlanIdentity,
        plan_name: str,
        modes: Sequence[str],
    ) -> None:
        self._cudnn, self._spec, self._context, self._modes = cudnn, spec, context, modes
        self._identity, self._plan_name = identity, plan_name
        self._graph, self._index = self._find()
        self._probe: tuple[Any, int] | None = None

    def build(self) -> tuple[Any, int, float]:
        started = time.perf_counter()
        self._graph.build_plan_at_index(self._index)
        return self._graph, self._index, (time.perf_counter() - started) * 1e3

    def excluded_by(self, note: Any) -> bool:
        """Asked by building it in a graph without such plans, which is cheap where nothing is compiled; not asked
        elsewhere."""
        if "RUNTIME_COMPILATION" in note_names(self._graph.get_behavior_notes_for_plan_at_index(self._index)):
            return False
        graph, index = self._probe = self._probe or self._find()
        graph.deselect_numeric_notes([note])
        try:
            graph.build_plan_at_index(index)
        except (self._cudnn.cudnnGraphNotSupportedError, RuntimeError):
            self._probe = None
            return True
        return False

    def _find(self) -> tuple[Any, int]:
        for mode in self._modes:
            graph = listed_graph(self._cudnn, self._spec, self._context, mode)
            for index, identity, name in offered(graph):
                if identity == self._identity and name == self._plan_name:
                    return graph, index
        raise LookupError(f"no heuristics mode lists {self._plan_name} any more.")


def open_source(
    cudnn: Any,
    spec: GraphSpec,
    context: Context,
    identity: PlanIdentity,
    plan_name: str | None,
    modes: Sequence[str],
) -> tuple[PlanSource, str | None]:
    """A replay where that gives the plan that was listed as ``plan_name``; else the listed plan, and a remark that
    tells why.

    Raises LookupError where it does not replay and is not listed, and what cuDNN raises.
    """
    if unnamed := unnamed_knobs(cudnn, identity.knobs):
        why = f"the frontend cannot set {', '.join(unnamed)}"
    else:
        replay = Replay(cudnn, spec, context, identity)
        if plan_name in (None, replay.plan_name):
            return replay, None
        why = f"its engine id and knobs give {replay.plan_name}"
    if plan_name is None or not modes:
        raise LookupError(f"This plan cannot be rebuilt from its engine id and knobs: {why}.")
    listed = Listed(cudnn, spec, context, identity, plan_name, modes)
    return listed, f"Only its serialized form carries this plan; from engine id and knobs it cannot be rebuilt: {why}."
