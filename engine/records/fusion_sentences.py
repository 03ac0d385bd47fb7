"""What may honestly be said of a comparison: losses and ties first, then the gain with its causes, then what stands
against it in the same record."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from engine.records.arithmetic import seen_arithmetic
from engine.records.attribution import Cause, steps
from engine.records.fusion import FusionRecord, Version, VersionKind
from engine.records.intervals import intervals
from engine.records.timings import Regime
from engine.records.verdict import SAME_SHARE, SAME_US
from engine.records.wording import factor, listing, microseconds

FUSED = (VersionKind.TUNED, VersionKind.FIRST_PICK)
WORDS = {
    Cause.LIBRARY: "cuDNN's kernels for the same operations",
    Cause.LAUNCHES: "launches removed",
    Cause.TRAFFIC: "bytes not moved",
    Cause.KERNELS: "the removed kernels' own time",
    Cause.ENGINE: "the main kernel, which does everything now",
    Cause.TUNING: "tuning",
}


ONE = "The graph is one operation, so there is nothing to fuse: what is called fused is cuDNN's own kernel for it."


@dataclass(frozen=True)
class Comparison:
    """``ratio``: how many times faster than the other version; ``ties``: whether the two can be told apart;
    ``near``: whether their medians are within 1 % of each other, or 0.1 µs."""

    other: Version
    ratio: float
    ties: bool
    near: bool


def best_fused(record: FusionRecord) -> Version | None:
    """The faster of cuDNN's fused versions."""
    fused = [record.version(kind) for kind in FUSED]
    return min((v for v in fused if v is not None and v.timings), key=_hot, default=None)


def comparisons(record: FusionRecord, regime: Regime = Regime.HOT) -> tuple[Comparison, ...]:
    """The best fused version against every other measured one, the hardest rival first."""
    best = best_fused(record)
    same = (*FUSED, VersionKind.UNFUSED) if record.single else FUSED  # One piece is the whole graph.
    rivals = [v for v in record.versions if v.timings and v.kind not in same]
    if best is None or best.timings is None:
        return ()
    samples = {v.kind.value: v.timings.of(regime) for v in (*rivals, best) if v.timings}
    known = intervals({key: found.values for key, found in samples.items() if found is not None})
    if best.kind.value not in known:
        return ()
    own, found = known[best.kind.value], []
    for rival in rivals:
        if (its := known.get(rival.kind.value)) is not None:
            near = abs(its.median - own.median) <= max(SAME_SHARE * min(its.median, own.median), SAME_US)
            found.append(Comparison(rival, its.median / own.median, near or own.overlaps(its), near))
    return tuple(sorted(found, key=lambda one: one.ratio))


def sentences(record: FusionRecord) -> tuple[str, ...]:
    """What the comparison shows, a loss or a tie first; where nothing runs, why; nothing of what was only planned."""
    failed = [f"{version.kind.words}: {version.message}" for version in record.versions if version.timings is None]
    if not record.measured:
        none = "No version of this graph ran to a right result here: there is nothing to compare."
        return (none, *failed) if failed else ()
    best, rivals = best_fused(record), comparisons(record)
    if best is None:
        why = f": {record.fused_refusal.message}" if record.fused_refusal else "."
        return (f"cuDNN runs no fused version of this graph here{why}", *failed)
    said = [*([ONE] if record.single else _already(best, rivals)), *_lost_and_tied(rivals), *_unlike(record, best)]
    open_ = [one for one in rivals if not one.ties]
    eager = next((one for one in open_ if one.other.kind is VersionKind.EAGER), None)
    if eager is not None and eager.ratio > 1:
        said.append(f"{best.kind.words} is {factor(eager.ratio)} faster than {eager.other.kind.words}.")
        said += _shares(record, _hot(eager.other), _hot(best))
    hardest = next((one for one in open_ if one.other.kind is not VersionKind.EAGER), None)
    if hardest is not None and hardest.ratio > 1 and len(open_) == len(rivals):
        said.append(f"Its hardest rival is {hardest.other.kind.words}: fused is {factor(hardest.ratio)} faster.")
    said += _against(record, best)
    return (*said, *failed)


def _already(best: Version, rivals: tuple[Comparison, ...]) -> list[str]:
    """That torch, as one writes it, is fused already, where the profiler counted one kernel."""
    plain = next((one for one in rivals if one.other.kind is VersionKind.IDIOMATIC), None)
    if plain is None or plain.other.kernels != 1:
        return []
    if plain.ties:
        how = "cuDNN's is not faster"
    elif plain.ratio < 1:
        how = f"cuDNN's is slower, {factor(1 / plain.ratio)}"
    else:
        how = f"cuDNN's is {factor(plain.ratio)} faster"
    times = f"{microseconds(_hot(best))} against {microseconds(_hot(plain.other))}"
    return [f"Torch, as one writes it, already calls one fused kernel here; {how}: {times}."]


def _lost_and_tied(rivals: tuple[Comparison, ...]) -> list[str]:
    lost = [one for one in rivals if not one.ties and one.ratio < 1]
    said = [f"{one.other.kind.words} is {factor(1 / one.ratio)} faster than cuDNN's fused graph." for one in lost]
    if tied := [one for one in rivals if one.ties]:
        names = listing([f"“{one.other.kind.words}”" for one in tied])
        alike = all(one.near for one in tied)
        how = "the times are within 1 % or 0.1 µs" if alike else "the times cannot be told apart"
        said.append(f"Fused by cuDNN it is no faster than {names}: {how}.")
    return said


def _unlike(record: FusionRecord, best: Version) -> list[str]:
    """Versions of an fp32 graph that multiply in something else than the fused one, by their errors: no small part of
    the difference in speed."""
    mine = seen_arithmetic(record.graph.io_dtype, best.accuracy)
    timed = [(v, seen_arithmetic(record.graph.io_dtype, v.accuracy)) for v in record.versions if v.timings]
    others = [(v, found) for v, found in timed if found is not None and found is not mine]
    if mine is None or not others:
        return []
    names = listing([f"“{version.kind.words}”" for version, _ in others])
    return [
        f"Not all of the difference is fusing: “{best.kind.words}” multiplies fp32 in {mine.word} (TF32 keeps 10 bits "
        f"of mantissa), {names} in {others[0][1].word}."
    ]


def _against(record: FusionRecord, best: Version) -> list[str]:
    """What the same record holds against the gain."""
    said = []
    beaten = {one.other.kind for one in comparisons(record) if not one.ties and one.ratio > 1}
    cold = [one for one in comparisons(record, Regime.COLD) if one.other.kind in beaten]
    for words, found in (
        ("slower", [one for one in cold if not one.ties and one.ratio < 1]),
        ("no faster", [one for one in cold if one.ties]),
    ):
        if found:
            names = listing([f"“{one.other.kind.words}”" for one in found])
            said.append(f"That is with a warm L2: with a cold one it is {words} than {names}.")
    eager, idiomatic = record.version(VersionKind.EAGER), record.version(VersionKind.IDIOMATIC)
    if eager and idiomatic and eager.timings and _hot(eager) * (1 + SAME_SHARE) < _hot(idiomatic) < float("inf"):
        times = f"{microseconds(_hot(idiomatic))} against {microseconds(_hot(eager))}"
        said.append(f"Torch, as one writes it, is slower here than operation by operation: {times}.")
    said += _tuning(record)
    if best.kernels is not None and best.kernels > 1:
        said.append(f"The fused graph is not one kernel here: {best.kernels} were counted.")
    return said


def _tuning(record: FusionRecord) -> list[str]:
    """Where tuning lost, or gained with a warm L2 and not with a cold one."""
    tuned, first = record.timed(VersionKind.TUNED), record.timed(VersionKind.FIRST_PICK)
    if tuned is None or first is None:
        return []
    if tuned.hot.median_us > first.hot.median_us * (1 + SAME_SHARE):
        times = f"{microseconds(tuned.hot.median_us)} against {microseconds(first.hot.median_us)}"
        plan = "the plan that was fastest when it was chosen is slower here than the first pick"
        return [f"Tuning did not pay: {plan}, {times}."]
    if tuned.hot.median_us * (1 + SAME_SHARE) >= first.hot.median_us or tuned.cold is None or first.cold is None:
        return []
    known = intervals({"tuned": tuned.cold.values, "first": first.cold.values})
    if known["tuned"].high < known["first"].low:
        return []
    lost = known["tuned"].low > known["first"].high
    times = f"{microseconds(tuned.cold.median_us)} against {microseconds(first.cold.median_us)}"
    return [
        f"What tuning gained is gone with a cold L2: the tuned plan is {'slower' if lost else 'no faster'} there than "
        f"the first pick, {times}."
    ]


def _shares(record: FusionRecord, eager_us: float, best_us: float) -> list[str]:
    """Which steps make the whole, where they lead from one to the other; those that lose are said too, those that
    change nothing are not."""
    found = list(steps(record))
    while found and found[-1].after_us != best_us:
        found.pop()
    whole = found and found[0].before_us == eager_us and all(a.after_us == b.before_us for a, b in pairwise(found))
    if len(found) < 2 or not whole:
        return []
    said = [step for step in found if factor(step.factor) != factor(1.0)]
    parts = [
        f"{'about ' if s.estimate else ''}{factor(s.factor)} from {WORDS[s.cause]}{' (a loss)' if s.factor < 1 else ''}"
        for s in said
    ]
    how = dict.fromkeys(s.estimate for s in said if s.estimate)
    estimate = f" What says “about” is an estimate from the same run: {'; '.join(how)}." if how else ""
    return [f"By cause: {', '.join(parts)}.{estimate}"]


def _hot(version: Version) -> float:
    return version.timings.hot.median_us if version.timings else float("inf")
