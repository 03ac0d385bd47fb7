"""`bench`: this project's own speed and timing, held against the straightforward way and other timers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.measuring import PresetName, parse_preset
from engine.cli.options import Builders, Json, parse_builders
from engine.cli.output import Failed, check_writable, emit_json, print_facts, print_table, say, write_file

if TYPE_CHECKING:
    from engine.bench.repeating import Repeats
    from engine.bench.sweeping import Comparison
    from engine.bench.timing import TimedPlan
    from engine.plans.targets import Target
    from engine.records.environment import GpuInfo
    from engine.records.options import SweepOptions

commands = typer.Typer(help="Measure Planscope itself on this machine's GPU.", no_args_is_help=True)
Pipelines = Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE]...", help="By default those named below.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE.json", help="Write the JSON document to a file too.")]
YARDSTICKS = ("conv_bias_relu", "matmul_epilogue", "sdpa")


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
    by default conv_bias_relu, matmul_epilogue and sdpa."""
    from engine.bench.sweeping import compare, run_yardstick
    from engine.jobs.protocol import JobError

    names, options, size = _pipelines(pipelines, YARDSTICKS), _options(preset), parse_builders(builders)
    target, gpu = _local(out)
    found: list[Comparison] = []
    try:
        yardsticks: list[dict[str, Any] | None] = [None] * len(names)
        if yardstick:
            say(f"the straightforward sweep of {', '.join(names)} ...")
            yardsticks = list(run_yardstick(names, str(gpu.uuid)))
        for name, account in zip(names, yardsticks, strict=True):
            say(f"Planscope's sweep of {name} ...")
            file = None if keep is None else keep / f"{name}.zip"
            found.append(compare(name, account, target, gpu, options, size, file))
    except JobError as error:
        raise Failed(str(error)) from None
    _write(out, as_json, "sweep", preset, [_comparison(one) for one in found])
    if not as_json:
        _print_comparisons(found)
    return 0


@commands.command("timing")
def timing(
    pipelines: Pipelines = None,
    plans: Annotated[int, typer.Option("--plans", metavar="N", min=1, help="How many plans of each graph.")] = 6,
    builders: Builders = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Time the same plans by the hot regime, by triton's do_bench_cudagraph and by their kernels' own times; by default
    of every pipeline."""
    from engine.bench.timing import time_pipeline
    from engine.graph.pipelines import CATALOGUE
    from engine.jobs.planning import CannotPlan
    from engine.jobs.protocol import JobError

    names, size = _pipelines(pipelines, tuple(CATALOGUE)), parse_builders(builders)
    target, _ = _local(out)
    found: list[TimedPlan] = []
    try:
        for name in names:
            say(f"plans of {name} ...")
            found += time_pipeline(name, target, size, plans)
    except (JobError, CannotPlan) as error:
        raise Failed(str(error)) from None
    _write(out, as_json, "timing", None, [_timed(plan) for plan in found])
    if not as_json:
        _print_timed(found)
    return 0


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
    others; by default every pipeline. Exit status 1 where it is not."""
    from engine.bench.repeating import repeat as sweep_again
    from engine.graph.pipelines import CATALOGUE
    from engine.jobs.protocol import JobError

    names, size = _pipelines(pipelines, tuple(CATALOGUE)), parse_builders(builders)
    options = _options(preset).model_copy(update={"compute_cache": compute_cache})
    target, gpu = _local(out)
    found: list[Repeats] = []
    try:
        for name in names:
            say(f"{times} sweeps of {name} ...")
            found.append(sweep_again(name, times, target, gpu, options, size))
    except JobError as error:
        raise Failed(str(error)) from None
    content = [{**one.model_dump(mode="json"), "disagreements": one.disagreements} for one in found]
    _write(out, as_json, "repeat", preset, content)
    if not as_json:
        _print_repeats(found)
    return 1 if any(one.disagreements for one in found) else 0


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
        raise Failed("A benchmark measures, and this machine has no NVIDIA GPU that the driver offers.")
    target = resolve_target("local")
    return target, pick_gpu(target, gpus)


def _write(out: Path | None, as_json: bool, what: str, preset: str | None, results: list[dict[str, Any]]) -> None:
    import json

    document = {
        "benchmark": what,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "preset": preset,
        "gpu": _gpu_name(),
        "results": results,
    }
    if as_json:
        emit_json(document)
    if out is not None:
        write_file(out, json.dumps(document, indent=1).encode())


def _gpu_name() -> str | None:
    from engine.machine.gpus import list_gpus

    return next((gpu.name for gpu in list_gpus()), None)


def _comparison(one: Comparison) -> dict[str, Any]:
    derived = {"ratio": one.ratio, "floor_s": one.floor.total_s, "allowed_s": one.floor.allowed_s}
    return {**one.model_dump(mode="json"), **derived}


def _timed(plan: TimedPlan) -> dict[str, Any]:
    derived = {"off_triton": plan.off_triton, "off_kernels": plan.off_kernels, "gap_us": plan.gap_us}
    return {**plan.model_dump(mode="json"), **derived}


def _print_comparisons(found: list[Comparison]) -> None:
    header = (
        "pipeline",
        "yardstick_s",
        "planscope_s",
        "ratio",
        "floor_s",
        "allowed_s",
        "list_s",
        "build_s",
        "rounds_s",
    )
    rows = [
        (
            one.pipeline,
            _seconds(float(one.yardstick["total_s"]) if one.yardstick else None),
            _seconds(one.span_s),
            f"{one.ratio:.2f}" if one.ratio else None,
            _seconds(one.floor.total_s),
            _seconds(one.floor.allowed_s),
            _seconds(one.phases.list_s),
            _seconds(one.phases.build_s),
            _seconds(one.phases.rounds_s),
        )
        for one in found
    ]
    print_table(header, rows)
    for one in found:
        floor, counted = one.floor, sorted(set(one.executions_per_sample.values()))
        print(f"\n{one.pipeline}, {one.builders} builders")
        yard = one.yardstick
        print_facts(
            [
                (
                    "yardstick",
                    yard and f"{yard['plans']} plans built in {yard['build_s']:.2f} s, then timed by a loop of 15",
                ),
                ("", yard and f"executions each in {yard['timing_s']:.2f} s; nothing compared"),
                (
                    "planscope",
                    f"{one.plans} plans built, {one.right} right by the reference; {one.survivors} survivors with",
                ),
                ("", f"at least {one.least_samples} samples of {counted} executions each"),
                (
                    "floor",
                    f"{floor.build_s:.2f} s build of {floor.slowest_plan} alone, {floor.survivors_s:.2f} s samples,",
                ),
                ("", f"{floor.others_s:.2f} s one execution of each other plan"),
                (
                    "beside",
                    f"data and reference {_seconds(one.prepare_s)} s, comparing {_seconds(one.phases.check_s)} s,",
                ),
                ("", f"screening {_seconds(one.phases.screen_s)} s, while plans were built"),
                ("afterwards", _afterwards(one)),
            ]
        )


def _afterwards(one: Comparison) -> str:
    names = ("cold_s", "host_s", "passport_s", "confirmation_s", "total_s")
    return ", ".join(f"{name} {_seconds(getattr(one.phases, name))}" for name in names)


def _print_timed(found: list[TimedPlan]) -> None:
    header = ("pipeline", "plan", "hot_us", "triton_us", "off", "kernels_us", "off", "kernels", "gap_us")
    rows = [
        (
            plan.pipeline,
            plan.plan if plan.message is None else f"{plan.plan}: {plan.message}",
            _number(plan.hot_us),
            _number(plan.triton_us),
            _percent(plan.off_triton),
            _number(plan.kernels_us),
            _percent(plan.off_kernels),
            _number(plan.kernels),
            _number(plan.gap_us),
        )
        for plan in found
    ]
    print_table(header, rows)


def _print_repeats(found: list[Repeats]) -> None:
    rows = [
        (
            one.pipeline,
            number,
            sweep.winner,
            f"{sweep.medians_us[sweep.winner]:.2f}",
            len(sweep.tie_set),
            "yes" if not any(number - 1 in pair for pair in one.disagreements) else "no",
        )
        for one in found
        for number, sweep in enumerate(one.sweeps, 1)
    ]
    print_table(("pipeline", "sweep", "winner", "hot_us", "tied", "agrees"), rows)


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{value:+.1%}"
