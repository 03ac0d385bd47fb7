"""`reuse`: what building costs, and every way not to pay it again."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.bundling import parse_sizes
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
    from engine.graph.spec import GraphSpec
    from engine.jobs.studying import Study
    from engine.records.reuse import Reuse
    from engine.records.run import RunRecord

MOST_REPEATS = 50


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
    from engine.jobs.studying import Processes, Study
    from engine.plans.limits import check_memory
    from engine.records.options import SweepOptions
    from engine.runs.archive import pack

    found = find_pipeline(pipeline)
    texts, spec = parse_parameters(found, parameter, dtype, layout)
    if not 1 <= repeats <= MOST_REPEATS:
        raise invalid("--repeats", repeats, f"must be a whole number from 1 to {MOST_REPEATS}.", "The default is 3.")
    if plans is not None and plans < 1:
        raise invalid("--plans", plans, "must be a whole number from 1.", "Leave it out for all plans.")
    at, wanted, size = find_target(target), parse_modes(modes), parse_builders(builders)
    letter, shapes = "", dict[int, "GraphSpec"]()
    for (choice,) in parse_sizes(sizes) if sizes is not None else ():
        letter, _, value = choice.partition("=")
        given = [text for text in (parameter or ()) if text.partition("=")[0].strip() != letter]
        one = parse_parameters(found, [*given, choice], dtype, layout)
        check_memory(one[1], at.info, found, one[0])
        if not value.isdigit():
            raise invalid("--sizes", sizes, "sizes are whole numbers.", "For example --sizes n=8,16,24.")
        shapes[int(value)] = one[1]
    check_memory(spec, at.info, found, texts)
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
    with open_store() as store, tempfile.TemporaryDirectory(prefix="planscope-") as folder, cancelling() as cancel:
        run = _work(asked, Path(folder), cancel, Processes(builders=size))
        blobs = {sha256: (Path(folder) / sha256).read_bytes() for sha256 in sorted(_digests(run))}
        if run.reuse is not None:
            for blob in blobs.values():
                store.put_blob(blob)
            store.create_run(run)
        if out is not None:
            write_file(out, pack(run, blobs))
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


def _digests(run: RunRecord) -> set[str]:
    return {plan.blob_sha256 for plan in run.plans if plan.blob_sha256}


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
