"""What the fusion page says in words and tables: bytes, versions, method. Pure; in the saved file it is the same."""

from __future__ import annotations

from collections.abc import Sequence

from app.table_view import Cell, Column, Row, Table
from app.theme import NOTHING, Provenance, fmt_bytes, fmt_date, fmt_error, fmt_number, fmt_ratio, fmt_us
from engine.graph.cost import Cost
from engine.records.fusion import FusionRecord, PieceRecord, Version
from engine.records.rates import bandwidth_gbps, rate_tflops
from engine.records.samples import Samples
from engine.records.wording import several

METHOD = (
    "All versions come from one operation graph and run on the same seeded data. Each is compared with a float64 "
    "reference first (float32 where memory is short); one that is wrong, or does not run, is named and not timed.",
    "Hot: a CUDA graph of several executions, replayed and event-timed, all versions in turns in shuffled order, at "
    "least 100 samples each. Cold: an execution that finds nothing of its own in the L2. Host: what a call costs the "
    "calling thread.",
    "Kernels are counted by the profiler. Bytes that must move are computed: what each kernel reads and writes at "
    "least once. Bandwidth is these bytes over the hot time; caches may hold some of them.",
    "Unfused is the same graph cut into the smallest graphs that cuDNN takes, the heuristics' first pick for each, "
    "with tensors of the I/O type between them; a piece that cuDNN refuses alone runs in torch. The tuned plan was "
    "chosen by samples of its own, apart from those shown.",
    "Each stage of the growing graph is measured for itself, its fused and unfused versions in turns.",
    "torch.compile runs without CUDA graphs of its own, for every hot time is taken from one made here; its compile "
    "time stands apart. The share of launches in what fusing saves is an estimate: launches removed times the smallest "
    "kernel's time, measured in the same run.",
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


def refusal_lines(pieces: Sequence[PieceRecord]) -> list[str]:
    """Why pieces run in torch."""
    return [
        f"{piece.label} runs in torch, for cuDNN refuses it alone: {piece.refusal.message}"
        for piece in pieces
        if piece.refusal is not None
    ]


def provenance_of(record: FusionRecord, recorded: bool) -> Provenance:
    """Where a comparison's numbers come from."""
    gpu = record.environment.gpu
    if gpu is None or not record.measured:
        return Provenance("planned, not measured", ":material/architecture:", "orange")
    what = f"{gpu.name}, cuDNN {record.environment.cudnn_backend}, {fmt_date(record.started_at)}"
    if recorded:
        return Provenance(f"recorded on {what}", ":material/inventory_2:", "blue")
    return Provenance(f"kept here, measured on {what}", ":material/speed:", "green")


def versions_table(record: FusionRecord) -> Table:
    """Every version with everything that is known of it."""
    columns = (
        Column("version"),
        Column("hot", "GPU time in a CUDA graph, median", number=True),
        Column("cold", "GPU time with a cold L2, median", number=True),
        Column("host", "what a call costs the calling thread, median", number=True),
        Column("kernels", "launched per execution, counted by the profiler", number=True),
        Column("must move", "bytes that its kernels read and write at least once", number=True),
        Column("GB/s", "those bytes over the hot time", number=True),
        Column("TFLOP/s", "the graph's work over the hot time", number=True),
        Column("error", "largest relative error against the reference", number=True),
        Column("memory", "allocated beside the inputs, outputs included", number=True),
        Column("first call", "with compiling, for torch.compile", number=True),
        Column("what runs"),
    )
    rows = tuple(Row(version.kind.value, _cells(version, record)) for version in record.versions)
    return Table("Every version of the graph, with its times and costs", columns, rows)


def _cells(version: Version, record: FusionRecord) -> tuple[Cell, ...]:
    times = [version.timings.of(name) if version.timings else None for name in ("hot", "cold", "host")]
    known = [output.max_rel for output in version.accuracy if output.max_rel is not None]
    error = max(known, default=None)
    gbps, rate = bandwidth_gbps(version), rate_tflops(version, record.graph)
    return (
        Cell(version.kind.words),
        *(Cell(fmt_us(_median(samples)), _median(samples)) for samples in times),
        Cell(NOTHING if version.kernels is None else str(version.kernels), version.kernels),
        Cell(fmt_bytes(version.bytes_moved), version.bytes_moved),
        Cell(fmt_number(gbps), gbps),
        Cell(fmt_number(rate), rate),
        Cell(fmt_error(error), error),
        Cell(fmt_bytes(version.memory_bytes), version.memory_bytes),
        Cell(NOTHING if version.compile_s is None else f"{version.compile_s:.1f} s", version.compile_s),
        Cell(version.message or version.detail),
    )


def _median(samples: Samples | None) -> float | None:
    return None if samples is None else samples.median_us
