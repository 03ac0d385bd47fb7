"""`plan`: every execution plan that cuDNN offers for a graph, built for a GPU that need not be here."""

from __future__ import annotations

import tempfile
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.cancelling import CANCELLED, cancelling
from engine.cli.options import (
    ALL_MODES,
    Builders,
    ComputeCache,
    Dtype,
    EveryEngine,
    Explicit,
    Json,
    KnobBudget,
    LayoutOption,
    Modes,
    Parameter,
    PipelineName,
    find_target,
    parse_beyond,
    parse_builders,
    parse_modes,
    parse_parameters,
)
from engine.cli.output import Failed, check_writable, emit_json, print_facts, say, write_file
from engine.cli.progress import Progress

if TYPE_CHECKING:
    from engine.graph.spec import GraphSpec
    from engine.jobs.planning import PlanOutcome
    from engine.plans.targets import Target
    from engine.plans.variants import Variant
    from engine.records.environment import Environment
    from engine.records.options import SweepOptions
    from engine.records.plan import PlanRecord
    from engine.records.run import Refusal, RunRecord

TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME|local|FILE",
        help="A shipped GPU, this machine's, or a properties file. By default this machine's, else h200.",
    ),
]


def plan(
    pipeline: PipelineName,
    parameter: Parameter = None,
    dtype: Dtype = None,
    layout: LayoutOption = None,
    target: TargetName = None,
    modes: Modes = ALL_MODES,
    no_build: Annotated[bool, typer.Option("--no-build", help="List the plans only.")] = False,
    builders: Builders = None,
    compute_cache: ComputeCache = False,
    explicit: Explicit = None,
    every_engine: EveryEngine = False,
    knob_budget: KnobBudget = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN.zip", help="Keep the outcome, built plans included, as a run file."),
    ] = None,
    as_json: Json = False,
) -> int:
    """List a graph's execution plans and build them all, for a GPU that need not be here."""
    from engine.graph.pipelines import pipeline as find_pipeline
    from engine.plans.limits import check_memory
    from engine.plans.variants import nearby
    from engine.records.options import SweepOptions

    found = find_pipeline(pipeline)
    texts, spec = parse_parameters(found, parameter, dtype, layout)
    wanted, size = parse_modes(modes), parse_builders(builders)
    at = find_target(target)
    check_memory(spec, at.info, found, texts)
    if out is not None:
        check_writable(out)
        import engine.runs.archive  # noqa: F401 - now: after a Ctrl-C there should be nothing slow left to do
    asked = parse_beyond(explicit, every_engine, knob_budget)
    options = SweepOptions(modes=wanted, compute_cache=compute_cache, **asked)
    with tempfile.TemporaryDirectory(prefix="planscope-") as folder, cancelling() as cancel:
        started = datetime.now(UTC)
        variants = nearby(found, texts)
        outcome = plan_all(spec, variants, at, options, size, Path(folder), not no_build, cancel)
        if out is not None and outcome.environment is not None:  # else it was cancelled before anything was known
            run = as_run(pipeline, texts, spec, at, options, started, outcome, outcome.environment)
            _keep(run, Path(folder), out)
        _report(pipeline, texts, spec, at, outcome, as_json)
    return _status(outcome, built=not no_build)


def plan_all(
    spec: GraphSpec,
    variants: tuple[Variant, ...],
    target: Target,
    options: SweepOptions,
    builders: int | None,
    folder: Path,
    build: bool,
    cancel: threading.Event,
) -> PlanOutcome:
    """Plans of one graph, with a line of progress; raises Failed where this machine cannot plan."""
    from engine.jobs.planning import CannotPlan, plan_graph
    from engine.jobs.pool import BuilderPool
    from engine.jobs.unlisted import Beyond

    progress = Progress()
    progress.update("asking cuDNN for plans", 0, 0)

    def follow(record: PlanRecord, done: int, total: int) -> None:
        progress.update("built", done, total)

    try:
        with BuilderPool.for_target(target, builders, compute_cache=options.compute_cache) as pool:
            return plan_graph(
                spec,
                target,
                options.modes,
                pool=pool,
                blob_dir=folder,
                build=build,
                variants=variants,
                sink=follow if build else None,
                cancel=cancel,
                beyond=Beyond.of(options),
            )
    except CannotPlan as error:
        raise Failed(error.message, error.remedy) from None
    finally:
        progress.close()


def as_run(
    pipeline: str,
    texts: dict[str, str],
    spec: GraphSpec,
    target: Target,
    options: SweepOptions,
    started: datetime,
    outcome: PlanOutcome,
    environment: Environment,
) -> RunRecord:
    """What planning gave, as a run."""
    from engine.records.run import RunKind, RunRecord, RunStatus

    return RunRecord(
        id=uuid.uuid4().hex,
        kind=RunKind.PLAN,
        status=RunStatus.CANCELLED if outcome.cancelled else RunStatus.DONE,
        pipeline=pipeline,
        parameters=texts,
        graph=spec,
        target=target.info,
        environment=environment,
        options=options,
        started_at=started,
        finished_at=datetime.now(UTC),
        message=" ".join(outcome.remarks) or None,
        refusal=outcome.refusal,
        plans=outcome.plans,
    )


def _keep(run: RunRecord, folder: Path, out: Path) -> None:
    from engine.runs.archive import pack

    digests = {plan.blob_sha256 for plan in run.plans if plan.blob_sha256}
    write_file(out, pack(run, {digest: (folder / digest).read_bytes() for digest in sorted(digests)}))


def _status(outcome: PlanOutcome, built: bool) -> int:
    from engine.records.plan import Status

    if outcome.cancelled:
        return CANCELLED
    if outcome.refusal is not None or not outcome.plans:
        return 1
    return 0 if not built or any(plan.status is Status.OK for plan in outcome.plans) else 1


def _report(
    pipeline: str, texts: dict[str, str], spec: GraphSpec, target: Target, outcome: PlanOutcome, as_json: bool
) -> None:
    from engine.cli.shapes import cudnn_json, plan_json, refusal_json, target_json
    from engine.cli.tables import print_plans

    if as_json:
        emit_json(
            {
                "graph_id": spec.graph_id,
                "pipeline": pipeline,
                "parameters": texts,
                "target": target_json(target.info),
                "cudnn": cudnn_json(outcome.environment),
                "plans": [plan_json(plan, spec) for plan in outcome.plans],
                "refusal": refusal_json(outcome.refusal),
                "cancelled": outcome.cancelled,
                "remarks": list(outcome.remarks),
            }
        )
    else:
        facts: list[tuple[str, Any]] = [
            ("pipeline", f"{pipeline}  {' '.join(f'{letter}={value}' for letter, value in texts.items() if value)}"),
            ("graph", spec.graph_id),
            ("target", f"{target.info.gpu_name} (sm {target.info.sm}, {target.info.source})"),
        ]
        if outcome.environment:
            cudnn = f"{outcome.environment.cudnn_backend}, frontend {outcome.environment.cudnn_frontend}"
            facts.append(("cuDNN", cudnn))
        print_facts(facts)
        if outcome.plans:
            print_plans(outcome.plans, spec)
    for remark in outcome.remarks:
        say(f"note: {remark}")
    if outcome.refusal:
        say_refusal(outcome.refusal)


def say_refusal(refusal: Refusal) -> None:
    """cuDNN's answer to a graph that it has no plan for."""
    told = refusal.message
    say(f"error: {told if told.startswith('cuDNN') else f'cuDNN has no plan for this graph: {told}'}")
    for reason in refusal.reasons:
        if reason not in told:
            say(f"  - {reason}")
