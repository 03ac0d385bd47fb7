"""What goes into a bundle: plans of runs that are there, or of a pipeline that is planned and built now."""

from __future__ import annotations

import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.cancelling import CANCELLED
from engine.cli.finding import open_run
from engine.cli.options import find_target, parse_builders, parse_modes, parse_parameters
from engine.cli.output import say
from engine.graph.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.bundles.export import Part
    from engine.records.plan import PlanRecord
    from engine.records.run import RunRecord

MOST_SIZES = 64


def parts_of_runs(runs: list[str], plan: str | None, every_plan: bool) -> list[Part]:
    """One part per run: the plan asked for, the default one, or with ``every_plan`` all, the default first."""
    parts = []
    for text in runs:
        with open_run(text) as (run, blob, _origin):
            parts.append(_part(run, blob, plan, every_plan))
    return parts


def parts_of_pipeline(
    pipeline: str,
    parameter: list[str] | None,
    dtype: str | None,
    layout: str | None,
    sizes: str | None,
    target: str | None,
    modes: str,
    builders: int | None,
    plan: str | None,
    cancel: threading.Event,
) -> list[Part] | int:
    """One part per size, with every plan that was built, as the heuristics list them; an exit status where cuDNN
    refuses a graph, or the work was cancelled."""
    from dataclasses import replace

    from engine.cli.planning import as_run, plan_all, say_refusal
    from engine.graph.pipelines import pipeline as find_pipeline
    from engine.plans.limits import check_memory
    from engine.plans.variants import nearby
    from engine.records.options import SweepOptions

    found, at, options = find_pipeline(pipeline), find_target(target), SweepOptions(modes=parse_modes(modes))
    wanted = [parse_parameters(found, [*(parameter or ()), *extra], dtype, layout) for extra in parse_sizes(sizes)]
    for texts, spec in wanted:
        check_memory(spec, at.info, found, texts)
    parts: list[Part] = []
    with tempfile.TemporaryDirectory(prefix="planscope-") as name:
        folder, size = Path(name), parse_builders(builders)
        for texts, spec in wanted:
            started = datetime.now(UTC)
            outcome = plan_all(spec, nearby(found, texts), at, options, size, folder, True, cancel)
            for remark in outcome.remarks:
                say(f"note: {remark}")
            if outcome.cancelled or outcome.environment is None:
                return CANCELLED
            if outcome.refusal is not None:
                say_refusal(outcome.refusal)
                return 1
            run = as_run(pipeline, texts, spec, at, options, started, outcome, outcome.environment)
            part = _part(run, lambda sha256: (folder / sha256).read_bytes(), plan, plan is None)
            parts.append(replace(part, properties=at.properties))
    return parts


def parse_sizes(text: str | None) -> list[list[str]]:
    """``n=8,16`` as [["n=8"], ["n=16"]]; nothing as [[]]."""
    if text is None:
        return [[]]
    letter, equals, values = text.partition("=")
    sizes = list(dict.fromkeys(value.strip() for value in values.split(",")))
    if not equals or not letter.strip() or not all(sizes):
        raise invalid("--sizes", text, "sizes are written LETTER=A,B,C.", "For example --sizes n=8,16,24.")
    if len(sizes) > MOST_SIZES:
        raise invalid("--sizes", text, f"at most {MOST_SIZES} sizes.", "Give fewer.")
    return [[f"{letter.strip()}={size}"] for size in sizes]


def _part(run: RunRecord, blob: Callable[[str], bytes], plan: str | None, every_plan: bool) -> Part:
    from engine.bundles.choosing import built_plans, default_plan
    from engine.bundles.export import Part

    chosen, why = default_plan(run) if plan is None else (_find_plan(run, plan), "the plan asked for")
    others = [other for other in built_plans(run) if other.key != chosen.key] if every_plan else []
    plans = (chosen, *others)
    digests = {own.blob_sha256 for own in plans if own.blob_sha256}
    return Part(run, plans, {sha256: blob(sha256) for sha256 in sorted(digests)}, why)


def _find_plan(run: RunRecord, text: str) -> PlanRecord:
    found = [plan for plan in run.plans if text in (plan.key, plan.plan_name)]
    if len(found) != 1:
        rule = "the run has no plan of this key." if not found else f"{len(found)} plans of the run have this name."
        raise invalid("--plan", text, rule, "`runs show RUN --json` lists their keys.")
    return found[0]
