"""What the fusion page says in words: bytes, caveats, method. Pure; in the saved file it is the same."""

from __future__ import annotations

from collections.abc import Sequence

from app.theme import Provenance, fmt_bytes, fmt_date, fmt_number, fmt_ratio, fmt_us
from engine.graph.cost import Cost
from engine.records.fusion import FusionRecord, PieceRecord, VersionKind
from engine.records.rates import fastest_gbps
from engine.records.wording import listing, several

SLOWER = 1.02
"""From here on it is not noise, and wants a word."""
CLOCKS_DIFFER = 1.03

METHOD = (
    "All versions come from one operation graph and run on the same seeded data. Each is compared with a float64 "
    "reference first (float32 where memory is short); one that is wrong, or does not run, is named and not timed.",
    "Hot: a CUDA graph of several executions, replayed and event-timed, all versions in turns in shuffled order, at "
    "least 100 samples each. Cold: an execution that finds nothing of its own in the L2. Host: what a call costs the "
    "calling thread.",
    "Kernels are counted by the profiler. Bytes that must move are computed: what each cuDNN graph and each call of "
    "torch reads and writes at least once; what the kernels of one call pass to each other (a bias that is spread out "
    "first, an amax in two steps) is not in them. Bandwidth is these bytes over the hot time; caches may hold some of "
    "them.",
    "Unfused is the same graph cut into the smallest graphs that cuDNN takes, the heuristics' first pick for each, "
    "with tensors of the I/O type between them; a piece that cuDNN refuses alone runs in torch. The tuned plan was "
    "chosen by samples of its own, apart from those shown.",
    "Each stage of the growing graph is measured for itself, its fused and unfused versions in turns. Between "
    "stages the clock may differ: compare within a stage first.",
    "torch.compile runs without CUDA graphs of its own, for every hot time is taken from one made here. Its first call "
    "stands apart; max-autotune compiles second, in a process that the first has warmed up.",
    "What fusing saves is measured; its split is an estimate from the same run. Launches: kernels removed, times the "
    "smallest kernel's time. Bytes: those not moved, over the fastest rate, but of no piece more than it took beyond "
    "its launch: what stays in the L2 moves faster than memory. The kernels' own time is the rest. The main kernel "
    "before fusing is its share of the unfused time, by the pieces' times alone.",
    "Fastest rate: of a copy, and of pieces that move at least four times the L2.",
)


def bytes_sentence(total: Cost) -> str:
    """What must move, fused and unfused."""
    if not total.saved:
        return f"One operation: {fmt_bytes(total.fused_bytes)} must move, and there is nothing to fuse."
    kept = [one for one in total.saved if one.stays_on_chip]
    stay = f"{several(len(kept), 'tensor')} {'needs' if len(kept) == 1 else 'need'} not reach memory"
    return (
        f"Fused, {fmt_bytes(total.fused_bytes)} must move, for {stay}; unfused, {total.pieces} pieces must move "
        f"{fmt_bytes(total.unfused_bytes)}, {fmt_ratio(total.unfused_bytes / total.fused_bytes)} as much."
    )


def caveats(record: FusionRecord) -> list[str]:
    """What a reader should know of these very numbers before trusting them, most of all what looks odd."""
    said = [line for line in (_hot_beside_cold(record), _autotuned(record), _above_copy(record)) if line]
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
        f"torch.compile with max-autotune is slower here than without, {fmt_us(tuned.hot.median_us)} against "
        f"{fmt_us(plain.hot.median_us)}: it chooses kernels by timings of its own; below is which it chose."
    )


def _above_copy(record: FusionRecord) -> str:
    fastest, ceilings = fastest_gbps(record), record.ceilings
    if fastest is None or ceilings is None or fastest.gbps == ceilings.copy_gbps:
        return ""
    return (
        f"The copy that was to be the bandwidth's ceiling reached {fmt_number(ceilings.copy_gbps)} GB/s, the piece "
        f"“{fastest.by}” {fmt_number(fastest.gbps)} GB/s: this stands as the fastest."
    )


def _growth_clocks(record: FusionRecord) -> tuple[int, int] | None:
    states = [version.timings.gpu for stage in record.growth for version in stage.versions if version.timings]
    clocks = [state.sm_clock_mhz for state in states if state is not None and state.sm_clock_mhz is not None]
    return (min(clocks), max(clocks)) if clocks and max(clocks) > min(clocks) * CLOCKS_DIFFER else None


def refusal_lines(pieces: Sequence[PieceRecord]) -> list[str]:
    """Why pieces run in torch."""
    return [
        f"{piece.label} runs in torch, for cuDNN refuses it alone: {piece.refusal.message}"
        for piece in pieces
        if piece.refusal is not None
    ]


def provenance_of(record: FusionRecord, recorded: bool, here: bool = True) -> Provenance:
    """Where a comparison's numbers come from. ``here``: said on the machine that keeps it, as in a mailed file it is
    not."""
    gpu = record.environment.gpu
    if gpu is None or not record.versions:
        return Provenance("planned, not measured", ":material/architecture:", "orange")
    what = f"{gpu.name}, cuDNN {record.environment.cudnn_backend}, {fmt_date(record.started_at)}"
    if not record.measured:
        return Provenance(f"no version ran on {what}", ":material/error:", "red")
    if recorded:
        return Provenance(f"recorded on {what}", ":material/inventory_2:", "blue")
    return Provenance(f"{'kept here, ' if here else ''}measured on {what}", ":material/speed:", "green")
