"""Everything a record says of one plan, as pairs of name and text. Pure."""

from __future__ import annotations

from app.frames import REGIMES, spread
from app.theme import (
    NOTHING,
    STATUS_STYLES,
    digits_for,
    fmt_bytes,
    fmt_error,
    fmt_ms,
    fmt_us,
)
from engine.graph.tensors import DataType
from engine.records.arithmetic import arithmetic
from engine.records.gpu_state import GpuState
from engine.records.plan import OutputAccuracy, PlanRecord

REGIME_WORDS = {"hot": "GPU, hot", "cold": "GPU, L2 flushed", "host": "host, per call"}

Fact = tuple[str, str]


def plan_facts(plan: PlanRecord, io_dtype: DataType) -> list[Fact]:
    """Outcome, identity, how it was offered, what it needs, what it was seen to do. ``io_dtype``: the graph's."""
    facts = [("outcome", STATUS_STYLES[plan.status].text)]
    if plan.message:
        facts += [("at stage", str(plan.stage)), ("message", plan.message)]
    facts += [("engine", str(plan.identity.engine_id))]
    facts += [("knobs", ", ".join(f"{k} = {v}" for k, v in sorted(plan.identity.knobs.items())) or "none")]
    facts += [("mode:rank", _ranks(plan))]
    facts += [("workspace", fmt_bytes(plan.workspace_bytes))]
    facts += [("behavior notes", _notes(plan.behavior_notes)), ("numerical notes", _notes(plan.numerical_notes))]
    if multiplies := arithmetic(io_dtype, plan):
        facts.append(("multiplies in", multiplies.value))
    return [*facts, *_times(plan), *_sizes(plan), *(_error(output) for output in plan.accuracy)]


def _ranks(plan: PlanRecord) -> str:
    """As the table, the CSV file and the command line have it: a mode's first pick is its rank 0."""
    ranks = ", ".join(f"{mode}:{rank}" for mode, rank in plan.modes.items())
    return f"{ranks} (0 is first)" if ranks else NOTHING


def _times(plan: PlanRecord) -> list[Fact]:
    if plan.timings is None:
        return []
    facts = []
    for regime in REGIMES:
        s = spread(getattr(plan.timings, regime))
        digits = digits_for(s.median_us, s.p10_us, s.p90_us)
        low, middle, high = (fmt_us(value, digits) for value in (s.p10_us, s.median_us, s.p90_us))
        facts.append((REGIME_WORDS[regime], f"{middle} median, {low} to {high} (p10 to p90 of {s.samples})"))
    waits = "the GPU is" if plan.timings.dominates == "gpu" else "the host is: a CUDA graph would hide it"
    facts.append(("longer per call", waits))
    if plan.timings.gpu is not None:
        facts.append(("GPU meanwhile", _state(plan.timings.gpu)))
    return facts


def _state(gpu: GpuState) -> str:
    """Clock, heat, power and what held the clock down."""
    parts = [
        "" if gpu.sm_clock_mhz is None else f"{gpu.sm_clock_mhz} MHz",
        "" if gpu.temperature_c is None else f"{gpu.temperature_c} °C",
        "" if gpu.power_w is None else f"{gpu.power_w:.0f} W",
        f"held back by {', '.join(gpu.throttle_reasons)}" if gpu.throttle_reasons else "",
    ]
    return ", ".join(filter(None, parts)) or NOTHING


def _sizes(plan: PlanRecord) -> list[Fact]:
    facts = []
    if plan.build_ms is not None:
        beside = ", other builders at work" if plan.build_contended else ""
        facts.append(("build", fmt_ms(plan.build_ms) + beside))
    if plan.deserialize_ms is not None:
        facts.append(("load", f"{fmt_ms(plan.deserialize_ms)} from its serialized form"))
    if plan.blob_bytes is not None:
        facts.append(("serialized", fmt_bytes(plan.blob_bytes)))
    return facts


def _error(output: OutputAccuracy) -> Fact:
    parts = [f"{fmt_error(output.max_rel)} relative (tolerance {fmt_error(output.tolerance)})"]
    parts += [f"{fmt_error(output.max_abs)} absolute"]
    parts += [f"{output.unwritten:,} never written"] if output.unwritten else []
    parts += [f"{output.nonfinite:,} NaN or infinite"] if output.nonfinite else []
    return f"error of {output.name}", ", ".join(parts)


def _notes(notes: tuple[str, ...]) -> str:
    return ", ".join(notes) or "none"
