"""Where the gain of a fused version comes from, step by step from torch eager.

The steps are differences of measured times, so they add up. What fusing itself saves is split by estimate, from numbers
of the same run: launches removed times what the smallest kernel takes; bytes not moved over the fastest rate seen,
of no piece more than the time it ran, for what a cache holds moves faster; and what is left, which the separate
kernels took for themselves. No part takes more than there was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from engine.records.fusion import FusionRecord, PieceRecord, Version, VersionKind
from engine.records.rates import fastest_gbps
from engine.records.wording import count_bytes, microseconds

ALONE = 1.2
"""Times the fused graph's bytes: where the main pieces alone move more (an attention's products write and read all
scores), their time is no measure of the fused engine without traffic, and the two are not told apart."""


class Cause(StrEnum):
    """What a step changes. ``library``: cuDNN's kernels in place of torch's, operation by operation; ``launches``:
    fewer kernels; ``traffic``: bytes neither written nor read; ``kernels``: what the kernels that went took beyond
    both, each with a beginning and an end, few bytes at a time, or less than full rate; ``engine``: the main kernel,
    which now does the epilogue too; ``tuning``: the fastest plan in place of the first pick."""

    LIBRARY = "cuDNN's kernels"
    LAUNCHES = "launches removed"
    TRAFFIC = "bytes not moved"
    KERNELS = "kernels' own time"
    ENGINE = "fused engine"
    TUNING = "tuning"


_LAUNCHES = "a launch counts what the smallest kernel takes"
_TRAFFIC = "bytes count what the fastest rate seen takes for them, but no piece more than it ran"
_KERNELS = "the removed kernels' own time is the rest"
_MAIN = "the main kernel before fusing is its share of the unfused time, by the pieces timed alone"


@dataclass(frozen=True)
class Step:
    """``before_us`` to ``after_us``, hot; a loss where that grows. ``detail``: the numbers behind the cause.
    ``estimate``: how a time came about where one of the two was not measured, as the main kernel's own before fusing
    is not; empty where both were.
    ``factor``: how many times faster; the factors of all steps multiply to the whole. Of one measured difference that
    is split by estimate each part has its share of the logarithm, so that no part's factor depends on their order."""

    cause: Cause
    before_us: float
    after_us: float
    detail: str
    factor: float
    estimate: str = ""

    @property
    def saved_us(self) -> float:
        """Negative for a loss."""
        return self.before_us - self.after_us


def steps(record: FusionRecord) -> tuple[Step, ...]:
    """From torch eager to the tuned plan, as far as versions on the way were measured; they multiply to the whole."""
    eager, unfused, first, tuned = (record.version(kind) for kind in _PATH)
    if first is None or first.timings is None:  # The first pick may give a wrong result, or not run.
        first = tuned
    found: list[Step] = []
    if record.single:  # Nothing is fused: the unfused version is the same graph again.
        unfused = first
    if (pair := _times(eager, unfused)) is not None:
        found.append(_step(Cause.LIBRARY, *pair, f"{_kernels(eager)} to {_kernels(unfused)}"))
    if (pair := _times(unfused, first)) is not None and not record.single:
        found += _fusing(record, first, *pair)
    elif (pair := _times(eager, first)) is not None and not record.single:
        found.append(_step(Cause.ENGINE, *pair, "the unfused version was not measured"))
    if (pair := _times(first, tuned)) is not None and first and tuned and first.plan != tuned.plan:
        names = [version.plan[1] for version in (first, tuned) if version.plan]
        found.append(_step(Cause.TUNING, *pair, " to ".join(names)))
    return tuple(found)


def main_share(pieces: tuple[PieceRecord, ...]) -> float | None:
    """Of the unfused time, what the pieces take that sum products; None where a piece was not timed alone, or none
    sums. Pieces are timed alone at clocks of their own, so their share is taken, not their time."""
    hot = [(piece.contracts, piece.hot.median_us) for piece in pieces if piece.hot is not None]
    main = sum(us for contracts, us in hot if contracts)
    return main / sum(us for _, us in hot) if main and len(hot) == len(pieces) else None


def _fusing(record: FusionRecord, first: Version | None, before: float, after: float) -> list[Step]:
    """Fusing itself, by cause: to the main pieces' own time as far as that is known, and from it to the fused
    version's."""
    unfused = record.version(VersionKind.UNFUSED)
    assert unfused is not None and first is not None
    share = main_share(record.pieces)
    own = sum(piece.bytes_moved for piece in record.pieces if piece.contracts)
    apart = share is not None and own <= ALONE * (first.bytes_moved or 0)
    between = before * share if apart and share is not None else min(before, after)
    made = _parts(record, unfused, first, before, between, apart)
    if between != after:
        how = "the main kernel's share of the unfused time, to the fused kernel that does everything"
        made.append(_step(Cause.ENGINE, between, after, how if apart else "not faster", _MAIN if apart else ""))
    return made


def _parts(
    record: FusionRecord, unfused: Version, first: Version, before: float, after: float, apart: bool
) -> list[Step]:
    """What the pieces beside the main ones took, split by estimate."""
    saved = max(0, (unfused.bytes_moved or 0) - (first.bytes_moved or 0))
    removed = None if unfused.kernels is None or first.kernels is None else max(0, unfused.kernels - first.kernels)
    one, rate = record.ceilings.launch_us.median_us if record.ceilings else None, fastest_gbps(record)
    gone = before - after
    if not gone:
        return []
    moved = f"{count_bytes(saved)} not written or read"
    if one is None or rate is None or removed is None:
        detail = f"{moved}, and {removed or 'some'} kernels fewer: not told apart"
        return [_step(Cause.TRAFFIC, before, after, detail, _MAIN if apart else "")]
    launches = min(gone, removed * one)
    traffic = min(gone - launches, saved / rate.gbps * 1e-3, _moving(record, unfused, first, one, rate.gbps, apart))
    rest = "the kernels that went, beyond launching and moving"
    if not apart:
        rest += "; what the fused engine costs or gains is in it"
    parts = [
        (Cause.LAUNCHES, launches, f"{removed} fewer, {microseconds(one)} each", _LAUNCHES),
        (
            Cause.TRAFFIC,
            traffic,
            f"{moved}, at {rate.gbps:,.0f} GB/s ({rate.by}) or as fast as its piece ran",
            _TRAFFIC,
        ),
        (Cause.KERNELS, gone - launches - traffic, rest, _KERNELS),
    ]
    made, at = [], before
    for cause, us, detail, estimate in parts:
        if us > 1e-9 * before:
            made.append(Step(cause, at, at - us, detail, (before / after) ** (us / gone), estimate))
            at -= us
    made[-1] = replace(made[-1], after_us=after)  # To the last bit.
    return made


def _moving(record: FusionRecord, unfused: Version, first: Version, one: float, gbps: float, apart: bool) -> float:
    """Microseconds that the pieces which went can have spent on what each reads and writes: at the fastest rate, and
    never longer than they ran beyond their launches. The main pieces stay where they are told apart; else what they
    move more than the fused graph counts too. No limit where a piece was not timed alone."""
    assert unfused.timings is not None
    hot = [piece.hot.median_us for piece in record.pieces if piece.hot is not None]
    if not hot or len(hot) < len(record.pieces):
        return math.inf
    scale, limit = unfused.timings.hot.median_us / sum(hot), 0.0
    kept = first.bytes_moved or 0
    for piece, us in zip(record.pieces, hot, strict=True):
        moved = piece.bytes_moved
        if piece.contracts:
            stays = moved if apart else min(moved, kept)
            moved, kept = moved - stays, kept - min(kept, stays)
        limit += min(moved / gbps * 1e-3, max(0.0, us * scale - one))
    return limit


def _step(cause: Cause, before: float, after: float, detail: str, estimate: str = "") -> Step:
    return Step(cause, before, after, detail, before / after, estimate)


_PATH = (VersionKind.EAGER, VersionKind.UNFUSED, VersionKind.FIRST_PICK, VersionKind.TUNED)


def _times(before: Version | None, after: Version | None) -> tuple[float, float] | None:
    if before is None or after is None or before.timings is None or after.timings is None:
        return None
    return before.timings.hot.median_us, after.timings.hot.median_us


def _kernels(version: Version | None) -> str:
    count = version.kernels if version else None
    return "unknown" if count is None else f"{count} kernel{'' if count == 1 else 's'}"
