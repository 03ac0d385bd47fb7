"""`bundle`: tuned plans as a zip that loads without Planscope, and the doctor who says what such a zip is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.bundling import parts_of_pipeline, parts_of_runs
from engine.cli.cancelling import cancelling
from engine.cli.options import ALL_MODES, Builders, Dtype, Json, LayoutOption, Modes, Parameter
from engine.cli.output import check_writable, emit_json, print_facts, print_table, printable, say, write_file
from engine.graph.errors import invalid

if TYPE_CHECKING:
    from engine.bundles.checkups import Examination
    from engine.bundles.export import Part

commands = typer.Typer(help="Plans to hand over, and to check where they arrive.", no_args_is_help=True)


@commands.callback()
def bundle() -> None:
    """Plans to hand over, and to check where they arrive."""


@commands.command("export")
def export_bundle(
    out: Annotated[Path, typer.Option("--out", metavar="F.zip", help="Where to write it.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="A run's id, the beginning of it, or a run file; of several shapes, many."
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="KEY", help="A plan's key or name; by default the verdict's winner."),
    ] = None,
    every_plan: Annotated[bool, typer.Option("--all", help="Every built plan of the run, not only one.")] = False,
    pipeline: Annotated[
        str | None,
        typer.Option("--pipeline", metavar="PIPELINE", help="Plan and build this one instead of taking a run."),
    ] = None,
    parameter: Parameter = None,
    dtype: Dtype = None,
    layout: LayoutOption = None,
    sizes: Annotated[
        str | None,
        typer.Option("--sizes", metavar="LETTER=A,B,C", help="With --pipeline: one graph for each size of a letter."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="NAME|local|FILE", help="With --pipeline: the GPU, which need not be here."),
    ] = None,
    modes: Modes = ALL_MODES,
    builders: Builders = None,
    as_json: Json = False,
) -> int:
    """Write plans with what it takes to load and run them: recipe, graph, verdict, checksums and a loader."""
    from engine.bundles.export import bundle_of

    check_writable(out)
    if bool(runs) == (pipeline is not None):
        rule = "a bundle is made of runs, or of a pipeline that is planned now."
        raise invalid("RUN", " ".join(runs or ()), rule, "Give either RUN or --pipeline.")
    if pipeline is None:
        planning = {
            "-p": " ".join(parameter or ()),
            "--dtype": dtype,
            "--layout": layout,
            "--sizes": sizes,
            "--target": target,
        }
        if given := next((name for name, value in planning.items() if value), None):
            rule = "a run has its graph and its GPU already."
            raise invalid(given, planning[given], rule, "Leave it out, or plan anew with --pipeline.")
        parts = parts_of_runs(runs or [], plan, every_plan)
    else:
        with cancelling() as cancel:
            chosen = parts_of_pipeline(pipeline, parameter, dtype, layout, sizes, target, modes, builders, plan, cancel)
        if isinstance(chosen, int):
            return chosen
        parts = chosen
    data = bundle_of(parts)
    write_file(out, data)
    _report_export(parts, out, len(data), as_json)
    return 0


def _report_export(parts: list[Part], out: Path, size: int, as_json: bool) -> None:
    first = parts[0]
    run, chosen, count = first.run, first.plans[0], sum(len(part.plans) for part in parts)
    cudnn = run.environment.cudnn_backend
    if as_json:
        emit_json(
            {
                "file": str(out),
                "bytes": size,
                "run": run.id,
                "plan": chosen.key,
                "plan_name": chosen.plan_name,
                "chosen": first.chosen,
                "cudnn": cudnn,
                "target": run.target.gpu_name,
                "measured": chosen.timings is not None,
                "plans": count,
                "graphs": [
                    {
                        "graph_id": part.run.graph_id,
                        "parameters": dict(part.run.parameters),
                        "default": part.plans[0].key,
                        "chosen": part.chosen,
                        "plans": [plan.key for plan in part.plans],
                    }
                    for part in parts
                ],
            }
        )
        return
    print_facts(
        [
            ("wrote", f"{out} ({size:,} bytes)"),
            *((f"plan {at}", f"{p.plans[0].plan_name}: {p.chosen}") for at, p in enumerate(parts, 1) if len(parts) > 1),
            ("plan", f"{chosen.plan_name}: {first.chosen}" if len(parts) == 1 else None),
            ("holds", f"{count} plans" if count > 1 else None),
            ("made for", run.target.gpu_name),
            ("measured", None if chosen.timings is not None else "no"),
            ("loads in", f"cuDNN {cudnn}; in another version it is built anew from its recipe"),
        ]
    )


@commands.command("check")
def check_bundle(
    file: Annotated[Path, typer.Argument(metavar="F.zip", help="A bundle.")],
    trust: Annotated[
        bool,
        typer.Option("--trust", help="You trust where it comes from: load its plans, which hold code for the GPU."),
    ] = False,
    every_plan: Annotated[
        bool, typer.Option("--all", help="Rebuild, run and time every plan, not only defaults.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Examine a bundle: is it whole, does it load here, does its recipe still build the same plan, is it still right,
    is it still among the fastest. Exit status: 0 fine, 1 slower or only by recipe, 2 wrong, damaged or unusable."""
    from engine.jobs.examining import examine
    from engine.jobs.protocol import JobCancelled

    with cancelling() as cancel:
        try:
            found = examine(file, trust, every_plan=every_plan, cancel=cancel)
        except JobCancelled:
            raise KeyboardInterrupt from None
    if as_json:
        emit_json(_examination_json(found))
    else:
        _print_examination(found)
    return found.exit_status


def _examination_json(found: Examination) -> dict[str, object]:
    content = found.model_dump(mode="json")
    for plan, told in zip(found.plans, content["plans"], strict=True):
        told |= {"exit_status": plan.exit_status, "sentences": list(plan.sentences())}
    return {**content, "verdict": found.verdict, "exit_status": found.exit_status, "ran": found.ran}


def _print_examination(found: Examination) -> None:
    from engine.bundles.checkups import NOT_ORIGIN

    if found.refused:
        say(f"error: {found.refused}")
        print(found.verdict)
        return
    print_facts(
        [
            ("bundle", found.label),
            ("checksums", f"{found.files} files, all as SHA256SUMS says. {NOT_ORIGIN}"),
            (
                "cuDNN",
                found.cudnn and f"{found.cudnn}{'' if found.cudnn == found.made_by else f', not {found.made_by}'}",
            ),
            ("onto", found.onto),
        ]
    )
    for remark in found.remarks:
        say(f"note: {remark}")
    if found.problem:
        say(f"error: {found.problem}")
    checked = [plan for plan in found.plans if plan.is_default or plan.rebuilding is not None]
    for plan in checked:
        print()
        print(printable(f"{plan.pipeline}, graph {plan.graph}: {plan.plan_name}"))
        for sentence in plan.sentences():
            print(printable(f"  {sentence}"))
    others = [plan for plan in found.plans if plan not in checked]
    if others:
        print()
        rows = [(plan.graph, plan.plan_name, "yes" if plan.loading.ok else plan.loading.message) for plan in others]
        print_table(("graph", "other plan", "loads"), rows)
    print()
    print(found.verdict)
    if not found.trusted:
        print("With --trust it is loaded, built anew and, where there is a GPU, run.")
