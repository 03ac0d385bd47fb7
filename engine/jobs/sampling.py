"""Hot samples of the survivors of a sweep: asks for rounds, keeps what has come when the process is lost, goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from pydantic import ValidationError

from engine.jobs.conversation import Content, Lost
from engine.jobs.field import Field
from engine.jobs.measuring import by_key
from engine.jobs.protocol import JobError
from engine.measure.rounds import Stopped, Tally
from engine.measure.screening import Rule
from engine.records.gpu_state import GpuState
from engine.records.samples import Samples
from engine.records.timings import Timings

OnProgress = Callable[[float], None]


@dataclass
class Sampled:
    """What one plan's rounds have given so far."""

    executions: int = 1
    values: list[float] = field(default_factory=list)
    states: list[GpuState] = field(default_factory=list)
    set_aside: int = 0
    stopped: Stopped | None = None

    def timings(self) -> Timings | None:
        """As a record has them; None without a sample."""
        if not self.values:
            return None
        return Timings(
            hot=Samples.of(self.values, executions=self.executions),
            gpu=self.states[len(self.states) // 2] if self.states else None,
            states=tuple(self.states),
            set_aside=self.set_aside,
            stopped=self.stopped,
        )


class HotSampling:
    """One contest. ``keep``: plans that are never dropped for being far from the best."""

    def __init__(self, field: Field, rule: Rule, seed: int, keep: Iterable[str], on_progress: OnProgress) -> None:
        self._field, self._rule, self._seed, self._keep = field, rule, seed, list(keep)
        self._on_progress = on_progress
        self.sampled = {key: Sampled() for key in field.keys}
        self._began = 0.0

    def run(self) -> None:
        """Until everybody has enough. Plans lost on the way are the field's to tell. Raises JobError."""
        self._began = time.monotonic()
        answer = self._field.ask("rounds", self._content, self._take)
        try:
            for key, why in by_key(answer.get("stopped", {})).items():
                if why not in get_args(Stopped):
                    raise Lost(f"sent a reason for stopping that is none: {str(why)[:80]}")
                if key in self.sampled:
                    self.sampled[key].stopped = why
        except Lost as error:
            raise JobError(f"the measuring process {error}") from None

    def _content(self, keys: tuple[str, ...], careful: bool) -> Mapping[str, Any]:
        known = {key: self.sampled[key] for key in keys}
        tallies = {key: Tally.of(s.values, s.set_aside) for key, s in known.items() if s.values or s.set_aside}
        return {
            "executions": {key: self._field.executions.get(key) for key in keys},
            "rule": asdict(self._rule),
            "seed": self._seed,
            "keep": self._keep,
            "before": {key: asdict(tally) for key, tally in tallies.items()},
            "spent_s": time.monotonic() - self._began,
            "careful": careful,
        }

    def _take(self, part: Content) -> None:
        """All of a part, or nothing of one that holds what no samples are. Raises Lost."""
        try:
            states = [
                None if state is None else GpuState.model_validate_json(json.dumps(state)) for state in part["states"]
            ]
            kept = {
                key: (Samples(data=one["data"], executions=one["executions"]), [states[n] for n in one["rounds"]])
                for key, one in by_key(part["kept"]).items()
            }
            aside = {key: int(count) for key, count in by_key(part["set_aside"]).items()}
            fraction = float(part["fraction"])
            if not kept.keys() | aside.keys() <= self.sampled.keys():
                raise ValueError("of a plan that nobody asked for")
            if any(samples.count != len(seen) for samples, seen in kept.values()):
                raise ValueError("not a round to each")
            if min(aside.values(), default=0) < 0 or not 0 <= fraction <= 1:
                raise ValueError("neither a count nor a share")
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, ValidationError) as error:
            raise Lost(f"sent samples that cannot be read: {error!r}") from None
        for key, (samples, seen) in kept.items():
            sampled = self.sampled[key]
            sampled.executions = self._field.executions[key] = samples.executions
            sampled.values.extend(samples.values.tolist())
            sampled.states.extend(state for state in seen if state is not None)
        for key, count in aside.items():
            self.sampled[key].set_aside += count
        self._on_progress(fraction)
