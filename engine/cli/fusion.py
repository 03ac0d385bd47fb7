"""`fusion`: one graph fused and unfused, by cuDNN and by torch, against each other on this machine's GPU."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.cancelling import CANCELLED, cancelling
from engine.cli.measuring import PresetName, parse_preset
from engine.cli.options import (
    Builders,
    Dtype,
    Json,
    LayoutOption,
    Parameter,
    PipelineName,
    find_target,
    parse_builders,
    parse_parameters,
    parse_seed,
)
from engine.cli.output import Failed, check_writable, emit_json, say, write_file
from engine.cli.progress import Progress

if TYPE_CHECKING:
    from engine.jobs.fusion import FusionRequest
    from engine.records.fusion import FusionRecord


def fusion(
    pipeline: PipelineName,
    parameter: Parameter = None,
    dtype: Dtype = None,
    layout: LayoutOption = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="local[:N]|NAME|FILE",
            help="Which GPU of this machine; with --plan-only also one that is not here.",
        ),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Cut and plan only: needs no GPU, and measures nothing.")
    ] = False,
    preset: PresetName = "standard",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random inputs.")] = 0,
    builders: Builders = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="F.json", help="Write the comparison to a file as well.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare a graph fused with the same graph cut into pieces, and with torch: what fusing gains, and where not."""
    from engine.graph.pipelines import pipeline as find_pipeline
    from engine.jobs.fusion import FusionRequest
    from engine.machine.gpus import list_gpus
    from engine.plans.limits import check_memory
    from engine.records.run import RunStatus

    found = find_pipeline(pipeline)
    texts, spec = parse_parameters(found, parameter, dtype, layout)
    size, chosen, number = parse_builders(builders), parse_preset(preset), parse_seed(seed)
    if out is not None:
        check_writable(out)
    if not plan_only and not list_gpus():
        raise Failed(
            "A comparison measures, and this machine has no NVIDIA GPU that the driver offers.",
            "With --plan-only it is cut and planned for a GPU that need not be here.",
        )
    at = find_target(target)
    if not plan_only and not at.is_local:
        raise Failed(f"A comparison measures, and {at.info.name} is no GPU of this machine.", "Add --plan-only.")
    check_memory(spec, at.info, found, texts)
    request = FusionRequest(pipeline, texts, spec, at, number, chosen)
    with cancelling() as cancel:
        record = _work(request, plan_only, size, cancel)
    _keep(record, out)
    _report(record, as_json)
    if record.status is RunStatus.CANCELLED:
        return CANCELLED
    return 0 if plan_only or record.measured else 1


def _work(request: FusionRequest, plan_only: bool, builders: int | None, cancel: threading.Event) -> FusionRecord:
    from engine.jobs.fusion import plan_fusion, run_fusion
    from engine.jobs.measuring import Setback
    from engine.jobs.planning import CannotPlan
    from engine.jobs.pool import BuilderPool
    from engine.jobs.protocol import JobCancelled, JobError

    line = Progress()

    def follow(message: str) -> None:
        line.update(message, 0, 0)

    work = plan_fusion if plan_only else run_fusion
    try:
        with (
            tempfile.TemporaryDirectory(prefix="planscope-") as folder,
            BuilderPool.for_target(request.target, builders, compute_cache=True) as pool,  # no build is timed,
        ):
            return work(request, pool=pool, blob_dir=Path(folder), cancel=cancel, report=follow)
    except JobCancelled:
        raise KeyboardInterrupt from None
    except CannotPlan as error:
        raise Failed(error.message, error.remedy) from None
    except (JobError, Setback) as error:
        raise Failed(str(error)) from None
    finally:
        line.close()


def _keep(record: FusionRecord, out: Path | None) -> None:
    """What was measured stays in the data folder; a plan only where it was asked for."""
    from engine.runs.comparisons import keep, to_bytes
    from engine.runs.home import data_home

    if out is not None:
        write_file(out, to_bytes(record))
    if record.measured:
        say(f"kept as {keep(record, data_home())}")


def _report(record: FusionRecord, as_json: bool) -> None:
    from engine.cli.fusion_output import fusion_json, print_fusion

    if as_json:
        emit_json(fusion_json(record))
        for remark in record.remarks:
            say(f"note: {remark}")
    else:
        print_fusion(record)
