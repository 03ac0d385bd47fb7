"""Versions of one graph against each other: each checked first, then all sampled in turns, by the sweep's protocol."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.graph.cutting import Cut
from engine.graph.operations import Attention
from engine.measure.accuracy import Scale, explain, tolerance
from engine.measure.contestant import Replayable
from engine.measure.fusion.launches import count_launches
from engine.measure.regimes import measure_regimes
from engine.measure.rounds import Rounds
from engine.measure.sampling import Announce, Round, Sampler
from engine.measure.screening import Rule
from engine.measure.session import FAILURES, Session, describe
from engine.measure.timing import Replays, estimate_us, first_execution
from engine.records.fusion import Version, VersionKind
from engine.records.passport import OutputAccuracy
from engine.records.samples import Samples
from engine.records.timings import Regime, Timings

logger = logging.getLogger(__name__)
Run = Callable[[], dict[int, Any]]

REGIMES = (Regime.HOST, Regime.END_TO_END, Regime.COLD)
CUT_SCORES = 2.0
"""What an attention that is cut may be off by beside: its scores are rounded to the I/O type after each of three
operations, which makes relative errors of the probabilities that grow with the scores. Times their standard deviation
for normal data (at least 1), in shares of the largest value. Emulated, scores of deviation 1 and 8: 0.85 and 5.1."""


@dataclass
class Entrant:
    """A version to be measured. ``run`` gives outputs by uid. ``held_bytes``: device memory that it keeps beside what
    a run allocates. ``cut``: whether it rounds to the I/O type between the pieces; ``compiles``: whether its first call
    takes time that is told apart; ``replayable``: where there is one already, which versions may share."""

    kind: VersionKind
    run: Run
    detail: str = ""
    plan: tuple[str, str] | None = None
    bytes_moved: int | None = None
    held_bytes: int = 0
    cut: bool = True
    compiles: bool = False
    replayable: Replayable | None = None


@dataclass
class _Checked:
    entrant: Entrant
    accuracy: tuple[OutputAccuracy, ...] = ()
    memory_bytes: int | None = None
    compile_s: float | None = None
    message: str | None = None
    replayable: Replayable | None = None

    def version(self, timings: Timings | None = None, launches: Any = None) -> Version:
        message = self.message if timings is not None or self.message else "it was not sampled."
        return Version(
            kind=self.entrant.kind,
            detail=self.entrant.detail,
            plan=self.entrant.plan,
            timings=timings,
            launches=launches,
            bytes_moved=self.entrant.bytes_moved,
            accuracy=self.accuracy,
            memory_bytes=self.memory_bytes,
            compile_s=self.compile_s,
            message=message,
        )


def contest(
    session: Session, made: Cut, entrants: Iterable[Entrant], rule: Rule, seed: int, announce: Announce
) -> tuple[Version, ...]:
    """Every version in the order given, whatever became of it. ``announce`` hears whose turn it is."""
    checked = []
    for entrant in entrants:
        announce(entrant.kind)
        checked.append(_check(session, made, entrant))
    going: dict[str, Replayable] = {}
    sampled_as: dict[int, str] = {}  # One plan that is two versions is sampled once.
    for one in checked:
        if one.replayable is not None and id(one.replayable) not in sampled_as:
            sampled_as[id(one.replayable)] = one.entrant.kind.value
            going[one.entrant.kind.value] = one.replayable
    timings = sample(session, going, rule, seed, announce)
    found = []
    for one in checked:
        timed = timings.get(sampled_as[id(one.replayable)]) if one.replayable is not None else None
        announce(one.entrant.kind)
        found.append(one.version(timed, _launches(one) if timed is not None else None))
    return tuple(found)


def sample(
    session: Session,
    versions: Mapping[str, Replayable],
    rule: Rule,
    seed: int,
    announce: Announce,
    regimes: Sequence[Regime] = REGIMES,
) -> dict[str, Timings]:
    """All versions in turns: hot in shuffled rounds, then the other regimes in shuffled blocks. Nobody is dropped."""
    if not versions:
        return {}
    rounds, told = Rounds(list(versions), rule, seed, keep=versions), list[Round]()
    replays = {key: version.replay() for key, version in versions.items()}
    reader, rated = session.reader, session.device.info.rated_sm_clock_mhz
    Sampler(rounds, Replays(replays), reader.read, told.extend, rated).run()
    others = measure_regimes(regimes, versions, session.flush, seed, announce) if regimes else {}
    states = [one.state for one in told if one.state is not None]
    found = {}
    for key, replay in replays.items():
        kept = [value for one in told for name, value, is_kept in one.samples if name == key and is_kept]
        if kept:
            hot = Timings(
                hot=Samples.of(kept, executions=replay.executions),
                gpu=states[len(states) // 2] if states else None,
                set_aside=rounds.tallies[key].set_aside,
                stopped=rounds.stopped.get(key),
            )
            beside = {regime.value: samples for regime, samples in others.get(key, {}).items()}
            found[key] = hot.model_copy(update=beside)
    return found


def settled(call: Callable[[], object]) -> Replayable:
    """A call ready to be sampled. Raises what calling and capturing raise."""
    made = Replayable(call)
    made.execution_us = estimate_us(call, first_execution(call))
    made.settle()
    return made


def allowed(made: Cut, scale: Scale, cut: bool) -> float:
    """The largest relative error that passes."""
    base = tolerance(made.graph, scale, unfused=True)
    if not cut:
        return base
    spec = made.graph
    for operation in spec.operations:
        if isinstance(operation, Attention):
            deviation = abs(operation.scale) * spec.by_uid[operation.inputs["q"]].dims[-1] ** 0.5
            base += CUT_SCORES * max(1.0, deviation) * spec.io_dtype.epsilon / 2 * scale.peak / scale.rms
    return base


def _check(session: Session, made: Cut, entrant: Entrant) -> _Checked:
    """Run once, compare, get ready for replays."""
    checked = _Checked(entrant)
    try:
        session.buffers.poison()
        _reset_peak()
        before, began = torch.cuda.memory_allocated(), time.perf_counter()
        outputs = entrant.run()
        torch.cuda.synchronize()
        took = time.perf_counter() - began
        if entrant.compiles:
            checked.compile_s = took
            outputs = {}  # What compiling took is not what running takes.
            _reset_peak()
            before = torch.cuda.memory_allocated()
            outputs = entrant.run()
            torch.cuda.synchronize()
        checked.memory_bytes = max(0, torch.cuda.max_memory_allocated() - before) + entrant.held_bytes
        checked.accuracy = session.judge(outputs, lambda scale: allowed(made, scale, entrant.cut))
        del outputs
        if complaint := explain(checked.accuracy):
            checked.message = f"wrong result: {complaint}"
        else:
            checked.replayable = entrant.replayable or settled(entrant.run)
    except FAILURES as error:
        logger.warning("%s failed", entrant.kind, exc_info=True)
        checked.message = describe(error)[:500]
    return checked


def _launches(checked: _Checked) -> Any:
    try:
        return count_launches(checked.entrant.run)
    except FAILURES as error:
        logger.warning("the profiler failed over %s: %s", checked.entrant.kind, error)
        return None


def _reset_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
