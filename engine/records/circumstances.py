"""What went on while a run was measured, as far as it bears on how much its numbers are worth."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from engine.records.gpu_state import LOW_CLOCK, GpuState
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord, RunStatus
from engine.records.timings import Timings
from engine.records.wording import several

CALLED = {
    "software power cap": "power capping",
    "hardware power brake": "power capping",
    "software thermal slowdown": "thermal slowdown",
    "hardware thermal slowdown": "thermal slowdown",
    "hardware slowdown": "hardware slowdown",
    "applications clock setting": "a clock limit set by an application",
    "display clock setting": "a clock limit of the display",
    "sync boost": "a clock limit shared by several GPUs",
}
"""NVML's reasons, as people call them."""

UNLIKE = 1.01
"""Times the other: medians of the SM clock that far apart make times differ that plans would tie by."""
_LOW = "the SM clock was below 75 % of the rated one"


def circumstances(source: RunRecord | Iterable[PlanRecord]) -> list[str]:
    """Sentences on clocks held down, samples set aside, and sampling that ended before it was precise; none where all
    was well. Of a run also where clocks could not be judged, or stayed low, and where it was cut short."""
    plans = source.plans if isinstance(source, RunRecord) else source
    timings = [plan.timings for plan in plans if plan.timings is not None and plan.status is Status.OK]
    of_run = [*_clock_rule(source, timings), *_cut_short(source, timings)] if isinstance(source, RunRecord) else []
    beside = _beside(source, timings) if isinstance(source, RunRecord) else []
    clocks = [*_unequal(timings), *_screened_clocks(timings), *_cold(timings)]
    return [*_throttling(timings), *_set_aside(timings), *clocks, *beside, *of_run, *_stopped(timings)]


def _beside(run: RunRecord, timings: Sequence[Timings]) -> list[str]:
    """The same of what the plans are held against, which was sampled at another time: torch by itself, after them, and
    the winner and the first pick in a fresh process."""
    said = []
    if run.baseline is not None and (own := run.baseline.timings) is not None:
        name = run.baseline.name
        said += [f"While {name} was timed, {_uncapitalized(text)}" for text in _throttling([own])]
        if own.set_aside:
            said.append(f"{several(own.set_aside, 'sample')} of {name} set aside: {_LOW}.")
        said += _unlike_clocks(name, own, timings)
    if run.confirmation is not None and (states := run.confirmation.states):
        held = _held([[state] for state in states], _in_rounds(len(states)))
        said += [f"In the confirmation {_uncapitalized(text)}" for text in held]
    return said


def _unlike_clocks(name: str, own: Timings, timings: Sequence[Timings]) -> list[str]:
    """Whether a baseline's clock was another one than the plans', which what they are compared by holds too."""
    mine, theirs = _median_clock(own.states), _median_clock(state for one in timings for state in one.states)
    if not _unlike(mine, theirs):
        return []
    return [
        f"The SM clock was {mine:,.0f} MHz while {name} was timed by itself, and {theirs:,.0f} MHz in the "
        "plans' rounds (medians): part of the difference between their times is the clock's."
    ]


def _unequal(timings: Sequence[Timings]) -> list[str]:
    """Whether some plans left the rounds before others, and the clock was not the same in all of them."""
    full = [one for one in timings if one.stopped in ("precise", "budget")]
    counts = sorted(one.hot.count for one in full)
    known = [clock for one in full for state in one.states if (clock := state.sm_clock_mhz) is not None]
    if not known or counts[0] == counts[-1] or not _unlike(min(known), max(known)):
        return []
    return [
        f"Plans have {counts[0]:,} to {counts[-1]:,} samples, so not all of the same rounds, and the SM clock changed "
        "between rounds: part of the difference between medians is the clock's."
    ]


def _screened_clocks(timings: Sequence[Timings]) -> list[str]:
    """Whether screening, on a GPU that had rested, met another clock than the rounds after it: ratios of the two hold
    that too."""
    behind = [one for one in timings if one.stopped == "screened"]
    then = _median_clock(one.gpu for one in behind if one.gpu is not None)
    later = _median_clock(state for one in timings if one.stopped != "screened" for state in one.states)
    if not _unlike(then, later):
        return []
    were, look = ("was", "it looks {} than it is") if len(behind) == 1 else ("were", "they look {} than they are")
    return [
        f"{several(len(behind), 'plan')} {were} screened out at an SM clock of {then:,.0f} MHz, and the rounds ran at "
        f"{later:,.0f} MHz (medians): beside the best {look.format('faster' if then > later else 'slower')}."
    ]


def _cold(timings: Sequence[Timings]) -> list[str]:
    """An execution that finds a cold cache is not faster for that, but for its clock."""
    both = [one for one in timings if one.cold is not None]
    faster = sum(one.cold.median_us < one.hot.median_us for one in both if one.cold is not None)
    if not faster or not any(state.throttle_reasons for one in both for state in one.states):
        return []
    return [
        f"{faster:,} of {several(len(both), 'plan')} took less time cold, one execution at a time, than hot, in rounds "
        "that held the clock down: regimes differ by their clocks too."
    ]


def _unlike(one: float, other: float) -> bool:
    """Whether two median clocks, 0 where not known, make times differ."""
    return min(one, other) > 0 and max(one, other) > UNLIKE * min(one, other)


def _median_clock(states: Iterable[GpuState]) -> float:
    """0 where none is known."""
    known = [state.sm_clock_mhz for state in states if state.sm_clock_mhz is not None]
    return statistics.median(known) if known else 0.0


def _cut_short(run: RunRecord, timings: Sequence[Timings]) -> list[str]:
    """Of a run that did not come to its end: who has samples, but not all that were wanted."""
    count = sum(one.stopped is None for one in timings)
    if run.status is RunStatus.DONE or not count:
        return []
    return [f"The sweep was cut short: {several(count, 'plan')} did not get all the samples that were wanted."]


def _throttling(timings: Sequence[Timings]) -> list[str]:
    """By round where the states of rounds were kept, else by plan."""
    rounds = max((len(one.states) for one in timings), default=0)
    if rounds:
        moments = [[one.states[i] for one in timings if i < len(one.states)] for i in range(rounds)]
        return _held(moments, _in_rounds(rounds))
    moments = [[one.gpu] for one in timings if one.gpu is not None]
    return _held(
        moments, f"while {{}} of {several(len(moments), 'plan')} {'was' if len(moments) == 1 else 'were'} timed"
    )


def _in_rounds(rounds: int) -> str:
    return f"in {{}} of {several(rounds, 'round')}"


def _held(moments: Sequence[Sequence[GpuState]], where: str) -> list[str]:
    """What held clocks down; ``where``: takes the number of moments in which it did."""
    counts: dict[str, int] = {}
    for moment in moments:
        for name in {CALLED.get(reason, reason) for state in moment for reason in state.throttle_reasons}:
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        return []
    clocks = _clocks(state for moment in moments for state in moment)
    parts = [f"{name} was active {where.format(count)}" for name, count in sorted(counts.items())]
    text = "; ".join(parts) + clocks
    return [f"{text[0].upper()}{text[1:]}."]


def _uncapitalized(text: str) -> str:
    return text[0].lower() + text[1:]


def _clocks(states: Iterable[GpuState]) -> str:
    known = [state.sm_clock_mhz for state in states if state.sm_clock_mhz is not None]
    if not known or min(known) == max(known):
        return ""
    return f" (SM clock {min(known):,} to {max(known):,} MHz)"


def _set_aside(timings: Sequence[Timings]) -> list[str]:
    counts = [one.set_aside for one in timings if one.set_aside]
    if not counts:
        return []
    samples, plans = several(sum(counts), "sample"), several(len(counts), "plan")
    return [f"{samples} of {plans} set aside: {_LOW}."]


def _clock_rule(run: RunRecord, timings: Sequence[Timings]) -> list[str]:
    """Whether low clocks could be told, and whether samples had to be kept in spite of them."""
    if not timings:
        return []
    rated = run.environment.gpu.rated_sm_clock_mhz if run.environment.gpu else None
    if rated is None:
        return ["The rated SM clock is not known: no sample was set aside for a low clock."]
    clocks = [state.sm_clock_mhz for one in timings for state in one.states]
    low = [clock for clock in clocks if clock is not None and clock < LOW_CLOCK * rated]
    if not low:
        return []
    verb = "was" if len(low) == 1 else "were"
    return [
        f"{several(len(low), 'sample')} below 75 % of the rated SM clock {verb} kept: the clock did not come up again "
        f"(down to {min(low):,} of {rated:,} MHz)."
    ]


def _stopped(timings: Sequence[Timings]) -> list[str]:
    budget = sum(one.stopped == "budget" for one in timings)
    screened = sum(one.stopped == "screened" for one in timings)
    said = []
    if budget:
        ended = f"Sampling ended by its budget of time and samples for {several(budget, 'plan')}"
        said.append(f"{ended}, before the error was small enough.")
    if screened:
        kept = f"{several(screened, 'plan')} {'is' if screened == 1 else 'are'}"
        said.append(f"{kept} beyond any doubt far from the best and got no more samples than that took.")
    return said
