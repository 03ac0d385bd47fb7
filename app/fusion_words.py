"""What the fusion page says in words: bytes, refusals, method. Pure; in the saved file it is the same."""

from __future__ import annotations

from collections.abc import Sequence

from app.theme import NOTHING, Provenance, fmt_bytes, fmt_date, fmt_ratio
from engine.graph.cost import Cost
from engine.records.fusion import FusionRecord, PieceRecord
from engine.records.wording import several

METHOD = (
    "All versions come from one operation graph and run on the same seeded data. Each is compared with a float64 "
    "reference first (float32 where memory is short); one that is wrong, or does not run, is named and not timed.",
    "Hot: a CUDA graph of several executions, replayed and event-timed, all versions in turns in shuffled order, at "
    "least 100 samples each. Cold: an execution that finds nothing of its own in the L2. Host: what a call costs the "
    "calling thread.",
    "Kernels are counted by the profiler. Bytes that must move are computed: what each cuDNN graph and each call of "
    "torch reads and writes at least once; what the kernels of one call pass to each other (a bias that is spread out "
    "first, an amax in two steps) is not in them. Of compiled code and of torch's math attention they are not known. "
    "Bandwidth is these bytes over the hot time; caches may hold some of them.",
    "Unfused is the same graph cut into the smallest graphs that cuDNN takes, the heuristics' first pick for each, "
    "with tensors of the I/O type between them; a piece that cuDNN refuses alone runs in torch. The tuned plan was "
    "chosen by samples of its own, apart from those shown.",
    "Each stage of the growing graph is measured for itself, its fused and unfused versions in turns. Between "
    "stages the clock may differ: compare within a stage first.",
    "Torch runs with its own defaults: without cudnn.benchmark, and fp32 matrices in float32 where cuDNN may use TF32. "
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
        return f"One operation: {fmt_bytes(total.fused_bytes)} must move, with nothing to fuse."
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


def environment_facts(record: FusionRecord) -> list[tuple[str, str]]:
    """What it was measured on, and of what."""
    environment, gpu = record.environment, record.environment.gpu
    return [
        ("GPU", gpu.name if gpu else record.target.gpu_name),
        ("driver", gpu.driver if gpu and gpu.driver else NOTHING),
        ("cuDNN", f"{environment.cudnn_backend}, frontend {environment.cudnn_frontend}"),
        ("torch", environment.torch or NOTHING),
        ("CUDA", environment.cuda or NOTHING),
        ("graph", record.graph.graph_id),
        ("parameters", " ".join(f"{k}={v}" for k, v in record.parameters.items() if v) or "defaults"),
        ("seed", str(record.seed)),
        ("when", f"{record.started_at:%Y-%m-%d %H:%M} UTC"),
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
