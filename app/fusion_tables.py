"""The fusion page's tables: every version, what the profiler counted, and what the charts tell under the pointer. Pure;
in the saved file they are the same."""

from __future__ import annotations

from app.fusion_figures import added, end_names, fused_us, unfused_us
from app.fusion_words import environment_facts
from app.table_view import Cell, Column, Row, Table
from app.theme import NOTHING, fmt_bytes, fmt_error, fmt_number, fmt_ratio, fmt_us
from engine.records.attribution import steps
from engine.records.fusion import FusionRecord, Version
from engine.records.rates import bandwidth_gbps, flop_per_byte, rate_tflops
from engine.records.samples import Samples

NAME_LENGTH = 110


def versions_table(record: FusionRecord) -> Table:
    """Every version with everything that is known of it."""
    columns = (
        Column("version"),
        Column("hot", "GPU time in a CUDA graph, median", number=True),
        Column("cold", "GPU time with a cold L2, median", number=True),
        Column("host", "what a call costs the calling thread, median", number=True),
        Column("kernels", "launched per execution, counted by the profiler; memset and memcpy beside", number=True),
        Column("must move", "bytes that its cuDNN graphs or calls of torch read and write at least once", number=True),
        Column("GB/s", "those bytes over the hot time", number=True),
        Column("TFLOP/s", "the graph's work over the hot time", number=True),
        Column(
            "FLOP/byte", "the graph's work over the bytes that must move: where it stands in the roofline", number=True
        ),
        Column("error", "largest relative error against the reference", number=True),
        Column(
            "memory", "allocated beside the inputs, outputs included; cuDNN's plans with their workspace", number=True
        ),
        Column("first call", "with compiling, for torch.compile", number=True),
        Column("what runs"),
    )
    rows = tuple(Row(version.kind.value, _cells(version, record)) for version in record.versions)
    return Table("Every version of the graph, with its times and costs", columns, rows)


def environment_table(record: FusionRecord) -> Table:
    """What it was measured on, and of what."""
    rows = tuple(Row(name, (Cell(name), Cell(value))) for name, value in environment_facts(record))
    return Table("What it was measured on", (Column("what"), Column("which")), rows)


def launches_table(record: FusionRecord) -> Table:
    """What the profiler saw in one execution of each version, in order; its times are taken apart from those above."""
    columns = (
        Column("version"),
        Column("what"),
        Column("µs", "as the profiler timed it, once", number=True),
        Column("name"),
    )
    rows = tuple(
        Row(
            f"{version.kind.value}-{i}",
            (
                Cell(version.kind.words),
                Cell(launch.kind),
                Cell(fmt_number(launch.us), launch.us),
                Cell(launch.name if len(launch.name) <= NAME_LENGTH else launch.name[:NAME_LENGTH] + "…"),
            ),
        )
        for version in record.versions
        for i, launch in enumerate(version.launches or ())
    )
    return Table("What the profiler counted in one execution of each version", columns, rows)


def steps_table(record: FusionRecord) -> Table:
    """The waterfall's bars in numbers: between which times each step lies, and how they are known."""
    columns = (
        Column("step"),
        Column("from", "GPU time, hot", number=True),
        Column("to", "GPU time, hot", number=True),
        Column("saved", "negative for a loss", number=True),
        Column("factor", "how many times faster; the factors multiply to the whole", number=True),
        Column("known", "measured, or by which estimate"),
        Column("behind it"),
    )
    rows = [
        Row(
            f"step{i}",
            (
                Cell(step.cause.value),
                Cell(fmt_us(step.before_us), step.before_us),
                Cell(fmt_us(step.after_us), step.after_us),
                Cell(f"{'−' if step.saved_us < 0 else ''}{fmt_us(abs(step.saved_us))}", step.saved_us),
                Cell(fmt_ratio(step.factor), step.factor),
                Cell(f"estimated: {step.estimate}" if step.estimate else "measured"),
                Cell(step.detail),
            ),
        )
        for i, step in enumerate(steps(record))
    ]
    return Table(f"The steps from “{end_names(record)[0]}” to “{end_names(record)[1]}”", columns, tuple(rows))


def growth_table(record: FusionRecord) -> Table:
    """The growing graph in numbers."""
    columns = (
        Column("up to"),
        Column("fused", "GPU time, hot, of the faster of first pick and tuned", number=True),
        Column("adds", "to the stage before it", number=True),
        Column("must move", "fused", number=True),
        Column("unfused", "GPU time, hot", number=True),
        Column("adds", "to the stage before it", number=True),
        Column("must move", "unfused", number=True),
    )
    fused, unfused = [[of(stage) for stage in record.growth] for of in (fused_us, unfused_us)]
    rows = []
    for i, stage in enumerate(record.growth):
        cells = [Cell(stage.added, float(i))]
        for times, moved in ((fused, stage.fused_bytes), (unfused, stage.unfused_bytes)):
            us, before = times[i], times[i - 1] if i else 0.0
            adds = None if us is None or before is None else us - before
            cells += [Cell(fmt_us(us), us), Cell(added(times, i), adds), Cell(fmt_bytes(moved), moved)]
        rows.append(Row(stage.graph_id, tuple(cells)))
    return Table("The graph grown by one operation at a time", columns, tuple(rows))


def _cells(version: Version, record: FusionRecord) -> tuple[Cell, ...]:
    times = [version.timings.of(name) if version.timings else None for name in ("hot", "cold", "host")]
    known = [output.max_rel for output in version.accuracy if output.max_rel is not None]
    error = max(known, default=None)
    gbps, rate = bandwidth_gbps(version), rate_tflops(version, record.graph)
    intensity = flop_per_byte(version, record.graph)
    return (
        Cell(version.kind.words),
        *(Cell(fmt_us(_median(samples)), _median(samples)) for samples in times),
        Cell(version.launched or NOTHING, version.kernels),
        Cell(fmt_bytes(version.bytes_moved), version.bytes_moved),
        Cell(fmt_number(gbps), gbps),
        Cell(fmt_number(rate), rate),
        Cell(fmt_number(intensity), intensity),
        Cell(fmt_error(error), error),
        Cell(fmt_bytes(version.memory_bytes), version.memory_bytes),
        Cell(NOTHING if version.compile_s is None else f"{version.compile_s:.1f} s", version.compile_s),
        Cell(version.message or version.detail),
    )


def _median(samples: Samples | None) -> float | None:
    return None if samples is None else samples.median_us
