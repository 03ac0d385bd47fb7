"""What a version achieves: bandwidth over the bytes it must move, and the rate over the graph's own work."""

from __future__ import annotations

from engine.graph.spec import GraphSpec
from engine.records.fusion import Version


def bandwidth_gbps(version: Version) -> float | None:
    """GB/s: bytes that must move over the hot time. The caches may have held some of them, so it can exceed what the
    memory delivers."""
    if version.timings is None or version.bytes_moved is None:
        return None
    return version.bytes_moved / version.timings.hot.median_us * 1e-3


def rate_tflops(version: Version, graph: GraphSpec) -> float | None:
    """TFLOP/s: the graph's operations over the hot time, whatever else the version computes (an attention that is cut
    also computes what its mask hides)."""
    return None if version.timings is None else graph.flops() / version.timings.hot.median_us * 1e-6
