"""Planning a graph with a pool of builders: list, build everything, and load each plan again in a process that did not
build it.

The command line and the job manager both come through here.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.graph.spec import GraphSpec
from engine.jobs.endings import built, failure
from engine.jobs.inspection import inspect_machine
from engine.jobs.pool import BuilderPool
from engine.jobs.replies import End, Reply
from engine.jobs.unlisted import Beyond, Unlisted
from engine.machine.gpus import list_gpus
from engine.plans.candidates import MODES, ModeListing, merge_listings
from engine.plans.targets import Target
from engine.plans.variants import Variant, with_remedies
from engine.records.environment import Environment
from engine.records.plan import PlanRecord, Stage, Status
from engine.records.run import Refusal

_REMEDIES = 3
_NO_REMEDY = "The System page and `python -m engine env` show what this machine has."
Sink = Callable[[PlanRecord, int, int], None]
"""Gets every record as it comes, in the calling thread: first all candidates as LISTED, then each one's end; with how
many have ended so far, and how many there are."""


class CannotPlan(RuntimeError):
    """Planning is not possible on this machine for this target (no cuDNN, no driver library); ``remedy`` says what
    mends it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message, self.remedy = message, remedy


@dataclass(frozen=True)
class PlanOutcome:
    """What planning gave. ``refusal`` where no mode has a plan. ``environment`` is None only where ``cancelled`` came
    first. ``remarks``: what a person should know beside (a mode whose listing crashed, a device property that was
    assumed)."""

    environment: Environment | None
    plans: tuple[PlanRecord, ...]
    refusal: Refusal | None
    cancelled: bool
    remarks: tuple[str, ...]


def plan_graph(
    spec: GraphSpec,
    target: Target,
    modes: Sequence[str] = MODES,
    *,
    pool: BuilderPool,
    blob_dir: Path,
    build: bool = True,
    reload: bool = True,
    variants: Sequence[Variant] = (),
    sink: Sink | None = None,
    cancel: threading.Event | None = None,
    environment: Environment | None = None,
    beyond: Beyond | None = None,
) -> PlanOutcome:
    """List the candidates of ``modes`` and, with ``build``, build them all into ``blob_dir`` (files named by their
    SHA-256).

    Where the graph is refused, ``variants`` of it are tried, and the refusal says which of them cuDNN takes. With
    ``reload`` each is then loaded in another process than the one that built it. Every candidate ends in a record,
    whatever happens to its builder; after ``cancel`` those not ended are CANCELLED. ``environment``: the builders',
    where it was asked for before. ``beyond``: what to ask for besides what the modes list; a plan found so makes up for
    a refusal. Raises CannotPlan.
    """
    stop = cancel or threading.Event()
    environment = environment or builder_environment(pool, target, stop)
    if environment is None:
        return PlanOutcome(None, (), None, True, ())
    planning = _Planning(spec, target, pool, sink or _ignore, stop)
    unlisted = Unlisted(beyond or Beyond(), pool, planning.common, target.is_local, stop)
    refusal = planning.list_candidates(modes)
    planning.add(unlisted.asked_for(planning.by_key))
    if refusal is not None and any(plan.status is Status.LISTED for plan in planning.records):
        planning.remarks.append(f"No heuristics mode lists a plan: {refusal.message}")
        refusal = None
    if refusal is not None:
        refusal = with_remedies(refusal, planning.accepted(variants, modes))
    while True:
        if build:
            planning.build(str(blob_dir.resolve()), reload)
        if refusal is not None or not (further := unlisted.next_choices(planning.by_key)):
            break
        planning.add(further)
    remarks = (*planning.remarks, *unlisted.remarks)
    return PlanOutcome(environment, planning.records, refusal, stop.is_set(), remarks)


def builder_environment(pool: BuilderPool, target: Target, cancel: threading.Event | None = None) -> Environment | None:
    """Versions of what plans are built with, and the GPU where the target is one of this machine; None when cancelled
    first.

    Raises CannotPlan.
    """
    reply = pool.submit("environment", {}, cancel=cancel).result()
    if reply.end is End.CANCELLED:
        return None
    if reply.end is not End.DONE:
        raise _cannot_plan(reply)
    gpus = list_gpus() if target.is_local else ()
    gpu = next((gpu for gpu in gpus if gpu.uuid == target.gpu_uuid), None)
    names = ("cudnn_backend", "cudnn_frontend", "cuda", "python", "host", "os")
    return Environment(gpu=gpu, **{name: reply.content[name] for name in names})


class _Planning:
    """One call of ``plan_graph``."""

    def __init__(self, spec: GraphSpec, target: Target, pool: BuilderPool, sink: Sink, cancel: threading.Event) -> None:
        self.common = {"spec": spec.model_dump_json(), "target": target.model_dump_json()}
        self._pool, self._sink, self._cancel = pool, sink, cancel
        self._records: dict[str, PlanRecord] = {}
        self._done = 0
        self._replies: queue.Queue[tuple[str, Stage, Reply]] = queue.Queue()
        self.remarks: list[str] = []

    @property
    def by_key(self) -> Mapping[str, PlanRecord]:
        """All candidates as they stand."""
        return self._records

    @property
    def records(self) -> tuple[PlanRecord, ...]:
        """All candidates as they stand, in the order of the heuristics."""
        return tuple(self._records.values())

    def list_candidates(self, modes: Sequence[str]) -> Refusal | None:
        """Ask every mode, each in a task of its own: a crash over one mode costs that one."""
        tasks = {mode: self._pool.submit("list", {**self.common, "mode": mode}, cancel=self._cancel) for mode in modes}
        listings: list[ModeListing] = []
        lost: list[Reply] = []
        for mode, task in tasks.items():
            reply = task.result()
            if reply.end is End.DONE:
                plans = tuple(PlanRecord.model_validate_json(event["record"]) for event in reply.events)
                listings.append(ModeListing(mode, plans, reply.content["refused"]))
                self.remarks += [told for told in reply.content["assumptions"] if told not in self.remarks]
            elif reply.end is not End.CANCELLED:
                lost.append(reply)
                self.remarks.append(f"Heuristics mode {mode} gave no answer: {reply.message}")
        if self._cancel.is_set():
            return None
        merged, refusal = merge_listings(listings)
        if lost and not merged:
            return self._blame(lost, refusal if listings else None)
        self.add(merged)
        return refusal

    def add(self, records: Sequence[PlanRecord]) -> None:
        """More candidates; those that have come to an end with being asked for count as done."""
        self._records.update({record.key: record for record in records})
        for record in records:
            self._done += record.status is not Status.LISTED
            self._sink(record, self._done, len(self._records))

    def _blame(self, lost: list[Reply], refused: Refusal | None) -> Refusal:
        """No plan, and modes that gave no answer: the machine's fault (raises CannotPlan), or, where its libraries are
        in order, the graph's, over which cuDNN ended its own process."""
        error = _cannot_plan(lost[0])
        if error.remedy != _NO_REMEDY or any(reply.end is End.FAILED for reply in lost):
            raise error
        message = f"cuDNN could not be asked about this graph: {lost[0].message}"
        return Refusal(message=message, reasons=(*self.remarks, *(refused.reasons if refused else ())))

    def accepted(self, variants: Sequence[Variant], modes: Sequence[str]) -> list[Variant]:
        """The first few of ``variants`` that have a plan: in the mode that is asked first or, where none has, in the
        last."""
        for mode in dict.fromkeys((modes[0], modes[-1])):
            tasks = [
                self._pool.submit(
                    "list", {**self.common, "spec": variant.spec.model_dump_json(), "mode": mode}, cancel=self._cancel
                )
                for variant in variants
            ]
            replies = [task.result() for task in tasks]
            found = [variant for variant, reply in zip(variants, replies, strict=True) if reply.events]
            if found:
                return found[:_REMEDIES]
        return []

    def build(self, blob_dir: str, reload: bool) -> None:
        """Build all that is only listed yet, what is compiled first: the slowest should not be the last to begin. A
        plan that is built is loaded while others still build."""
        waiting = [item for item in self._records.items() if item[1].status is Status.LISTED]
        for key, record in sorted(waiting, key=lambda item: not item[1].is_compiled):
            content = {
                "identity": record.identity.model_dump_json(),
                "plan_name": record.plan_name,
                "modes": list(record.modes),
                "blob_dir": blob_dir,
            }
            self._submit(key, Stage.BUILD, "build", content)
        while self._done < len(self._records):
            key, stage, reply = self._replies.get()
            if reply.end is not End.DONE:
                self._end(key, failure(reply, stage))
            elif stage is Stage.LOAD:
                self._end(key, {"status": Status.OK, "stage": stage, "deserialize_ms": reply.content["deserialize_ms"]})
            else:
                told = built(reply)
                self._records[key] = _changed(self._records[key], told)
                if reload:
                    content = {"blob_dir": blob_dir, "sha256": told["blob_sha256"]}
                    self._submit(key, Stage.LOAD, "load", content)
                else:
                    self._end(key, {"status": Status.OK, "stage": stage})

    def _submit(self, key: str, stage: Stage, op: str, content: dict[str, Any]) -> None:
        task = self._pool.submit(op, {**self.common, **content}, cancel=self._cancel)
        task.add_done_callback(lambda future: self._replies.put((key, stage, future.result())))

    def _end(self, key: str, changes: dict[str, Any]) -> None:
        self._records[key] = _changed(self._records[key], changes)
        self._done += 1
        self._sink(self._records[key], self._done, len(self._records))


def _changed(record: PlanRecord, changes: dict[str, Any]) -> PlanRecord:
    """A validated copy."""
    return PlanRecord(**{**dict(record), **changes})


def _cannot_plan(reply: Reply) -> CannotPlan:
    """With what is wrong with this machine's libraries: a missing one ends or disables every builder."""
    problems = inspect_machine().problems
    remedy = " ".join(f"{library.name}: {library.problem}. Run: {library.remedy}." for library in problems)
    return CannotPlan(reply.message, remedy or _NO_REMEDY)


def _ignore(record: PlanRecord, done: int, total: int) -> None:
    """The sink of a caller that waits for the outcome."""
