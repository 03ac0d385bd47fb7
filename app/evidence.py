"""What a page may show of a graph: runs that match it, or plans made here and now. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.graph_nodes import cleaned
from app.links import ExploreState, differing
from app.theme import NOTHING, fmt_date, fmt_us
from engine.graph.pipelines import CATALOGUE
from engine.graph.spec import GraphSpec
from engine.graph.tensors import Role
from engine.jobs.snapshots import JobSnapshot, JobState
from engine.records.options import SweepOptions
from engine.records.run import RunKind, RunRecord, RunStatus, TargetInfo
from engine.runs.nearest import Nearest
from engine.runs.summary import Origin, RunSummary

HERE = "here"
"""In a link: plan with the cuDNN at hand instead of opening a run."""
_MADE = {Origin.OWN: "measured here on", Origin.IMPORTED: "imported, measured on", Origin.RECORDING: "recorded on"}
_ENDS = {
    JobState.DONE: RunStatus.DONE,
    JobState.CANCELLED: RunStatus.CANCELLED,
    JobState.FAILED: RunStatus.FAILED,
}


def run_label(run: RunSummary) -> str:
    """Where a run's numbers come from, in a line: "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-01-30"."""
    what = f"cuDNN {run.cudnn}, {fmt_date(run.started_at)}"
    label = f"{_MADE[run.origin]} {run.gpu}, {what}" if run.gpu else f"planned for {run.target}, {what}"
    label += ", a study of reuse" if run.reuse else ""
    ended = "" if run.status is RunStatus.DONE else f" ({run.status})"
    return cleaned(f"{run.title}: {label}{ended}" if run.title else label + ended)


def run_words(runs: Sequence[RunSummary]) -> dict[str, str]:
    """The runs' labels, by id; those that read the same with the time of day and what each came to."""
    labels = {run.id: run_label(run) for run in runs}
    often = Counter(labels.values())
    for run in runs:
        if often[label := labels[run.id]] > 1:
            came_to = "" if run.best_us is None else f", winner {fmt_us(run.best_us)}"
            labels[run.id] = f"{label} · {run.started_at:%H:%M} UTC{came_to}"
    return labels


def here_label(cudnn: str, target: TargetInfo) -> str:
    """The choice to plan here."""
    return f"planned here for {target.gpu_name}, cuDNN {cudnn}, not measured"


def choose(runs: Sequence[RunSummary], wanted: str, target: TargetInfo) -> str:
    """What to show: what is ``wanted`` where there is such a thing, else the best run on the target's own GPU model
    (``runs`` come best first), else HERE. A run on another GPU, and one still under way, is offered, never chosen
    unasked."""
    if wanted == HERE or any(run.id == wanted for run in runs):
        return wanted
    ended = (run for run in runs if run.status not in (RunStatus.QUEUED, RunStatus.RUNNING))
    return next((run.id for run in ended if target.gpu_name in (run.gpu, run.target)), HERE)


def nearest_text(near: Nearest) -> str:
    """How the nearest measured run differs from what was asked: "n = 8 instead of 16"."""
    differing = near.differing.items()
    parts = [f"{letter} = {there or 'default'} instead of {asked or 'default'}" for letter, (asked, there) in differing]
    return ", ".join(parts) or "the same parameters"


def best_text(run: RunSummary) -> str:
    """A run's outcome in a line. (Of plans that tie, the winner is not always the one of the smallest median.)"""
    if run.best_us is None:
        return NOTHING
    torch = f", torch eager {fmt_us(run.torch_us)}" if run.torch_us is not None else ""
    return f"winner {fmt_us(run.best_us)}{torch}"


def other_scalars(asked: GraphSpec, run: GraphSpec) -> str:
    """What a run of the same graph passes by value and how that differs from what is asked, "" where it does not:
    "alpha = 0.125 instead of 5". Such values are no part of a graph's id, for plans do not depend on them."""
    there = {tensor.name: tensor.value for tensor in run.with_role(Role.SCALAR)}
    return ", ".join(
        f"{scalar.name} = {there[scalar.name]:.9g} instead of {scalar.value:.9g}"
        for scalar in asked.with_role(Role.SCALAR)
        if there.get(scalar.name, scalar.value) != scalar.value
    )


def planned_run(job: JobSnapshot, parameters: Mapping[str, str], graph: GraphSpec) -> RunRecord | None:
    """A plan job that has ended as a run, which charts, details and bundles take like any other; None where it ended
    before any worker could say what it runs on.

    ``parameters`` and ``graph`` are what is asked: a job's own may pass other scalars by value, for it answers whoever
    asks for the same plans.
    """
    if job.environment is None or not job.state.ended:
        return None
    return RunRecord(
        id=job.id,
        kind=RunKind.PLAN,
        status=_ENDS[job.state],
        pipeline=job.pipeline,
        parameters=dict(parameters),
        graph=graph,
        target=job.target,
        environment=job.environment,
        options=SweepOptions(),
        started_at=job.submitted_at,
        message=job.message,
        refusal=job.refusal,
        plans=job.plans,
    )


def settle_run(state: ExploreState, run: RunSummary | None, graph_id: str, bare: bool) -> tuple[ExploreState, str]:
    """What a link's run comes to: the state to show, and what to tell the person ("" where all is well).

    ``run``: the run of that id, None where there is none here; ``graph_id``: of the graph that the rest of the link
    describes; ``bare``: the link names a run and no pipeline, so the run brings its own.
    """
    if state.run in ("", HERE) or (run is not None and run.graph_id == graph_id):
        return state, ""
    if run is None:
        message = "This link's run is not here. Ask for its run file and import it on the Runs page."
    elif bare and run.pipeline in CATALOGUE:
        given = differing(CATALOGUE[run.pipeline], run.parameters)
        return replace(state, pipeline=run.pipeline, given=given), ""
    else:
        message = f"This link's run is of another graph ({run.pipeline}: {run.shape}), so it was not opened."
    return replace(state, run="", plan=""), message
