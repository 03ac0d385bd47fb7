"""`reuse`: what building costs, and every way not to pay it again."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.cancelling import cancelling
from engine.cli.finding import open_store
from engine.cli.options import (
    ALL_MODES,
    Builders,
    Dtype,
    Json,
    LayoutOption,
    Modes,
    Parameter,
    PipelineName,
    find_target,
    parse_builders,
    parse_modes,
    parse_parameters,
)
from engine.cli.output import Failed, check_writable, emit_json, print_facts, printable, say, write_file
from engine.cli.progress import Progress
from engine.graph.errors import invalid

if TYPE_CHECKING:
    from engine.jobs.request import Study
    from engine.records.reuse import Reuse
    from engine.records.run import RunRecord


def reuse(
    pipeline: PipelineName,
    parameter: Parameter = None,
    dtype: Dtype = None,
    layout: LayoutOption = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="NAME|local|FILE", help="A GPU of this machine, to execute on, or another."),
    ] = None,
    modes: Modes = ALL_MODES,
    plans: Annotated[
        int | None, typer.Option("--plans", metavar="N", help="Only the first plans, as the heuristics list them.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="Fresh processes for every number.")] = 3,
    sizes: Annotated[
        str | None,
        typer.Option("--sizes", metavar="LETTER=A,B,C", help="Sizes of a letter: kernel cache, override, matrix."),
    ] = None,
    matrix: Annotated[bool, typer.Option(help="With --sizes: each size's plan at every other size.")] = True,
    graphs: Annotated[bool, typer.Option(help="On a GPU: what CUDA graphs give.")] = True,
    builders: Builders = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN.zip", help="Keep the study and the built plans as a run file."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Measure what building a graph's plans costs, and what loading them, a kernel cache, overriding shapes and CUDA
    graphs give in its place; the study is kept. Without a GPU everything is built and loaded, and nothing executed."""
    from engine.graph.pipelines import pipeline as find_pipeline
    from engine.jobs.request import Study, graphs_of_sizes, study_request
    from engine.jobs.reusing import digests, keep_study
    from engine.jobs.studying import Processes
    from engine.machine.gpus import list_gpus
    from engine.records.options import SweepOptions
    from engine.runs.archive import pack

    found = find_pipeline(pipeline)
    texts, spec = parse_parameters(found, parameter, dtype, layout)
    at, wanted, size = find_target(target), parse_modes(modes), parse_builders(builders)
    letter, equals, values = (sizes or "").partition("=")
    letter = letter.strip()
    if sizes is not None and not equals:
        raise invalid("sizes", sizes, "sizes are written LETTER=A,B,C.", "For example --sizes n=8,16,24.")
    shapes = graphs_of_sizes(found, texts, letter, values) if sizes is not None else {}
    if out is not None:
        check_writable(out)
    asked = Study(
        pipeline=pipeline,
        parameters=texts,
        graph=spec,
        target=at,
        options=SweepOptions(modes=wanted),
        repeats=repeats,
        plans=plans,
        letter=letter,
        shapes=shapes,
        matrix=matrix,
        graphs=graphs,
    )
    study_request(asked, list_gpus())
    with open_store() as store, tempfile.TemporaryDirectory(prefix="planscope-") as folder, cancelling() as cancel:
        run = _work(asked, Path(folder), cancel, Processes(builders=size))
        if run.reuse is not None:
            keep_study(store, run, Path(folder))
        if out is not None:
            write_file(out, pack(run, {sha256: (Path(folder) / sha256).read_bytes() for sha256 in digests(run)}))
        _report(run, as_json)
    return 0 if run.reuse is not None and any(cost.load_ms for cost in run.reuse.costs) else 1


def _work(asked: Study, folder: Path, cancel: threading.Event, processes: Any) -> RunRecord:
    from engine.jobs.planning import CannotPlan
    from engine.jobs.protocol import JobCancelled, JobError
    from engine.jobs.studying import study

    line = Progress()
    try:
        run, outcome = study(asked, folder, cancel, line.update, processes)
    except JobCancelled:
        raise KeyboardInterrupt from None
    except CannotPlan as error:
        raise Failed(error.message, error.remedy) from None
    except JobError as error:
        raise Failed(str(error)) from None
    finally:
        line.close()
    for remark in outcome.remarks:
        say(f"note: {remark}")
    return run


def _report(run: RunRecord, as_json: bool) -> None:
    from engine.cli.planning import say_refusal
    from engine.cli.reuse_output import print_reuse
    from engine.cli.shapes import cudnn_json, refusal_json, target_json

    told = said(run)
    if as_json:
        emit_json(
            {
                "run_id": run.id,
                "pipeline": run.pipeline,
                "parameters": dict(run.parameters),
                "graph_id": run.graph_id,
                "target": target_json(run.target),
                "cudnn": cudnn_json(run.environment),
                "refusal": refusal_json(run.refusal),
                "reuse": None if run.reuse is None else _json(run.reuse),
                "sentences": told,
            }
        )
    else:
        print_facts(
            [
                ("pipeline", f"{run.pipeline}  {' '.join(f'{k}={v}' for k, v in run.parameters.items() if v)}"),
                ("target", f"{run.target.gpu_name} (sm {run.target.sm}, {run.target.source})"),
                ("cuDNN", f"{run.environment.cudnn_backend}, frontend {run.environment.cudnn_frontend}"),
                ("machine", f"{run.environment.host}, {run.environment.os}"),
            ]
        )
        if run.reuse is not None:
            print_reuse(run.reuse)
        print()
        for sentence in told:
            print(printable(sentence))
    if run.refusal:
        say_refusal(run.refusal)


def said(run: RunRecord) -> list[str]:
    """All sentences on a study; break-even by a recorded or own sweep of the same graph on the same GPU and cuDNN."""
    from engine.cli.finding import open_library
    from engine.records.payoff import payoffs, sentences
    from engine.runs.sweeps import sweep_beside

    if run.reuse is None:
        return []
    with open_library() as library:
        paid = payoffs(run, sweep_beside(library, run))
    return [*sentences(run.reuse), *(f"{one.sentence} ({one.source})" for one in paid)]


def _json(reuse: Reuse) -> dict[str, Any]:
    from engine.records.payoff import load_speedup, sizes_until

    content = reuse.model_dump(mode="json")
    for cost, told in zip(reuse.costs, content["costs"], strict=True):
        told |= {"key": cost.key, "load_speedup": cost.speedup}
    speedups = {"compiled": load_speedup(reuse.costs), "precompiled": load_speedup(reuse.costs, compiled=False)}
    return {**content, "load_speedup": speedups, "sizes_until": sizes_until(reuse.shapes) if reuse.shapes else None}
