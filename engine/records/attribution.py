"""Where the gain of a fused version comes from, step by step from torch eager, and what may honestly be said of it.

The steps are differences of measured times, so they add up. Only one split is an estimate: of what fusing itself saves,
the launches' share is the launches removed times what the smallest kernel takes in the same run; the rest is traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from engine.records.fusion import FusionRecord, PieceRecord, Version, VersionKind
from engine.records.intervals import intervals
from engine.records.verdict import SAME_SHARE, SAME_US
from engine.records.wording import factor, listing, microseconds

ALONE = 1.2
"""Times the fused graph's bytes: where the main pieces alone move more (an attention's products write and read all
scores), their time is no measure of the fused engine without traffic, and the two are not told apart."""


class Cause(StrEnum):
    """What a step changes. ``library``: cuDNN's kernels in place of torch's, operation by operation; ``launches``:
    fewer kernels; ``traffic``: bytes neither written nor read; ``engine``: the main kernel, which now does the epilogue
    too; ``tuning``: the fastest plan in place of the first pick."""

    LIBRARY = "cuDNN's kernels"
    LAUNCHES = "launches removed"
    TRAFFIC = "bytes not moved"
    ENGINE = "fused engine"
    TUNING = "better engine"


@dataclass(frozen=True)
class Step:
    """``before_us`` to ``after_us``, hot; a loss where that grows. ``detail``: the numbers behind the cause."""

    cause: Cause
    before_us: float
    after_us: float
    detail: str
    estimated: bool = False

    @property
    def saved_us(self) -> float:
        """Negative for a loss."""
        return self.before_us - self.after_us

    @property
    def factor(self) -> float:
        """How many times faster."""
        return self.before_us / self.after_us


def steps(record: FusionRecord) -> tuple[Step, ...]:
    """From torch eager to the tuned plan, as far as versions on the way were measured; they multiply to the whole."""
    eager, unfused, first, tuned = (record.version(kind) for kind in _PATH)
    found: list[Step] = []
    if (pair := _times(eager, unfused)) is not None:
        found.append(Step(Cause.LIBRARY, *pair, f"{_kernels(eager)} to {_kernels(unfused)}"))
    if (pair := _times(unfused, first)) is not None:
        found += _fusing(record, *pair)
    elif (pair := _times(eager, first)) is not None:
        found.append(Step(Cause.ENGINE, *pair, "the unfused version was not measured"))
    if (pair := _times(first, tuned)) is not None and first and tuned and first.plan != tuned.plan:
        names = [version.plan[1] for version in (first, tuned) if version.plan]
        found.append(Step(Cause.TUNING, *pair, " to ".join(names)))
    return tuple(found)


def _fusing(record: FusionRecord, before: float, after: float) -> list[Step]:
    """Fusing itself, by cause, where the pieces that do the main work were timed on their own."""
    unfused, first = record.version(VersionKind.UNFUSED), record.version(VersionKind.FIRST_PICK)
    assert unfused is not None and first is not None
    saved = (unfused.bytes_moved or 0) - (first.bytes_moved or 0)
    moved = f"{saved / 2**20:,.1f} MiB not written or read"
    main = main_us(record.pieces)
    own = sum(piece.bytes_moved for piece in record.pieces if piece.contracts)
    if main is None or main > before or own > ALONE * (first.bytes_moved or 0):
        return [Step(Cause.TRAFFIC, before, after, f"{moved}, and one kernel for all")]
    removed = None if unfused.kernels is None or first.kernels is None else unfused.kernels - first.kernels
    one = record.ceilings.launch_us.median_us if record.ceilings else None
    launches = min(before - main, max(0, removed) * one) if removed is not None and one is not None else 0.0
    made = []
    if launches and removed is not None:
        detail = f"{removed} fewer, {microseconds(launches / removed)} each"
        made.append(Step(Cause.LAUNCHES, before, before - launches, detail, estimated=True))
    made.append(Step(Cause.TRAFFIC, before - launches, main, moved, estimated=bool(launches)))
    made.append(Step(Cause.ENGINE, main, after, "the main kernel alone, to the fused one that does everything"))
    return [step for step in made if step.before_us != step.after_us]


def main_us(pieces: tuple[PieceRecord, ...]) -> float | None:
    """Hot time of the pieces that sum products, together; None where one of them was not timed, or none there is."""
    main = [piece.hot for piece in pieces if piece.contracts]
    return sum(hot.median_us for hot in main if hot) if main and all(main) else None


# -- In sentences


@dataclass(frozen=True)
class Comparison:
    """``ratio``: how many times faster than the other version; ``ties``: whether the two can be told apart."""

    other: Version
    ratio: float
    ties: bool


def best_fused(record: FusionRecord) -> Version | None:
    """The faster of cuDNN's fused versions."""
    fused = [record.version(kind) for kind in (VersionKind.TUNED, VersionKind.FIRST_PICK)]
    return min((v for v in fused if v is not None and v.timings), key=_hot, default=None)


def comparisons(record: FusionRecord) -> tuple[Comparison, ...]:
    """The best fused version against every other measured one, the hardest rival first."""
    best = best_fused(record)
    rivals = [v for v in record.versions if v.timings and v.kind not in (VersionKind.TUNED, VersionKind.FIRST_PICK)]
    if best is None or best.timings is None:
        return ()
    known = intervals({v.kind.value: v.timings.hot.values for v in (*rivals, best) if v.timings})
    own, found = known[best.kind.value], []
    for rival in rivals:
        its = known[rival.kind.value]
        near = abs(its.median - own.median) <= max(SAME_SHARE * min(its.median, own.median), SAME_US)
        found.append(Comparison(rival, its.median / own.median, near or own.overlaps(its)))
    return tuple(sorted(found, key=lambda one: one.ratio))


def sentences(record: FusionRecord) -> tuple[str, ...]:
    """What the comparison shows, a loss or a tie first; nothing where nothing was measured."""
    if not record.measured:
        return ()
    best, rivals = best_fused(record), comparisons(record)
    if best is None:
        why = record.fused_refusal.message if record.fused_refusal else _why(record)
        return (f"cuDNN runs no fused version of this graph here: {why}",)
    lost = [one for one in rivals if not one.ties and one.ratio < 1]
    tied = [one for one in rivals if one.ties]
    said = [f"{one.other.kind.words} is {factor(1 / one.ratio)} faster than cuDNN's fused graph." for one in lost]
    if tied:
        names = listing([one.other.kind.words for one in tied])
        said.append(f"Fused by cuDNN it is no faster than {names}: the times cannot be told apart.")
    eager = next((one for one in rivals if one.other.kind is VersionKind.EAGER), None)
    if eager is not None and not eager.ties and eager.ratio > 1:
        shares = _shares(record, _hot(eager.other), _hot(best))
        said.append(f"{best.kind.words} is {factor(eager.ratio)} faster than {eager.other.kind.words}{shares}.")
    hardest = next((one for one in rivals if not one.ties and one.other.kind is not VersionKind.EAGER), None)
    if hardest is not None and hardest.ratio > 1 and not lost and not tied:
        said.append(f"Its hardest rival is {hardest.other.kind.words}: fused is {factor(hardest.ratio)} faster.")
    if best.kernels is not None and best.kernels > 1:
        said.append(f"The fused graph is not one kernel here: {best.kernels} were counted.")
    said += [f"{version.kind.words}: {version.message}" for version in record.versions if version.timings is None]
    return tuple(said)


def _shares(record: FusionRecord, eager_us: float, best_us: float) -> str:
    """Which steps make the whole, where they lead from one to the other; those that lose are said too."""
    words = {
        Cause.LIBRARY: "cuDNN's kernels for the same operations",
        Cause.LAUNCHES: "launches removed",
        Cause.TRAFFIC: "traffic",
        Cause.ENGINE: "the fused engine",
        Cause.TUNING: "tuning",
    }
    found = list(steps(record))
    while found and found[-1].after_us != best_us:
        found.pop()
    whole = found and found[0].before_us == eager_us and all(a.after_us == b.before_us for a, b in pairwise(found))
    if len(found) < 2 or not whole:
        return ""
    parts = [f"{factor(s.factor)} from {words[s.cause]}{' (a loss)' if s.factor < 1 else ''}" for s in found]
    return ": " + ", ".join(parts)


_PATH = (VersionKind.EAGER, VersionKind.UNFUSED, VersionKind.FIRST_PICK, VersionKind.TUNED)


def _times(before: Version | None, after: Version | None) -> tuple[float, float] | None:
    if before is None or after is None or before.timings is None or after.timings is None:
        return None
    return before.timings.hot.median_us, after.timings.hot.median_us


def _hot(version: Version) -> float:
    return version.timings.hot.median_us if version.timings else float("inf")


def _kernels(version: Version | None) -> str:
    count = version.kernels if version else None
    return "unknown" if count is None else f"{count} kernel{'' if count == 1 else 's'}"


def _why(record: FusionRecord) -> str:
    told = [v.message for v in record.versions if v.kind in (VersionKind.TUNED, VersionKind.FIRST_PICK) and v.message]
    return told[0] if told else "none was measured."
