"""What the confirmation of a winner says: paired samples of it and of the heuristics' first pick, from a fresh
process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.records.intervals import Interval, interval
from engine.records.run import RunRecord
from engine.records.verdict import SAME_SHARE, SAME_US
from engine.records.wording import factor, microseconds

Outcome = Literal["confirmed", "same", "reversed", "failed"]


@dataclass(frozen=True)
class Confirmed:
    """``ratio``: the first pick's time over the winner's, over pairs of samples taken beside each other; None where
    there are none. ``same``: within 1 % or 100 ns, or no difference that the pairs tell."""

    winner: str
    first_pick: str
    outcome: Outcome
    ratio: Interval | None
    sentence: str


def confirm(run: RunRecord) -> Confirmed | None:
    """The outcome of a run's confirmation; None where none was made, as when the winner is the first pick."""
    record = run.confirmation
    if record is None:
        return None
    names = {plan.key: plan.plan_name for plan in run.plans}
    winner, first = (names.get(key, key) for key in (record.winner, record.first_pick))
    if record.winner_us is None or record.first_pick_us is None:
        sentence = f"{winner} could not be confirmed against the first pick {first}: {record.message}"
        return Confirmed(record.winner, record.first_pick, "failed", None, sentence)
    own, other = (samples.values.astype(float) for samples in (record.winner_us, record.first_pick_us))
    ratio = interval(other / own)
    difference_us, own_us = record.first_pick_us.median_us - record.winner_us.median_us, record.winner_us.median_us
    if abs(difference_us) <= max(SAME_US, SAME_SHARE * own_us) or ratio.low <= 1 <= ratio.high:
        outcome: Outcome = "same"
    else:
        outcome = "confirmed" if ratio.median > 1 else "reversed"
    ending = {
        "confirmed": "The difference is confirmed",
        "same": "No difference that matters",
        "reversed": "The order is reversed: do not trust the sweep",
        "failed": "",
    }[outcome]
    sentence = (
        f"{ending}: in a fresh process, in turns, {winner} took {microseconds(own_us)} and the heuristics' first pick "
        f"{first} {microseconds(record.first_pick_us.median_us)}, {factor(ratio.median)} as long "
        f"(95 % interval {ratio.low:.3f} to {ratio.high:.3f}, {ratio.samples} pairs)."
    )
    return Confirmed(record.winner, record.first_pick, outcome, ratio, sentence)
