"""`runs`: what was planned and measured, here or in a recording, and moving it between machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.finding import find_id, open_library, open_run
from engine.cli.options import Json
from engine.cli.output import check_writable, emit_json, print_facts, print_table, read_file, say, write_file

if TYPE_CHECKING:
    from engine.records.run import RunRecord
    from engine.runs.summary import Origin

commands = typer.Typer(help="Runs of your own and recordings: list, show, export, import.", no_args_is_help=True)
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of it.")]
RunOrFile = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the beginning of it, or a run file.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")]


@commands.command("list")
def list_runs(
    pipeline: Annotated[str | None, typer.Option("--pipeline", metavar="NAME", help="Only runs of this one.")] = None,
    as_json: Json = False,
) -> int:
    """List every run, newest first."""
    from engine.cli.shapes import summary_json
    from engine.cli.tables import number
    from engine.graph.pipelines import pipeline as find_pipeline

    if pipeline is not None:
        find_pipeline(pipeline)
    with open_library() as library:
        summaries = [run for run in library.summaries() if pipeline in (None, run.pipeline)]
    if as_json:
        emit_json({"runs": [summary_json(run) for run in summaries]})
        return 0
    rows = [
        (
            run.id[:12],
            run.pipeline,
            run.shape,
            run.gpu or run.target,
            run.cudnn,
            "recording" if run.recorded else run.origin,
            f"{run.started_at:%Y-%m-%d %H:%M}",
            f"{run.status}, a study of reuse" if run.reuse else run.status,
            run.best_name,
            number(run.best_us),
            number(run.speedup_vs_first_pick),
            number(run.speedup_vs_torch),
        )
        for run in summaries
    ]
    header = ("run", "pipeline", "shape", "gpu", "cudnn", "origin", "started", "status", "winner", "us")
    print_table((*header, "vs first pick", "vs torch"), rows)
    return 0


@commands.command("show")
def show_run(run: RunOrFile, as_json: Json = False) -> int:
    """Show one run, plan by plan, the fastest first; in JSON in the order of cuDNN's lists."""
    from engine.cli.shapes import run_json

    with open_run(run) as (record, _blob, origin):
        if as_json:
            emit_json(run_json(record, origin))
        else:
            print_run(record, origin)
    return 0


@commands.command("export")
def export_run(run: RunName, out: Out, as_json: Json = False) -> int:
    """Write a run with its serialized plans to a run file."""
    check_writable(out)
    with open_library() as library:
        run_id = find_id(library, run)
        data = library.export(run_id)
    write_file(out, data)
    if as_json:
        emit_json({"id": run_id, "file": str(out), "bytes": len(data)})
    else:
        print(f"wrote run {run_id} to {out} ({len(data):,} bytes)")
    return 0


@commands.command("import")
def import_run(file: Annotated[Path, typer.Argument(metavar="FILE", help="A run file.")], as_json: Json = False) -> int:
    """Keep a run file's run among your own."""
    from engine.cli.finding import naming, open_store
    from engine.runs.archive_reading import MAX_FILE_BYTES
    from engine.runs.library import Library

    data = read_file(file, "run file", MAX_FILE_BYTES)
    with open_store() as store, naming(file):
        done = Library(store).import_run(data)
    if as_json:
        emit_json({"id": done.id, "already": done.already, "original_id": done.original_id})
        return 0
    print(f"run {done.id} was already here" if done.already else f"imported run {done.id}")
    if done.original_id:
        say(f"note: another run has the id {done.original_id} already, so this one got a new one.")
    return 0


def print_run(run: RunRecord, origin: Origin | None = None) -> None:
    """A run for people: what it is, then its plans, measured ones by time. ``origin`` None is here."""
    from engine.cli.planning import say_refusal
    from engine.cli.tables import print_findings, print_plans, print_timed

    gpu, made = run.environment.gpu, {"recording": "recorded", "imported": "imported, measured"}.get(str(origin))
    print_facts(
        [
            ("run", run.id),
            ("title", run.title),
            ("status", f"{run.status}{': ' + run.message if run.message else ''}"),
            ("pipeline", f"{run.pipeline}  {' '.join(f'{k}={v}' for k, v in run.parameters.items() if v)}"),
            ("graph", run.graph_id),
            (
                f"{made or 'measured'} on" if gpu else "planned for",
                gpu.name if gpu else f"{run.target.gpu_name} ({run.target.source})",
            ),
            ("cuDNN", f"{run.environment.cudnn_backend}, frontend {run.environment.cudnn_frontend}"),
            ("torch", run.environment.torch),
            ("started", f"{run.started_at:%Y-%m-%d %H:%M:%S %Z}"),
        ]
    )
    timed = run.timed()
    if timed:
        print_timed(run, timed)
        print_findings(run)
    if others := tuple(plan for plan in run.plans if plan not in timed):
        print_plans(others, run.graph)
    if run.refusal:
        say_refusal(run.refusal)
