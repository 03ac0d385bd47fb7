"""Whether sweeps agree: the same graph swept again and again, each time by new processes."""

from __future__ import annotations

from pydantic import BaseModel

from engine.bench.sweeping import sweep_once
from engine.jobs.protocol import JobError
from engine.plans.targets import Target
from engine.records.environment import Environment, GpuInfo
from engine.records.options import SweepOptions
from engine.records.run import RunRecord
from engine.records.verdict import verdict


class OneSweep(BaseModel):
    """A sweep's hot verdict, plans by name. ``medians_us`` of its tie set."""

    winner: str
    tie_set: tuple[str, ...]
    medians_us: dict[str, float]
    span_s: float


class Repeats(BaseModel):
    """Sweeps of one graph."""

    pipeline: str
    environment: Environment
    sweeps: tuple[OneSweep, ...]

    @property
    def disagreements(self) -> list[tuple[int, int]]:
        """Pairs (i, j) where the winner of sweep i is not in the tie set of sweep j."""
        numbered = list(enumerate(self.sweeps))
        return [(i, j) for i, one in numbered for j, other in numbered if one.winner not in other.tie_set]


def repeat(
    pipeline: str, times: int, target: Target, gpu: GpuInfo, options: SweepOptions, builders: int | None
) -> Repeats:
    """So many sweeps, up to the hot verdict."""
    runs = [sweep_once(pipeline, target, gpu, options, builders, aftermath=False).run for _ in range(times)]
    return Repeats(pipeline=pipeline, environment=runs[0].environment, sweeps=tuple(_outcome(run) for run in runs))


def _outcome(run: RunRecord) -> OneSweep:
    judged = verdict(run)
    if judged.winner is None:
        raise JobError(f"a sweep of {run.pipeline} measured no right plan")
    assert run.phases is not None and run.phases.verdict_at_s is not None  # sweep_once sees to that
    return OneSweep(
        winner=judged.names[judged.winner],
        tie_set=tuple(judged.names[key] for key in judged.tie_set),
        medians_us={judged.names[key]: judged.intervals[key].median for key in judged.tie_set},
        span_s=run.phases.verdict_at_s,
    )
