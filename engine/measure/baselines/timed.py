"""torch eager on the same data as the plans, compared with the same reference and timed in the same regimes."""

from __future__ import annotations

from engine.measure.baselines.eager import NAME, eager
from engine.measure.contestant import Replayable
from engine.measure.regimes import measure_regimes
from engine.measure.rounds import Rounds
from engine.measure.sampling import Round, Sampler
from engine.measure.screening import Rule
from engine.measure.session import FAILURES, Session, describe
from engine.measure.timing import Replays, estimate_us, first_execution
from engine.records.passport import OutputAccuracy
from engine.records.run import Baseline
from engine.records.samples import Samples
from engine.records.timings import Regime, Timings

REGIMES = (Regime.HOST, Regime.END_TO_END, Regime.COLD)


def measure_baseline(session: Session, rule: Rule, seed: int) -> Baseline:
    """Without timings, and with a message, where torch cannot run or time it."""
    run = eager(session.spec, session.buffers.values)
    accuracy: tuple[OutputAccuracy, ...] = ()
    try:
        accuracy = session.compare(run(), unfused=True)
        plan = Replayable(run)
        plan.execution_us = estimate_us(run, first_execution(run))
        timings = _hot(session, plan, rule, seed)
        others = measure_regimes(REGIMES, {NAME: plan}, session.flush, seed, lambda key: None)[NAME]
        timings = timings.model_copy(update={regime.value: samples for regime, samples in others.items()})
        return Baseline(name=NAME, accuracy=accuracy, timings=timings)
    except FAILURES as error:
        return Baseline(name=NAME, accuracy=accuracy, timings=None, message=describe(error))


def _hot(session: Session, plan: Replayable, rule: Rule, seed: int) -> Timings:
    replay, rounds, told = plan.settle(), Rounds([NAME], rule, seed), list[Round]()
    rated = session.device.info.rated_sm_clock_mhz
    Sampler(rounds, Replays({NAME: replay}), session.reader.read, told.extend, rated).run()
    kept = [value for one in told for _, value, is_kept in one.samples if is_kept]
    states = tuple(one.state for one in told if one.state is not None)
    return Timings(
        hot=Samples.of(kept, executions=replay.executions),
        gpu=states[len(states) // 2] if states else None,
        states=states,
        set_aside=rounds.tallies[NAME].set_aside,
        stopped=rounds.stopped[NAME],
    )
