"""What a reader should know of a comparison's very numbers before trusting them."""

from __future__ import annotations

from engine.graph.cutting import cut
from engine.graph.operations import Matmul
from engine.records.fusion import FusionRecord, VersionKind
from engine.records.rates import fastest_gbps
from engine.records.wording import listing, microseconds

SLOWER = 1.02
"""From here on it is not noise, and wants a word."""
CLOCKS_DIFFER = 1.03


def caveats(record: FusionRecord) -> list[str]:
    """What a reader should know of these very numbers before trusting them, most of all what looks odd."""
    said = [
        line for line in (_hot_beside_cold(record), _autotuned(record), _above_copy(record), _workspace(record)) if line
    ]
    if (clocks := _growth_clocks(record)) is not None:
        said.append(
            f"The stages of the growing graph ran at {clocks[0]:,} to {clocks[1]:,} MHz: what one operation adds is "
            "known no better than that."
        )
    return [*said, *record.remarks]


def _hot_beside_cold(record: FusionRecord) -> str:
    slower = [
        version
        for version in record.versions
        if version.timings and version.timings.cold
        and version.timings.hot.median_us > version.timings.cold.median_us * SLOWER
    ]  # fmt: skip
    if not slower or slower[0].timings is None:
        return ""
    state, gpu = slower[0].timings.gpu, record.environment.gpu
    clock = ""
    if state is not None and state.sm_clock_mhz is not None:
        rated = f" of {gpu.rated_sm_clock_mhz:,}" if gpu is not None and gpu.rated_sm_clock_mhz else ""
        held = f", held by {listing(state.throttle_reasons)}" if state.throttle_reasons else ""
        clock = f" (SM clock {state.sm_clock_mhz:,}{rated} MHz{held})"
    return (
        f"Hot times are longer than cold ones here: replays follow one another without a pause{clock}, cold executions "
        "have pauses in which the GPU recovers. All versions ran hot in turns, at the same clocks."
    )


def _autotuned(record: FusionRecord) -> str:
    plain, tuned = record.timed(VersionKind.COMPILED), record.timed(VersionKind.AUTOTUNED)
    if plain is None or tuned is None or tuned.hot.median_us <= plain.hot.median_us * SLOWER:
        return ""
    return (
        f"torch.compile with max-autotune is slower here than without, {microseconds(tuned.hot.median_us)} against "
        f"{microseconds(plain.hot.median_us)}: it chooses kernels by timings of its own; below is which it chose."
    )


def _above_copy(record: FusionRecord) -> str:
    fastest, ceilings = fastest_gbps(record), record.ceilings
    if fastest is None or ceilings is None or fastest.gbps == ceilings.copy_gbps:
        return ""
    return (
        f"The copy that was to be the bandwidth's ceiling reached {ceilings.copy_gbps:,.0f} GB/s, the piece "
        f"“{fastest.by}” {fastest.gbps:,.0f} GB/s: this stands as the fastest."
    )


def _workspace(record: FusionRecord) -> str:
    """torch allocates cuBLAS's workspace at its first product and keeps it (32 MiB on Hopper,
    ``aten/src/ATen/cuda/CublasHandlePool.cpp``): by the reference's, before any version runs."""
    known = {version.kind.is_torch for version in record.versions if version.memory_bytes is not None}
    products = any(isinstance(piece.operation, Matmul) for piece in cut(record.graph).pieces)
    if known != {True, False} or not products:
        return ""
    return (
        "Memory is not counted evenly: cuDNN's versions have their plans' workspace in it (up to 32 MiB for a matmul), "
        "while the workspace that torch keeps for cuBLAS was there before its versions ran, and is left out."
    )


def _growth_clocks(record: FusionRecord) -> tuple[int, int] | None:
    states = [version.timings.gpu for stage in record.growth for version in stage.versions if version.timings]
    clocks = [state.sm_clock_mhz for state in states if state is not None and state.sm_clock_mhz is not None]
    return (min(clocks), max(clocks)) if clocks and max(clocks) > min(clocks) * CLOCKS_DIFFER else None
