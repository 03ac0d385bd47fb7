"""A comparison for people and for programs: the pieces, the bytes, the versions, and what may be said of them."""

from __future__ import annotations

from typing import Any

from engine.cli.output import print_facts, print_table
from engine.cli.shapes import cudnn_json, refusal_json, target_json
from engine.graph.cost import Cost, cost
from engine.graph.cutting import cut
from engine.records.attribution import steps
from engine.records.fusion import FusionRecord, PieceRecord, Version, VersionKind
from engine.records.fusion_caveats import caveats
from engine.records.fusion_sentences import sentences
from engine.records.rates import bandwidth_gbps, fastest_gbps, rate_tflops
from engine.records.samples import Samples
from engine.records.wording import count_bytes, factor, microseconds


def print_fusion(record: FusionRecord) -> None:
    """Tables, and the sentences first where there are any."""
    total = cost(cut(record.graph))
    given = " ".join(f"{letter}={value}" for letter, value in record.parameters.items() if value)
    environment = record.environment
    where = environment.gpu.name if environment.gpu else f"{record.target.gpu_name} ({record.target.source})"
    print_facts(
        [
            ("pipeline", f"{record.pipeline}  {given}"),
            ("graph", record.graph.graph_id),
            ("measured on" if record.versions else "planned for", where),
            ("cuDNN", f"{environment.cudnn_backend}, frontend {environment.cudnn_frontend}"),
            *([("torch", environment.torch)] if environment.torch else []),
        ]
    )
    for text in sentences(record):
        print(f"\n{text}")
    _print_pieces(record.pieces, total, record)
    _print_saved(total)
    if record.versions:
        _print_versions(record)
    if any(stage.versions for stage in record.growth):
        _print_growth(record)
    _print_ceilings(record)
    for text in caveats(record):
        print(f"\nnote: {text}")


def _print_pieces(pieces: tuple[PieceRecord, ...], total: Cost, record: FusionRecord) -> None:
    print()
    rows: list[tuple[Any, ...]] = [
        (p.label, p.runs_on, p.plan[1] if p.plan else None, p.plans, f"{p.bytes_moved:,}", _us(p.hot)) for p in pieces
    ]
    fused = "refused" if record.fused_refusal else f"{record.fused_plans} plans"
    rows.append(("fused", "cudnn" if not record.fused_refusal else None, fused, None, f"{total.fused_bytes:,}", None))
    print_table(["piece", "runs on", "plan", "plans", "must move (bytes)", "hot_us"], rows)
    for piece in pieces:
        if piece.refusal is not None:
            print(f"\n{piece.label} runs in torch, for cuDNN refuses it alone: {piece.refusal.message}")
    if record.fused_refusal is not None:
        print(f"\nThe whole graph is refused: {record.fused_refusal.message}")


def _print_saved(total: Cost) -> None:
    if not total.saved:
        print("\nThe graph has one piece: there is nothing to fuse.")
        return
    print()
    rows = [(s.name, s.how, f"{s.nbytes:,}", s.touches, f"{s.saved_bytes:,}") for s in total.saved]
    print_table(["tensor", "when fused", "bytes", "moved unfused (times)", "saved (bytes)"], rows)
    ratio = factor(total.unfused_bytes / total.fused_bytes)
    print(
        f"\n{total.pieces} pieces must move {count_bytes(total.unfused_bytes)}, the fused graph "
        f"{count_bytes(total.fused_bytes)}: {ratio} as much unfused."
    )


def _print_versions(record: FusionRecord) -> None:
    print()
    header = ["version", "hot_us", "cold_us", "host_us", "kernels", "must move", "GB/s", "TFLOP/s", "error", "memory"]
    rows = []
    for version in record.versions:
        timings = version.timings
        rows.append(
            (
                version.kind.words,
                *(_us(timings.of(name) if timings else None) for name in ("hot", "cold", "host")),
                version.launched,
                count_bytes(version.bytes_moved) if version.bytes_moved is not None else None,
                _number(bandwidth_gbps(version)),
                _number(rate_tflops(version, record.graph)),
                _error(version),
                count_bytes(version.memory_bytes) if version.memory_bytes is not None else None,
            )
        )
    print_table(header, rows)
    for version in record.versions:
        if version.compile_s is not None:
            print(
                f"\n{version.kind.words}: the first call took {version.compile_s:.1f} s, which is in no other number."
            )


def _print_growth(record: FusionRecord) -> None:
    print()
    seen = {version.kind for stage in record.growth for version in stage.versions}
    kinds = [kind for kind in VersionKind if kind in seen]
    rows: list[tuple[Any, ...]] = []
    for stage in record.growth:
        measured = (stage.version(kind) for kind in kinds)
        hot = [_us(v.timings.hot if v is not None and v.timings else None) for v in measured]
        rows.append(
            (f"+ {stage.added}" if rows else stage.added, *hot, f"{stage.fused_bytes:,}", f"{stage.unfused_bytes:,}")
        )
    print_table(["stage", *(kind.words for kind in kinds), "fused (bytes)", "unfused (bytes)"], rows)


def _print_ceilings(record: FusionRecord) -> None:
    ceilings, fastest = record.ceilings, fastest_gbps(record)
    if ceilings is not None and fastest is not None:
        print(
            f"\nThe most that was seen in this run: {_number(fastest.gbps)} GB/s ({fastest.by}; the copy "
            f"{_number(ceilings.copy_gbps)}), {_number(ceilings.matmul_tflops)} TFLOP/s by a large matmul; the "
            f"smallest kernel takes {microseconds(ceilings.launch_us.median_us)}."
        )


def fusion_json(record: FusionRecord) -> dict[str, Any]:
    """The keys that programs build on; times are medians in microseconds."""
    total = cost(cut(record.graph))
    return {
        "id": record.id,
        "pipeline": record.pipeline,
        "parameters": record.parameters,
        "graph_id": record.graph.graph_id,
        "target": target_json(record.target),
        "gpu": record.environment.gpu.name if record.environment.gpu else None,
        "cudnn": cudnn_json(record.environment),
        "measured": record.measured,
        "fused": {"plans": record.fused_plans, "refusal": refusal_json(record.fused_refusal)},
        "fused_bytes": total.fused_bytes,
        "unfused_bytes": total.unfused_bytes,
        "saved": [
            {
                "tensor": s.name,
                "uid": s.uid,
                "nbytes": s.nbytes,
                "touches": s.touches,
                "when_fused": s.how,
                "saved_bytes": s.saved_bytes,
            }
            for s in total.saved
        ],
        "pieces": [_piece_json(piece) for piece in record.pieces],
        "versions": [_version_json(version, record) for version in record.versions],
        "steps": [
            {
                "cause": step.cause.value,
                "before_us": step.before_us,
                "after_us": step.after_us,
                "detail": step.detail,
                "factor": step.factor,
                "estimated": bool(step.estimate),
                "estimate": step.estimate or None,
            }
            for step in steps(record)
        ],
        "growth": [
            {
                "added": stage.added,
                "graph_id": stage.graph_id,
                "fused_bytes": stage.fused_bytes,
                "unfused_bytes": stage.unfused_bytes,
                "pieces": [_piece_json(piece) for piece in stage.pieces],
                "versions": [_version_json(version, None) for version in stage.versions],
                "refusal": refusal_json(stage.refusal),
            }
            for stage in record.growth
        ],
        "ceilings": None
        if record.ceilings is None
        else {
            "copy_gbps": record.ceilings.copy_gbps,
            "fastest_gbps": fastest.gbps if (fastest := fastest_gbps(record)) else None,
            "matmul_tflops": record.ceilings.matmul_tflops,
            "launch_us": record.ceilings.launch_us.median_us,
        },
        "sentences": list(sentences(record)),
        "caveats": caveats(record),
        "remarks": list(record.remarks),
    }


def _piece_json(piece: PieceRecord) -> dict[str, Any]:
    return {
        "label": piece.label,
        "origin": piece.origin,
        "runs_on": piece.runs_on,
        "plan": list(piece.plan) if piece.plan else None,
        "plans": piece.plans,
        "refusal": refusal_json(piece.refusal),
        "bytes_moved": piece.bytes_moved,
        "flops": piece.flops,
        "hot_us": piece.hot.median_us if piece.hot else None,
    }


def _version_json(version: Version, record: FusionRecord | None) -> dict[str, Any]:
    timings = version.timings
    times = {f"{name}_us": _median(timings.of(name) if timings else None) for name in ("hot", "cold", "host")}
    return {
        "kind": version.kind.value,
        "detail": version.detail,
        "plan": list(version.plan) if version.plan else None,
        **times,
        "kernels": version.kernels,
        "memsets": _count(version, "fill"),
        "memcpys": _count(version, "copy"),
        "bytes_moved": version.bytes_moved,
        "gbps": bandwidth_gbps(version),
        "tflops": rate_tflops(version, record.graph) if record else None,
        "max_rel": {output.name: output.max_rel for output in version.accuracy},
        "memory_bytes": version.memory_bytes,
        "compile_s": version.compile_s,
        "message": version.message,
    }


def _count(version: Version, kind: str) -> int | None:
    return None if version.launches is None else sum(launch.kind == kind for launch in version.launches)


def _median(samples: Samples | None) -> float | None:
    return None if samples is None else samples.median_us


def _us(samples: Samples | None) -> str | None:
    return None if samples is None else f"{samples.median_us:,.1f}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _error(version: Version) -> str | None:
    known = [output.max_rel for output in version.accuracy if output.max_rel is not None]
    return f"{max(known):.1e}" if known else None
