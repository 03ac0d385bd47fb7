"""Which versions a graph is measured in, made from one GraphSpec and one cut of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.graph.cost import cost
from engine.graph.cutting import Cut
from engine.graph.idioms import calls, calls_bytes
from engine.measure.fusion.contest import Entrant
from engine.measure.fusion.torch_versions import (
    COMPILE_MODES,
    Run,
    compiled,
    constants,
    idiomatic,
    operation_by_operation,
    with_backend,
)
from engine.measure.fusion.unfused import Unfused
from engine.measure.fusion_kinds import FUSED
from engine.measure.session import Session, describe
from engine.records.fusion import VersionKind


@dataclass(frozen=True)
class FusedPlan:
    """A plan of the whole graph that the session has loaded."""

    key: str
    name: str
    workspace_bytes: int


def lineup(
    session: Session,
    made: Cut,
    kinds: Iterable[VersionKind],
    unfused: Unfused | str,
    fused: Mapping[VersionKind, FusedPlan],
) -> Iterator[Entrant]:
    """The versions of these kinds, in order. ``unfused``: or why there is none. ``fused``: loaded plans by kind; a kind
    without one is left out."""
    values, spec, total = session.buffers.values, made.graph, cost(made)
    steps = ", ".join(step.label for step in calls(spec))
    pieces = ", ".join(piece.label for piece in made.pieces)
    for kind in kinds:
        if kind is VersionKind.EAGER:
            yield Entrant(kind, _by_pieces(session, made), pieces, bytes_moved=total.unfused_bytes)
        elif kind is VersionKind.IDIOMATIC:
            yield Entrant(kind, idiomatic(spec, values), steps, bytes_moved=calls_bytes(spec), cut=False)
        elif kind in COMPILE_MODES:
            mode = COMPILE_MODES[kind]
            detail = f"{steps}; {mode or 'default'}"
            yield Entrant(kind, _late(session, made, mode), detail, cut=False, compiles=True)
        elif kind is VersionKind.UNFUSED:
            run, held = (_cannot(unfused), 0) if isinstance(unfused, str) else (unfused.run, unfused.held_bytes)
            yield Entrant(kind, run, pieces, bytes_moved=total.unfused_bytes, held_bytes=held)
        elif kind in FUSED:
            if kind in fused:
                yield _fused(session, kind, fused[kind], total.fused_bytes)
        else:
            moved = None if kind is VersionKind.MATH else total.fused_bytes
            cut = kind is VersionKind.MATH
            yield Entrant(kind, with_backend(spec, values, kind), steps, bytes_moved=moved, cut=cut)


def _by_pieces(session: Session, made: Cut) -> Run:
    """Torch, piece by piece; where what only the pieces have does not fit, a call that says so."""
    try:
        own = constants(made, session.device.torch_device)
    except torch.OutOfMemoryError as error:
        return _cannot(f"what only the pieces read does not fit: {describe(error)[:300]}")
    return operation_by_operation(made, {**session.buffers.values, **own})


def _cannot(message: str) -> Run:
    def run() -> dict[int, Any]:
        raise RuntimeError(message)

    return run


def _late(session: Session, made: Cut, mode: str | None) -> Run:
    """Compiled when it is called first, so that importing the compiler counts as compiling."""
    known: list[Run] = []

    def run() -> dict[int, Any]:
        if not known:
            known.append(compiled(made.graph, session.buffers.values, mode))
        return known[0]()

    return run


def _fused(session: Session, kind: VersionKind, plan: FusedPlan, moved: int) -> Entrant:
    contestant = session.contestant(plan.key)

    def run() -> dict[int, Any]:
        contestant.call()
        return dict(session.buffers.outputs)

    return Entrant(
        kind,
        run,
        plan.name,
        plan=(plan.key, plan.name),
        bytes_moved=moved,
        held_bytes=plan.workspace_bytes + sum(tensor.nbytes for tensor in session.spec.outputs),
        cut=False,
        replayable=contestant,
    )
