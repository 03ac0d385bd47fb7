"""`bench`: this project's own speed and timing, held against the straightforward way and other timers."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from engine.cli.cancelling import CANCELLED
from engine.cli.measuring import PresetName, parse_preset
from engine.cli.options import Builders, Json, parse_builders
from engine.cli.output import Failed, check_writable, emit_json, say, write_file

if TYPE_CHECKING:
    from engine.bench.sweeping import Comparison
    from engine.bench.timing import TimedPlan
    from engine.plans.targets import Target
    from engine.records.environment import GpuInfo
    from engine.records.options import SweepOptions

commands = typer.Typer(help="Measure Planscope itself on this machine's GPU.", no_args_is_help=True)
Pipelines = Annotated[list[str] | None, typer.Argument(metavar="PIPELINE", help="By default those named below.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE.json", help="Write the JSON document to a file too.")]
R = TypeVar("R")
YARDSTICKS = ("conv_bias_relu", "matmul_epilogue", "sdpa")
STOPPED = "cancelled"


@commands.command("sweep")
def sweep(
    pipelines: Pipelines = None,
    preset: PresetName = "standard",
    builders: Builders = None,
    yardstick: Annotated[bool, typer.Option(help="Run the straightforward sweep as well.")] = True,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep each sweep as a run file in this folder.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Sweep graphs the straightforward way and Planscope's way, each with a cold compute cache, and compare the times;
    by default conv_bias_relu, matmul_epilogue and sdpa. Exit status 1 where one could not be swept."""
    from engine.bench.sweeping import COVERED, WANTED, compare, run_yardstick
    from engine.cli.bench_tables import print_comparisons
    from engine.jobs.protocol import JobError

    names, options, size = _pipelines(pipelines, YARDSTICKS), _options(preset), parse_builders(builders)
    if keep is not None:
        for name in names:
            check_writable(keep / f"{name}.zip", "--keep")
    target, gpu = _local(out)
    yardsticks: dict[str, dict[str, Any]] = {}
    left, stopped = names, dict[str, str]()
    if yardstick:
        say(f"the straightforward sweep of {', '.join(names)} ...")
        try:
            with _interruptible():
                yardsticks = dict(zip(names, run_yardstick(names, str(gpu.uuid)), strict=True))
        except JobError as error:
            raise Failed(str(error)) from None
        except KeyboardInterrupt:
            left, stopped = [], dict.fromkeys(names, STOPPED)

    def work(name: str) -> list[Comparison]:
        file = None if keep is None else keep / f"{name}.zip"
        return [compare(name, yardsticks.get(name), target, gpu, options, size, file)]

    found, failed = _each(left, "Planscope's sweep", work)
    failed |= stopped
    results = [
        {
            **one.model_dump(mode="json"),
            "ratio": one.ratio,
            "wanted_ratio": WANTED.get(one.pipeline),
            "floor_s": one.floor.total_s,
            "allowed_s": one.floor.allowed_s,
            "is_fast_enough": one.is_fast_enough,
        }
        for one in found
    ]
    _write(out, as_json, {"benchmark": "sweep", "preset": preset, "covered": COVERED}, results, failed)
    if not as_json:
        print_comparisons(found)
    return _status(failed, False)


@commands.command("timing")
def timing(
    pipelines: Pipelines = None,
    plans: Annotated[int, typer.Option("--plans", metavar="N", min=1, help="How many plans of each graph.")] = 6,
    builders: Builders = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Time the same plans by the hot regime, by triton's do_bench_cudagraph and by their kernels' own times; by default
    of every pipeline. Exit status 1 where a plan could not be timed, or a timer disagrees where it has to agree."""
    from engine.bench.timing import time_pipeline
    from engine.cli.bench_tables import print_timed
    from engine.graph.pipelines import CATALOGUE

    names, size = _pipelines(pipelines, tuple(CATALOGUE)), parse_builders(builders)
    target, _ = _local(out)
    found, failed = _each(names, "timers on plans", lambda name: [time_pipeline(name, target, size, plans)])
    results = [{**one.model_dump(mode="json"), "plans": [_timed(plan) for plan in one.plans]} for one in found]
    _write(out, as_json, {"benchmark": "timing"}, results, failed)
    if not as_json:
        print_timed(found)
    timed = [plan for one in found for plan in one.plans]
    wrong = any(plan.message or False in (plan.agrees_with_triton, plan.agrees_with_kernels) for plan in timed)
    return _status(failed, wrong)


@commands.command("repeat")
def repeat(
    pipelines: Pipelines = None,
    times: Annotated[int, typer.Option("--times", metavar="N", min=2, help="Sweeps of each graph.")] = 5,
    preset: PresetName = "standard",
    builders: Builders = None,
    compute_cache: Annotated[
        bool, typer.Option(help="Let the driver keep compiled kernels from one sweep to the next.")
    ] = True,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Sweep each graph several times, by new processes, and see whether the winner of each is in the tie set of all
    others; by default every pipeline. Exit status 1 where it is not, or one could not be swept."""
    from engine.bench.repeating import repeat as sweep_again
    from engine.cli.bench_tables import print_repeats
    from engine.graph.pipelines import CATALOGUE

    names, size = _pipelines(pipelines, tuple(CATALOGUE)), parse_builders(builders)
    options = _options(preset).model_copy(update={"compute_cache": compute_cache})
    target, gpu = _local(out)
    found, failed = _each(names, f"{times} sweeps", lambda name: [sweep_again(name, times, target, gpu, options, size)])
    results = [{**one.model_dump(mode="json"), "disagreements": one.disagreements} for one in found]
    _write(out, as_json, {"benchmark": "repeat", "preset": preset}, results, failed)
    if not as_json:
        print_repeats(found)
    return _status(failed, any(one.disagreements for one in found))


def _timed(plan: TimedPlan) -> dict[str, Any]:
    return {
        **plan.model_dump(mode="json"),
        "off_triton": plan.off_triton,
        "off_kernels": plan.off_kernels,
        "gap_us": plan.gap_us,
        "agrees_with_triton": plan.agrees_with_triton,
        "agrees_with_kernels": plan.agrees_with_kernels,
    }


def _each(names: list[str], what: str, work: Callable[[str], list[R]]) -> tuple[list[R], dict[str, str]]:
    """What ``work`` gives for each pipeline, and why where it fails or nobody waits for it any more: minutes of the
    others' measuring are not lost."""
    from engine.jobs.planning import CannotPlan
    from engine.jobs.protocol import JobError

    found: list[R] = []
    failed: dict[str, str] = {}
    with _interruptible():
        for name in names:
            say(f"{what} of {name} ...")
            try:
                found += work(name)
            except (JobError, CannotPlan) as error:
                failed[name] = str(error)
                say(f"{name}: {error}")
            except KeyboardInterrupt:
                failed |= dict.fromkeys(names[names.index(name) :], STOPPED)
                break
    return found, failed


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt here, where it would end the process then and there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _status(failed: dict[str, str], wrong: bool) -> int:
    return CANCELLED if STOPPED in failed.values() else int(bool(failed) or wrong)


def _pipelines(given: list[str] | None, otherwise: tuple[str, ...]) -> list[str]:
    from engine.graph.pipelines import pipeline

    return [pipeline(name).name for name in given or otherwise]


def _options(preset: str) -> SweepOptions:
    from engine.records.options import SweepOptions

    return SweepOptions(preset=parse_preset(preset))


def _local(out: Path | None) -> tuple[Target, GpuInfo]:
    from engine.jobs.request import pick_gpu
    from engine.machine.gpus import list_gpus
    from engine.plans.targets import resolve_target

    if out is not None:
        check_writable(out)
    gpus = list_gpus()
    if not gpus:
        raise Failed(
            "A benchmark measures, and this machine has no NVIDIA GPU that the driver offers.",
            "Those recorded on an H200 are the JSON files in engine/runs/recordings/benchmarks.",
        )
    target = resolve_target("local")
    return target, pick_gpu(target, gpus)


def _write(
    out: Path | None,
    as_json: bool,
    head: dict[str, Any],
    results: list[dict[str, Any]],
    failed: dict[str, str],
) -> None:
    import json

    at = datetime.now(UTC).isoformat(timespec="seconds")
    document = {**head, "at": at, "gpu": _gpu_name(), "results": results, "failed": failed}
    if as_json:
        emit_json(document)
    if out is not None:
        write_file(out, json.dumps(document, indent=1).encode())


def _gpu_name() -> str | None:
    from engine.machine.gpus import list_gpus

    return next((gpu.name for gpu in list_gpus()), None)
