"""Which versions a graph is measured in. Pure; no torch."""

from __future__ import annotations

from engine.graph.operations import Attention
from engine.graph.spec import GraphSpec
from engine.records.fusion import SDPA_BACKENDS, VersionKind

ALL = (
    VersionKind.EAGER,
    VersionKind.IDIOMATIC,
    VersionKind.COMPILED,
    VersionKind.AUTOTUNED,
    VersionKind.UNFUSED,
    VersionKind.FIRST_PICK,
    VersionKind.TUNED,
)
FUSED = (VersionKind.FIRST_PICK, VersionKind.TUNED)


def kinds_for(spec: GraphSpec) -> tuple[VersionKind, ...]:
    """All there are for a graph; attention brings torch's backends."""
    attends = any(isinstance(operation, Attention) for operation in spec.operations)
    return (*ALL, *(SDPA_BACKENDS if attends else ()))
