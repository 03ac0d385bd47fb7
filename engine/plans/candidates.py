"""Every execution plan that cuDNN's heuristics offer for a graph, mode by mode, under the identity that replays it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.graph.spec import GraphSpec
from engine.plans.context import Context
from engine.plans.knobs import knobs_by_name
from engine.plans.lowering import lower
from engine.plans.refusals import refusal
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status
from engine.records.run import Refusal

MODES = ("A", "B", "FALLBACK")
BACKEND_ENGINES = range(10_000)
"""Ids of cuDNN's own engines. The frontend routes some graphs to kernels written in Python, with ids from 20,000 on:
they are not execution plans of cuDNN, and do not serialize into a file that cuDNN alone can load."""


@dataclass(frozen=True)
class ModeListing:
    """What one heuristics mode answered: plans in its order, or its words of refusal."""

    mode: str
    plans: tuple[PlanRecord, ...]
    refused: str | None = None


def list_candidates(
    cudnn: Any, spec: GraphSpec, context: Context, modes: Sequence[str] = MODES
) -> tuple[list[PlanRecord], Refusal | None]:
    """Candidates of all modes merged by identity, each LISTED; a Refusal where no mode has any."""
    return merge_listings([list_mode(cudnn, spec, context, mode) for mode in modes])


def list_mode(cudnn: Any, spec: GraphSpec, context: Context, mode: str) -> ModeListing:
    """Ask one mode, on a graph of its own: a graph freezes once it was asked."""
    try:
        graph = listed_graph(cudnn, spec, context, mode)
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        return ModeListing(mode, (), str(error))
    plans = tuple(
        PlanRecord(
            identity=identity,
            plan_name=name,
            modes={mode: rank},
            status=Status.LISTED,
            stage=Stage.LIST,
            behavior_notes=note_names(graph.get_behavior_notes_for_plan_at_index(index)),
        )
        for rank, (index, identity, name) in enumerate(offered(graph))
    )
    return ModeListing(mode, plans, None if plans else "this mode lists no plan.")


def listed_graph(cudnn: Any, spec: GraphSpec, context: Context, mode: str) -> Any:
    """A new graph that holds what ``mode`` offers; raises what cuDNN raises."""
    graph = lower(cudnn, spec, context)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([getattr(cudnn.heur_mode, mode)])
    return graph


def offered(graph: Any) -> Iterator[tuple[int, PlanIdentity, str]]:
    """Index, identity and name of cuDNN's own plans in a listed graph, in its order."""
    for index in range(graph.get_execution_plan_count()):
        engine_id, knobs = graph.get_engine_and_knobs_at_index(index)
        if engine_id in BACKEND_ENGINES:
            name = graph.get_plan_name_at_index(index)
            yield index, PlanIdentity(engine_id=engine_id, knobs=knobs_by_name(knobs, name)), name


def merge_listings(listings: Iterable[ModeListing]) -> tuple[list[PlanRecord], Refusal | None]:
    """One record per identity, in the order of first mention; a Refusal where no mode has a plan.

    A mode that refuses while another gives plans (FALLBACK has none for attention) is no error of the graph.
    """
    merged: dict[str, PlanRecord] = {}
    refused: list[str] = []
    for listing in listings:
        if listing.refused is not None:
            refused.append(listing.refused)
        for plan in listing.plans:
            known = merged.get(plan.key)
            if known is None:
                merged[plan.key] = plan
            elif listing.mode not in known.modes:
                merged[plan.key] = known.model_copy(update={"modes": {**known.modes, **plan.modes}})
    return list(merged.values()), None if merged else refusal(refused)


def note_names(notes: Iterable[Any]) -> tuple[str, ...]:
    """Names of behavior notes."""
    return tuple(note.name for note in notes)
