"""What lists of runs show: a few numbers of a run, derived when it is written so that nobody parses 500 runs to list
them. The best plan is the verdict's winner."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from pydantic import AwareDatetime, BaseModel

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.graph.pipelines.base import text_of
from engine.graph.spec import GraphSpec
from engine.graph.tensors import FROZEN, Role
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunKind, RunRecord, RunStatus
from engine.records.verdict import Verdict

ACTIVE = (RunStatus.QUEUED, RunStatus.RUNNING)
"""Of a run that has not ended."""


class Origin(StrEnum):
    """Where a run comes from: this store's own processes, an imported run file, or a recording shipped with the
    project."""

    OWN = "own"
    IMPORTED = "imported"
    RECORDING = "recording"


class RunSummary(BaseModel):
    """One line of a list of runs. Times are hot medians in microseconds; speedups are ratios of times, above 1 where
    the best plan is faster. ``best_*``: the winner of the hot verdict under the run's own constraints, None where no
    plan meets them; of a run under way the fastest so far. ``counts``: plans by status; ``timed``: how many are right
    and timed. ``shape`` is for people; ``reuse``: whether it is a study of reuse."""

    model_config = FROZEN

    id: str
    origin: Origin
    kind: RunKind
    status: RunStatus
    title: str
    pipeline: str
    parameters: dict[str, str]
    shape: str
    graph_id: str
    target: str
    gpu: str | None
    cudnn: str
    frontend: str
    torch: str | None
    started_at: AwareDatetime
    finished_at: AwareDatetime | None
    counts: dict[Status, int]
    timed: int = 0
    best_key: str | None = None
    best_name: str | None = None
    best_us: float | None = None
    first_pick_key: str | None = None
    first_pick_us: float | None = None
    torch_us: float | None = None
    reuse: bool = False

    @property
    def recorded(self) -> bool:
        """Whether this is a recording shipped with the project: measured on another machine, not to be changed here."""
        return self.origin is Origin.RECORDING

    @property
    def measured(self) -> bool:
        """Whether at least one right plan was timed."""
        return self.timed > 0 or self.best_us is not None  # Lists written before ``timed`` have a best plan then.

    @property
    def plans(self) -> int:
        """How many plans there are."""
        return sum(self.counts.values())

    @property
    def speedup_vs_first_pick(self) -> float | None:
        """Time of the heuristics' first pick over the best plan's."""
        return _ratio(self.first_pick_us, self.best_us)

    @property
    def speedup_vs_torch(self) -> float | None:
        """Time of torch eager over the best plan's."""
        return _ratio(self.torch_us, self.best_us)

    @property
    def label(self) -> str:
        """The title, or what and when, as RunRecord.label."""
        return self.title or f"{self.pipeline} {self.started_at:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True)
class PlanBrief:
    """What a summary needs of a plan. ``hot_us`` is None unless the plan is right and timed."""

    key: str
    plan_name: str
    status: Status
    modes: dict[str, int]
    hot_us: float | None


def brief(plan: PlanRecord) -> PlanBrief:
    """A plan in brief."""
    timed = plan.timings is not None and plan.status is Status.OK
    hot_us = plan.timings.hot.median_us if plan.timings is not None and timed else None
    return PlanBrief(plan.key, plan.plan_name, plan.status, plan.modes, hot_us)


def brief_of_row(key: str, plan_name: str, status: str, modes: str, hot_us: float | None) -> PlanBrief:
    """A plan in brief, from its columns in the store."""
    return PlanBrief(key, plan_name, Status(status), json.loads(modes), hot_us)


def summarize(head: RunRecord, plans: Iterable[PlanBrief], origin: Origin, judged: Verdict | None = None) -> RunSummary:
    """Summary of a run; ``plans`` in the run's order, ``head.plans`` is not looked at. ``judged``: the hot verdict;
    without one the best plan is the fastest so far."""
    plans = list(plans)
    timed = sorted((p for p in plans if p.hot_us is not None), key=lambda p: p.hot_us or 0.0)
    best = next((p for p in timed if judged is None or p.key == judged.winner), None)
    first = _first_pick(plans, head.options.modes)
    timings = head.baseline.timings if head.baseline else None
    gpu, environment = head.environment.gpu, head.environment
    return RunSummary(
        id=head.id,
        origin=origin,
        kind=head.kind,
        status=head.status,
        title=head.title,
        pipeline=head.pipeline,
        parameters=head.parameters,
        shape=shape_text(head.pipeline, head.parameters, head.graph),
        graph_id=head.graph_id,
        target=head.target.gpu_name,
        gpu=gpu.name if gpu else None,
        cudnn=environment.cudnn_backend,
        frontend=environment.cudnn_frontend,
        torch=environment.torch,
        started_at=head.started_at,
        finished_at=head.finished_at,
        counts=dict(Counter(p.status for p in plans)),
        timed=len(timed),
        best_key=best.key if best else None,
        best_name=best.plan_name if best else None,
        best_us=best.hot_us if best else None,
        first_pick_key=first.key if first else None,
        first_pick_us=first.hot_us if first else None,
        torch_us=timings.hot.median_us if timings else None,
        reuse=head.reuse is not None,
    )


def shape_text(pipeline: str, parameters: dict[str, str], graph: GraphSpec) -> str:
    """A graph's shape for people: the large inputs with their dims, then what differs from the pipeline's defaults and
    does not show in the dims, then type and layout: ``X 32×128×56×56, W 256×128×3×3, stride 2, bf16, nhwc``."""
    shown = [t for t in graph.with_role(Role.INPUT) if sum(d > 1 for d in t.dims) > 1] or graph.with_role(Role.INPUT)
    dims = [f"{t.name} {'×'.join(map(str, t.dims))}" for t in shown]
    layout = [parameters["layout"]] if "layout" in parameters else []
    return ", ".join([*dims, *_options(pipeline, tuple(parameters.items())), graph.io_dtype.value, *layout])


@lru_cache(maxsize=256)
def _options(pipeline: str, parameters: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """What was set apart from sizes; a size letter is one that changes the dims of an input."""
    if pipeline not in CATALOGUE:
        return ()
    catalogued, given = CATALOGUE[pipeline], dict(parameters)
    options = []
    for field in catalogued.fields():
        value, default = given.get(field.letter, ""), text_of(field.default)
        if value == default or field.letter in ("dtype", "layout"):
            continue
        try:
            with_default = _input_dims(catalogued.graph({**given, field.letter: default}))
            is_size = field.kind == "int" and with_default != _input_dims(catalogued.graph(given))
        except InvalidInput:  # sizes that fit together only as they are
            is_size = True
        if not is_size:
            options.append(f"{field.letter} {value or 'default'}")
    return tuple(options)


def _input_dims(graph: GraphSpec) -> list[tuple[int, ...]]:
    return [tensor.dims for tensor in graph.with_role(Role.INPUT)]


def _first_pick(plans: list[PlanBrief], modes: tuple[str, ...]) -> PlanBrief | None:
    """As RunRecord.first_pick."""
    return next((p for mode in modes for p in plans if p.modes.get(mode) == 0), None)


def _ratio(time_us: float | None, best_us: float | None) -> float | None:
    return time_us / best_us if time_us and best_us else None
