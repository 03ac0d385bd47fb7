"""What is asked of a job and how far it is: the values that the job manager, a sweep and a command line exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.graph.errors import invalid
from engine.graph.pipelines import CATALOGUE
from engine.graph.pipelines.base import Pipeline
from engine.graph.spec import GraphSpec
from engine.jobs.snapshots import JobKind
from engine.plans.limits import check_memory
from engine.plans.targets import Target
from engine.plans.variants import Variant, nearby
from engine.records.environment import Environment, GpuInfo
from engine.records.options import SweepOptions, check_options
from engine.records.plan import PlanRecord
from engine.records.run import Baseline, Refusal, RunKind, RunStatus

MOST_REPEATS = 50
MOST_SIZES = 64


@dataclass(frozen=True)
class Study:
    """What a study of reuse is asked. ``letter`` and ``shapes``: sizes of a letter with their graphs, in order;
    ``plans``: how many plans, as the heuristics list them, None for all; ``graphs``: whether CUDA graphs are tried, on
    a GPU."""

    pipeline: str
    parameters: Mapping[str, str]
    graph: GraphSpec
    target: Target
    options: SweepOptions
    repeats: int = 3
    plans: int | None = None
    letter: str = ""
    shapes: Mapping[int, GraphSpec] = field(default_factory=dict)
    matrix: bool = True
    graphs: bool = True


@dataclass(frozen=True)
class Request:
    """What was asked for. ``parameters``: the pipeline's, as texts.

    ``gpu``: the GPU of this machine to plan or measure on, None to plan without one. ``build``: a plan job also builds
    what it lists; a sweep always does. ``study``: the whole question of a study of reuse.
    """

    kind: JobKind
    pipeline: str
    parameters: Mapping[str, str]
    graph: GraphSpec
    target: Target
    options: SweepOptions
    gpu: GpuInfo | None = None
    build: bool = True
    study: Study | None = None

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Graphs near this one, for a refusal to say what cuDNN takes instead."""
        pipeline = CATALOGUE.get(self.pipeline)
        return nearby(pipeline, self.parameters) if pipeline else ()

    def __str__(self) -> str:
        return f"{'study of reuse' if self.study else self.kind} of {self.pipeline}"


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    ``done`` of ``total`` steps: a plan built is one, a plan measured another, the baseline a third; 0 of 0 before it is
    known how many. ``plans`` in the order cuDNN listed them, each as far as it has come; ``remarks``: what a person
    should know beside. ``run_id`` once the run is in the store; ``ended`` once it has ended there.
    """

    done: int = 0
    total: int = 0
    eta_s: float | None = None
    message: str = ""
    plans: tuple[PlanRecord, ...] = ()
    refusal: Refusal | None = None
    baseline: Baseline | None = None
    environment: Environment | None = None
    remarks: tuple[str, ...] = ()
    run_id: str | None = None
    ended: RunStatus | None = None


def plan_request(
    pipeline: str,
    parameters: Mapping[str, str],
    graph: GraphSpec,
    target: Target,
    options: SweepOptions,
    gpus: tuple[GpuInfo, ...],
    build: bool = True,
) -> Request:
    """A question for plans. ``gpus``: this machine's. Raises InvalidInput where target and graph do not go together."""
    gpu = pick_gpu(target, gpus) if target.is_local else None
    check_memory(graph, target.info, CATALOGUE.get(pipeline), parameters)
    return Request(RunKind.PLAN, pipeline, dict(parameters), graph, target, options, gpu, build)


def sweep_request(
    pipeline: str,
    parameters: Mapping[str, str],
    graph: GraphSpec,
    target: Target,
    options: SweepOptions,
    gpus: tuple[GpuInfo, ...],
) -> Request:
    """A sweep. ``gpus``: this machine's. Raises InvalidInput where there is none, or where the graph does not fit it or
    the options."""
    gpu = pick_gpu(target, gpus)
    check_memory(graph, target.info, CATALOGUE.get(pipeline), parameters)
    check_options(options, graph)
    return Request(RunKind.SWEEP, pipeline, dict(parameters), graph, target, options, gpu)


def fusion_request(
    pipeline: str,
    parameters: Mapping[str, str],
    graph: GraphSpec,
    target: Target,
    options: SweepOptions,
    gpus: tuple[GpuInfo, ...],
) -> Request:
    """A comparison of fused and unfused. Of ``options`` it takes seed and precision. Raises InvalidInput as a sweep."""
    asked = sweep_request(pipeline, parameters, graph, target, options, gpus)
    # No build is timed, so the driver's cache of compiled kernels may help.
    return replace(asked, kind="fusion", options=options.model_copy(update={"compute_cache": True}))


def study_request(asked: Study, gpus: tuple[GpuInfo, ...]) -> Request:
    """A study of reuse, on one of ``gpus`` or for a target elsewhere. Raises InvalidInput where number of repeats or
    plans, target and graphs do not go together."""
    if not 1 <= asked.repeats <= MOST_REPEATS:
        raise invalid(
            "repeats", asked.repeats, f"must be a whole number from 1 to {MOST_REPEATS}.", "The default is 3."
        )
    if asked.plans is not None and asked.plans < 1:
        raise invalid("plans", asked.plans, "must be a whole number from 1.", "Leave it out for all plans.")
    gpu = pick_gpu(asked.target, gpus) if asked.target.is_local else None
    pipeline = CATALOGUE.get(asked.pipeline)
    check_memory(asked.graph, asked.target.info, pipeline, asked.parameters)
    for size, graph in asked.shapes.items():
        check_memory(graph, asked.target.info, pipeline, {**asked.parameters, asked.letter: str(size)})
    return Request(
        "reuse", asked.pipeline, dict(asked.parameters), asked.graph, asked.target, asked.options, gpu, study=asked
    )


def graphs_of_sizes(
    pipeline: Pipeline[Any], parameters: Mapping[str, str], letter: str, sizes: str
) -> dict[int, GraphSpec]:
    """The graphs of ``sizes``, whole numbers with commas between, of a parameter. Raises InvalidInput that names the
    letter, or "sizes" for the list."""
    numbers = [field.letter for field in pipeline.fields() if field.kind == "int"]
    if letter not in numbers:
        raise invalid("letter", letter, f"{pipeline.name} has no size of this letter.", f"It has {', '.join(numbers)}.")
    texts = [text.strip() for text in sizes.split(",") if text.strip()]
    example = "For example 8, 16, 24, 32, 48."
    if wrong := next((text for text in texts if not (text.isascii() and text.isdecimal())), None):
        raise invalid("sizes", wrong, "sizes are whole numbers with commas between.", example)
    if not 1 <= len(texts) <= MOST_SIZES:
        raise invalid("sizes", sizes, f"a study takes 1 to {MOST_SIZES} sizes.", example)
    graphs: dict[int, GraphSpec] = {}
    for text in texts:
        graph = pipeline.graph({**parameters, letter: text})
        if int(text) in graphs:
            raise invalid("sizes", text, "it is given twice.", "Give every size once.")
        graphs[int(text)] = graph
    return graphs


def pick_gpu(target: Target, gpus: tuple[GpuInfo, ...]) -> GpuInfo:
    """The GPU of this machine that a target means. Raises InvalidInput where the target is elsewhere or has gone."""
    if not target.is_local:
        rule = "a sweep measures, so its target is a GPU of this machine."
        raise invalid("target", target.info.name, rule, "Choose local, or plan for the named GPU instead.")
    if not gpus:
        remedy = "Open a recorded run, or plan for a named GPU."
        raise invalid("target", target.info.name, "no NVIDIA GPU in this machine.", remedy)
    for gpu in gpus:
        if target.gpu_uuid in (None, gpu.uuid):
            return gpu
    names = ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in gpus)
    raise invalid("target", target.info.name, "this GPU is no longer in this machine.", f"It has {names}.")
