"""The loop of rounds on a scripted GPU: what is enqueued when, what is read, who hangs."""

from __future__ import annotations

import pytest

from engine.measure.rounds import Rounds
from engine.measure.sampling import Hung, Sampler
from engine.measure.screening import Rule
from engine.records.gpu_state import GpuState


class Stream:
    """A GPU that works off replays in order, on a clock that waiting puts forward. ``stuck``: a plan, and from which of
    its replays on it never ends."""

    def __init__(self, seconds, stuck=(None, 0)):
        self.now, self.free_at, self.seconds, self.stuck = 0.0, 0.0, seconds, stuck
        self.log, self.count = [], dict.fromkeys(seconds, 0)

    def enqueue(self, key):
        self.count[key] += 1
        self.free_at = max(self.free_at, self.now) + self.seconds[key]
        if key == self.stuck[0] and self.count[key] > self.stuck[1]:
            self.free_at = float("inf")
        self.log.append(("enqueue", key))
        return key, self.free_at

    def is_done(self, ticket):
        return ticket[1] <= self.now

    def microseconds(self, ticket):
        self.log.append(("read", ticket[0]))
        return self.seconds[ticket[0]] * 1e6

    def expected_s(self, key):
        return self.seconds[key]

    def sleep(self, seconds):
        self.now += seconds

    @property
    def idle(self):
        return self.free_at <= self.now


def sampler(stream, rounds, told, observe=lambda: GpuState(sm_clock_mhz=1980), **options):
    chosen = {"rated_mhz": 1980, "clock": lambda: stream.now, "sleep": stream.sleep, **options}
    return Sampler(rounds, stream, observe, told.extend, **chosen)


def test_the_gpu_never_waits_between_rounds_and_is_read_while_it_works():
    stream, told, idle = Stream({"a": 4e-4, "b": 5e-4}), [], []
    rounds = Rounds(["a", "b"], Rule(least=30, margin=9), 0)

    def observe():
        idle.append(stream.idle)
        return GpuState(sm_clock_mhz=1980)

    sampler(stream, rounds, told, observe).run()
    assert not any(idle) and len(idle) == len(told) == 30
    assert stream.count == {"a": 31, "b": 31}  # one to warm up
    assert [len(one.samples) for one in told] == [2] * 30
    assert {value for one in told for _, value, _ in one.samples} == {400.0, 500.0}
    assert rounds.stopped == {"a": "precise", "b": "precise"}


def test_rounds_are_told_of_while_they_go_on():
    stream, pieces = Stream({"a": 0.01}), []
    Sampler(
        Rounds(["a"], Rule(least=100), 0),
        stream,
        lambda: None,
        lambda told: pieces.append(len(told)),
        clock=lambda: stream.now,
        sleep=stream.sleep,
    ).run()
    assert sum(pieces) == 100 and len(pieces) >= 9


def test_a_plan_that_hangs_is_named_and_what_came_before_is_told():
    stream, told = Stream({"a": 1e-3, "b": 1e-3, "c": 1e-3}, stuck=("b", 5)), []
    with pytest.raises(Hung) as hung:
        sampler(stream, Rounds(list("abc"), Rule(least=50, margin=9), 0), told).run()
    assert hung.value.key == "b" and "never ended" in str(hung.value)
    kept = [key for one in told for key, _, _ in one.samples]
    assert kept.count("a") == kept.count("b") == kept.count("c") == 4
    assert stream.now < 15


def test_a_plan_that_hangs_at_its_first_replay_is_named_too():
    stream = Stream({"a": 1e-3, "b": 1e-3}, stuck=("a", 0))
    with pytest.raises(Hung) as hung:
        sampler(stream, Rounds(list("ab"), Rule(), 3), []).run()
    assert hung.value.key == "a"


def test_a_slow_plan_is_given_time():
    stream, told = Stream({"a": 60.0}), []
    sampler(stream, Rounds(["a"], Rule(least=3, budget_s=1e6), 0), told, sleep=lambda _: stream.sleep(1.0)).run()
    assert len(told) == 3


def test_announced_plans_run_one_by_one():
    stream, said = Stream({"a": 1e-3, "b": 1e-3}), []

    def announce(key):
        assert stream.idle
        said.append(key)

    sampler(stream, Rounds(list("ab"), Rule(least=10, margin=9), 0), [], announce=announce).run()
    assert said.count("a") == said.count("b") == 11


@pytest.mark.parametrize(("mhz", "kept"), [(1980, True), (1490, True), (1480, False), (None, True)])
def test_samples_below_three_quarters_of_the_rated_clock_are_set_aside(mhz, kept):
    told = []
    stream, rounds = Stream({"a": 1e-3}), Rounds(["a"], Rule(least=5), 0)
    clocks = iter([mhz] * 3 + [1980] * 100)
    sampler(stream, rounds, told, lambda: GpuState(sm_clock_mhz=next(clocks))).run()
    assert [is_kept for one in told[:3] for _, _, is_kept in one.samples] == [kept] * 3
    assert rounds.tallies["a"].set_aside == (0 if kept else 3) and rounds.tallies["a"].count == 5


def test_the_gpu_rests_after_a_round_that_is_set_aside():
    """At its power limit a GPU that goes on keeps its low clock, and one that rests gets it back."""
    stream, told = Stream({"a": 1e-3}), []
    heat = {"load": 30.0}  # the clock is low above 10, every replay heats, resting cools

    def sleep(seconds):
        stream.sleep(seconds)
        if seconds > 0.01:
            heat["load"] = max(0.0, heat["load"] - 15.0)

    def observe():
        heat["load"] += 1.0
        return GpuState(sm_clock_mhz=1980 if heat["load"] < 10 else 1400)

    rounds = Rounds(["a"], Rule(least=50, budget_s=60), 0)
    sampler(stream, rounds, told, observe, sleep=sleep).run()
    assert rounds.tallies["a"].count == 50 and 0 < rounds.tallies["a"].set_aside < 25
    assert not rounds.slow_clock


def test_what_a_source_raises_passes_after_the_rounds_are_told():
    stream, told = Stream({"a": 0.01}), []

    def read(ticket):
        if len(told) + stream.log.count(("read", "a")) > 20:
            raise RuntimeError("an illegal memory access")
        return Stream.microseconds(stream, ticket)

    stream.microseconds = read
    with pytest.raises(RuntimeError, match="illegal"):
        sampler(stream, Rounds(["a"], Rule(least=100), 0), told).run()
    assert told
