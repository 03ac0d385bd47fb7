"""`bundle export`: one plan as a zip that loads without Planscope."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.finding import open_run
from engine.cli.options import Json
from engine.cli.output import check_writable, emit_json, print_facts, write_file
from engine.graph.errors import invalid

if TYPE_CHECKING:
    from engine.records.plan import PlanRecord
    from engine.records.run import RunRecord

commands = typer.Typer(help="Plans to hand over.", no_args_is_help=True)


@commands.callback()
def bundle() -> None:
    """Plans to hand over."""


@commands.command("export")
def export_bundle(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the beginning of it, or a run file.")],
    out: Annotated[Path, typer.Option("--out", metavar="F.zip", help="Where to write it.")],
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="KEY", help="A plan's key or name; by default the run's fastest plan."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a plan with what it takes to load and run it: recipe, graph, tensors, checksums and a loader."""
    from engine.bundles.export import bundle as make_bundle
    from engine.bundles.export import default_plan

    check_writable(out)
    with open_run(run) as (record, blob, _origin):
        chosen, why = default_plan(record) if plan is None else (_find_plan(record, plan), "the plan asked for")
        data = make_bundle(record, chosen, blob(chosen.blob_sha256) if chosen.blob_sha256 else b"")
    write_file(out, data)
    cudnn = record.environment.cudnn_backend
    if as_json:
        emit_json(
            {
                "file": str(out),
                "bytes": len(data),
                "run": record.id,
                "plan": chosen.key,
                "plan_name": chosen.plan_name,
                "chosen": why,
                "cudnn": cudnn,
                "measured": chosen.timings is not None,
            }
        )
        return 0
    print_facts(
        [
            ("wrote", f"{out} ({len(data):,} bytes)"),
            ("plan", f"{chosen.plan_name}: {why}"),
            ("made for", record.target.gpu_name),
            ("loads in", f"cuDNN {cudnn} and in no other version"),
        ]
    )
    return 0


def _find_plan(run: RunRecord, text: str) -> PlanRecord:
    found = [plan for plan in run.plans if text in (plan.key, plan.plan_name)]
    if len(found) != 1:
        rule = "the run has no plan of this key." if not found else f"{len(found)} plans of the run have this name."
        raise invalid("--plan", text, rule, "`runs show RUN --json` lists their keys.")
    return found[0]
