"""`env` and `pipelines`: what this machine has, and what can be asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.options import Json
from engine.cli.output import Failed, check_writable, emit_json, print_facts, print_table, say, write_file
from engine.graph.errors import InvalidInput, invalid

if TYPE_CHECKING:
    from engine.graph.pipelines import ParameterField
    from engine.machine.libraries import LibraryReport
    from engine.records.environment import GpuInfo

_PROPERTIES_DEADLINE_S = 120.0


def pipelines(as_json: Json = False) -> int:
    """List the pipelines and their parameters."""
    from engine.graph.pipelines import CATALOGUE

    if as_json:
        described = [
            {
                "name": pipeline.name,
                "title": pipeline.title,
                "summary": pipeline.summary,
                "parameters": [_field_json(field) for field in pipeline.fields()],
            }
            for pipeline in CATALOGUE.values()
        ]
        emit_json({"pipelines": described})
        return 0
    for number, pipeline in enumerate(CATALOGUE.values()):
        print(("\n" if number else "") + f"{pipeline.name}: {pipeline.title}. {pipeline.summary}")
        rows = [("  " + f.letter, _default(f), _limits(f), f.title) for f in pipeline.fields()]
        print_table(("  parameter", "default", "values", "meaning"), rows)
    return 0


def env(
    properties: Annotated[
        Path | None,
        typer.Option(
            "--properties", metavar="FILE", help="Write the GPU's device properties, to plan for it elsewhere."
        ),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="local[:N]", help="Which GPU of this machine --properties is about.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Show this machine's GPUs, cuDNN and libraries, and what is missing; or write the GPU's device properties."""
    if properties is not None:
        return _write_properties(properties, gpu or "local", as_json)
    if gpu is not None:
        raise invalid("--gpu", gpu, "it says whose properties to write.", "Give --properties FILE as well.")
    from engine.jobs.inspection import inspect_machine
    from engine.machine.gpus import list_gpus
    from engine.plans.targets import shipped_targets

    report, gpus = inspect_machine(), list_gpus()
    home, home_problem = _data_folder()
    if as_json:
        emit_json(
            {
                "gpus": [found.model_dump(mode="json") for found in gpus],
                "cudnn": {"backend": report.cudnn_backend, "frontend": report.cudnn_frontend},
                **report.model_dump(mode="json", exclude={"cudnn_backend", "cudnn_frontend"}),
                "targets": [{**t.info.model_dump(mode="json")} for t in shipped_targets()],
                "data_folder": {"path": home, "problem": home_problem},
            }
        )
    else:
        _print_machine(report, gpus, str(home or home_problem))
    return 0


def _print_machine(report: LibraryReport, gpus: tuple[GpuInfo, ...], home: str) -> None:
    print_facts(
        [
            *((f"GPU {i}", _gpu_text(found)) for i, found in enumerate(gpus)),
            *([] if gpus else [("GPU", "none: plans are built for GPUs that are not here, sweeps need one")]),
            ("cuDNN", report.cudnn_backend or "missing"),
            ("frontend", report.cudnn_frontend or "missing"),
            ("torch", report.torch or "missing"),
            ("Python", report.python),
            ("runs in", home),
        ]
    )
    print()
    rows = [(lib.name, lib.version, lib.known_by, lib.problem or "ok") for lib in report.libraries]
    print_table(("library", "version", "known by", "state"), rows)
    if not gpus and not report.deviceless_complete and report.cudnn_backend:
        say(f"note: cuDNN {report.cudnn_backend} lists fewer plans without a GPU than with it; 9.28 lists them all.")
    for library in report.problems:
        say(f"problem: {library.name}: {library.problem}\n  mend it: {library.remedy}")


def _gpu_text(gpu: GpuInfo) -> str:
    memory = f"{gpu.memory_bytes / 2**30:.0f} GiB"
    return f"{gpu.name}, compute capability {gpu.compute_capability}, {memory}, driver {gpu.driver or 'unknown'}"


def _data_folder() -> tuple[str | None, str | None]:
    from engine.runs.home import data_home

    try:
        return str(data_home()), None
    except InvalidInput as error:
        return None, str(error)


def _write_properties(file: Path, gpu: str, as_json: bool) -> int:
    from engine.machine.gpus import list_gpus
    from engine.plans.targets import resolve_target

    if not list_gpus():
        raise Failed(
            "This machine has no NVIDIA GPU whose properties could be written.",
            "Run it on the machine that has the GPU, or plan for a shipped target: --target h200.",
        )
    if not gpu.lower().startswith("local"):
        raise typer.BadParameter(
            "a GPU of this machine is written local, local:1 or local:GPU-<uuid>", param_hint="--gpu"
        )
    target = resolve_target(gpu)
    check_writable(file, "--properties")
    found = _ask_worker(target.gpu_uuid)
    write_file(file, (json.dumps(found, indent=2, sort_keys=True) + "\n").encode(), "--properties")
    if as_json:
        emit_json({"file": str(file), "gpu": target.info.gpu_name, "properties": found})
    else:
        print(f"wrote the device properties of {target.info.gpu_name} to {file}")
    return 0


def _ask_worker(uuid: str | None) -> dict[str, Any]:
    """Device properties as cuDNN itself reads them off, in the process that may use the GPU."""
    from engine.jobs.protocol import Child, ProtocolError

    child = Child("engine.jobs.worker", environment={"CUDA_VISIBLE_DEVICES": uuid} if uuid else dict(os.environ))
    try:
        child.send("properties")
        event = child.receive(_PROPERTIES_DEADLINE_S)
        if event is None or event["event"] != "done":
            raise Failed(
                f"The GPU's properties could not be read: {(event or {}).get('message') or child.describe_end()}"
            )
        properties: dict[str, Any] = event["properties"]
        return properties
    except (TimeoutError, ProtocolError, BrokenPipeError) as error:
        raise Failed(
            f"The GPU's properties could not be read: {error or 'no answer'}. {child.describe_end()}"
        ) from None
    finally:
        child.kill()


def _field_json(field: ParameterField) -> dict[str, Any]:
    return {
        "letter": field.letter,
        "kind": field.kind,
        "title": field.title,
        "default": getattr(field.default, "value", field.default),
        "minimum": field.minimum,
        "maximum": field.maximum,
        "choices": list(field.choices),
        "optional": field.optional,
    }


def _default(field: ParameterField) -> str:
    from engine.graph.pipelines.base import text_of

    return text_of(field.default)


def _limits(field: ParameterField) -> str:
    if field.kind == "choice":
        return ", ".join(field.choices)
    if field.kind == "bool":
        return "on, off"
    return f"{field.minimum:,} to {field.maximum:,}" if field.minimum is not None and field.maximum is not None else ""
