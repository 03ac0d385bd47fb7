"""What a version achieves: bandwidth over the bytes it must move, and the rate over the graph's own work; and how fast
anything moved bytes in the same run."""

from __future__ import annotations

from dataclasses import dataclass

from engine.graph.spec import GraphSpec
from engine.records.fusion import FusionRecord, Version

BEYOND_L2 = 4
"""A piece that moves so many times the L2 cannot live in it."""


@dataclass(frozen=True)
class Fastest:
    """GB/s, and what moved so fast: the copy, or a piece by its label."""

    gbps: float
    by: str


def fastest_gbps(record: FusionRecord) -> Fastest | None:
    """The most that the memory was seen to deliver in this run: the copy that was timed as a ceiling, or a piece that
    went faster and is far too large for the L2. None where no ceiling was measured."""
    if record.ceilings is None:
        return None
    seen = [Fastest(record.ceilings.copy_gbps, "copy")]
    gpu = record.environment.gpu
    if gpu is not None and gpu.l2_bytes is not None:
        large = [p for p in record.pieces if p.hot is not None and p.bytes_moved >= BEYOND_L2 * gpu.l2_bytes]
        seen += [Fastest(p.bytes_moved / p.hot.median_us * 1e-3, p.label) for p in large if p.hot is not None]
    return max(seen, key=lambda one: one.gbps)


def bandwidth_gbps(version: Version) -> float | None:
    """GB/s: bytes that must move over the hot time. The caches may have held some of them, so it can exceed what the
    memory delivers."""
    if version.timings is None or version.bytes_moved is None:
        return None
    return version.bytes_moved / version.timings.hot.median_us * 1e-3


def flop_per_byte(version: Version, graph: GraphSpec) -> float | None:
    """The graph's operations over the bytes that must move; None where those are not known."""
    return graph.flops() / version.bytes_moved if version.bytes_moved else None


def rate_tflops(version: Version, graph: GraphSpec) -> float | None:
    """TFLOP/s: the graph's operations over the hot time, whatever else the version computes (an attention that is cut
    also computes what its mask hides)."""
    return None if version.timings is None else graph.flops() / version.timings.hot.median_us * 1e-6
