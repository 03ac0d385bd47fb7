"""Samples in numbers: medians and spreads by regime, of plans and of torch beside them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.records.circumstances import CALLED
from engine.records.gpu_state import GpuState
from engine.records.run import RunRecord
from engine.records.samples import Samples
from engine.records.timings import Regime, Timings

REGIMES = tuple(regime.value for regime in Regime)
REGIME_WORDS = {
    Regime.HOT: "GPU, hot",
    Regime.COLD: "GPU, cold",
    Regime.HOST: "host, as called",
    Regime.HOST_READY: "host, pack ready",
    Regime.END_TO_END: "end to end",
}
"""As people read them beside each other."""
REGIME_TITLES = {
    Regime.HOT: "GPU time per execution, hot (µs)",
    Regime.COLD: "GPU time per execution, nothing of its own in the L2 cache (µs)",
    Regime.HOST: "host time per call, as called with a dict of tensors (µs)",
    Regime.HOST_READY: "host time per call, variant pack made ready before (µs)",
    Regime.END_TO_END: "wall-clock time of an eager call and waiting for it (µs)",
}


@dataclass(frozen=True)
class Spread:
    """Median and spread of one regime's samples, microseconds per execution."""

    median_us: float
    p10_us: float
    p90_us: float
    min_us: float
    max_us: float
    samples: int


def spread(samples: Samples) -> Spread:
    """Quantiles of samples in float64, linearly interpolated. Sorted once: np.quantile takes ten times as long."""
    values = np.sort(samples.values.astype(np.float64))
    places = np.array((0.0, 0.1, 0.5, 0.9, 1.0)) * (values.size - 1)
    low, p10, median, p90, high = np.interp(places, np.arange(values.size), values).tolist()
    return Spread(median, p10, p90, low, high, samples.count)


@dataclass(frozen=True)
class BaselineTimes:
    """torch eager (or another baseline) on the same data; regimes in which it was not timed are left out."""

    name: str
    regimes: Mapping[str, Spread]


def baseline_times(run: RunRecord) -> BaselineTimes | None:
    """The run's baseline, or None where there is none or it could not be timed."""
    baseline = run.baseline
    if baseline is None or baseline.timings is None:
        return None
    return BaselineTimes(baseline.name, spreads(baseline.timings))


def spreads(timings: Timings) -> dict[str, Spread]:
    """Of every regime in which samples were taken."""
    taken = {regime: timings.of(regime) for regime in REGIMES}
    return {regime: spread(samples) for regime, samples in taken.items() if samples is not None}


def samples_frame(timings: Timings) -> pd.DataFrame:
    """Every raw sample of one plan: ``regime``, ``order`` (0 first taken), ``us`` per execution; and, of hot samples
    whose rounds kept it, the GPU's ``state`` in words and whether anything ``held`` its clocks down."""
    parts = []
    for regime in REGIMES:
        samples = timings.of(regime)
        if samples is None:
            continue
        values = samples.values.astype(np.float64)
        known = timings.states if regime == Regime.HOT and len(timings.states) == values.size else ()
        beside = {
            "state": [state_words(state) for state in known] or "",
            "held": [bool(state.throttle_reasons) for state in known] or False,
        }
        parts.append(pd.DataFrame({"regime": regime, "order": np.arange(values.size), "us": values, **beside}))
    return pd.concat(parts, ignore_index=True)


def state_words(gpu: GpuState) -> str:
    """Clock, heat, power and what held the clock down; "" where nothing is known."""
    reasons = dict.fromkeys(CALLED.get(reason, reason) for reason in gpu.throttle_reasons)
    parts = [
        "" if gpu.sm_clock_mhz is None else f"{gpu.sm_clock_mhz:,} MHz",
        "" if gpu.temperature_c is None else f"{gpu.temperature_c} °C",
        "" if gpu.power_w is None else f"{gpu.power_w:.0f} W",
        f"held back by {', '.join(reasons)}" if reasons else "",
    ]
    return ", ".join(filter(None, parts))
