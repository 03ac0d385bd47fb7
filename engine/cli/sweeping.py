"""`sweep`: build every plan of a graph, measure each on this machine's GPU, and keep all of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.cancelling import CANCELLED, cancelling
from engine.cli.measuring import (
    Capturable,
    DataName,
    Deterministic,
    PresetName,
    ScoreShift,
    WorkspaceLimit,
    parse_measuring,
)
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
    parse_seed,
)
from engine.cli.output import Failed, check_writable, emit_json, say, write_file
from engine.cli.progress import Progress

if TYPE_CHECKING:
    from engine.jobs.request import Progress as JobProgress
    from engine.jobs.request import Request
    from engine.records.run import RunRecord
    from engine.runs.store import Store


def sweep(
    pipeline: PipelineName,
    parameter: Parameter = None,
    dtype: Dtype = None,
    layout: LayoutOption = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="local[:N]", help="Which GPU of this machine; the first by default."),
    ] = None,
    modes: Modes = ALL_MODES,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random inputs.")] = 0,
    builders: Builders = None,
    compute_cache: ComputeCache = False,
    explicit: Explicit = None,
    every_engine: EveryEngine = False,
    knob_budget: KnobBudget = 0,
    preset: PresetName = "standard",
    data: DataName = "normal",
    score_shift: ScoreShift = 0.0,
    workspace_limit: WorkspaceLimit = None,
    deterministic: Deterministic = False,
    capturable: Capturable = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="RUN.zip", help="Write the run to a run file as well.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Build and measure every execution plan of a graph on this machine's GPU, next to torch; the run is kept."""
    from engine.cli.finding import open_store
    from engine.graph.pipelines import pipeline as find_pipeline
    from engine.jobs.request import Request, pick_gpu
    from engine.machine.gpus import list_gpus
    from engine.plans.limits import check_memory
    from engine.records.options import SweepOptions, check_options
    from engine.records.run import RunKind

    found = find_pipeline(pipeline)
    texts, spec = parse_parameters(found, parameter, dtype, layout)
    options = SweepOptions(
        modes=parse_modes(modes),
        seed=parse_seed(seed),
        compute_cache=compute_cache,
        **parse_beyond(explicit, every_engine, knob_budget),
        **parse_measuring(preset, data, score_shift, workspace_limit, deterministic, capturable),
    )
    check_options(options, spec)
    size, gpus = parse_builders(builders), list_gpus()
    if out is not None:
        check_writable(out)
    if not gpus:
        raise Failed(
            "A sweep measures, and this machine has no NVIDIA GPU that the driver offers.",
            "`plan` builds the plans without one; `runs list` shows the recordings.",
        )
    at = find_target(target)
    gpu = pick_gpu(at, gpus)
    check_memory(spec, at.info, found, texts)
    request = Request(RunKind.SWEEP, pipeline, texts, spec, at, options, gpu)
    with open_store() as store, cancelling() as cancel:
        run = _work(request, store, size, cancel)
        if out is not None:
            _export(store, run, out)
        _report(run, as_json)
    return _status(run)


def _work(request: Request, store: Store, builders: int | None, cancel: threading.Event) -> RunRecord:
    from engine.jobs.pool import BuilderPool
    from engine.jobs.protocol import JobCancelled, JobError
    from engine.jobs.sweep import run_sweep

    line, told = Progress(), set[str]()

    def follow(progress: JobProgress) -> None:
        line.update(f"{progress.message}; step", progress.done, progress.total, progress.eta_s)
        for remark in progress.remarks:
            if remark not in told:
                told.add(remark)
                line.close()
                say(f"note: {remark}")

    compute_cache = request.options.compute_cache
    try:
        with BuilderPool.for_target(request.target, builders, compute_cache=compute_cache) as pool:
            say(_expectation(request, pool.size))
            return run_sweep(request, store=store, pool=pool, cancel=cancel, report=follow)
    except JobCancelled:
        raise KeyboardInterrupt from None  # before there was anything to keep
    except JobError as error:
        raise Failed(str(error)) from None
    finally:
        line.close()


def _expectation(request: Request, builders: int) -> str:
    from engine.cli.progress import format_seconds
    from engine.jobs.estimate import USUAL_PLANS, expected_s
    from engine.measure.screening import RULES

    options = request.options
    plans = USUAL_PLANS + len(options.explicit) + options.knob_budget
    seconds = format_seconds(expected_s(builders, RULES[options.preset], plans))
    return f"expect about {seconds} for some {plans} plans, preset {options.preset}"


def _export(store: Store, run: RunRecord, out: Path) -> None:
    from engine.runs.archive import export_run

    write_file(out, export_run(store, run.id))


def _status(run: RunRecord) -> int:
    from engine.records.run import RunStatus

    if run.status is RunStatus.CANCELLED:
        return CANCELLED
    return 0 if run.status is RunStatus.DONE and run.timed() else 1


def _report(run: RunRecord, as_json: bool) -> None:
    from engine.cli.planning import say_refusal
    from engine.cli.runs import print_run
    from engine.cli.shapes import run_json
    from engine.records.run import RunStatus

    if as_json:
        emit_json({"run_id": run.id, **run_json(run)})
        if run.refusal:
            say_refusal(run.refusal)
    else:
        print_run(run)
    if run.status is not RunStatus.DONE:
        say(f"{run.status}: {run.message}; what was measured is kept as run {run.id}")
