"""What the doctor found out about a bundle: typed, with one exit status and sentences for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from engine.graph.tensors import FROZEN
from engine.records.passport import OutputAccuracy
from engine.records.plan import Status
from engine.records.wording import microseconds

FINE, WORSE, UNUSABLE = 0, 1, 2
"""Exit statuses: everything that could be checked here is right; slower than another, or only by its recipe; wrong,
damaged or unusable."""
NOT_ORIGIN = "Checksums prove that a bundle is whole, not where it comes from."


class Loading(BaseModel):
    """Whether cuDNN loads the serialized plan here; ``message``: why not."""

    model_config = FROZEN

    ok: bool
    milliseconds: float | None = None
    message: str | None = None


class Rebuilding(BaseModel):
    """Whether the recipe still builds the plan, under the same name. ``message``: why not, or what to know beside."""

    model_config = FROZEN

    ok: bool
    workspace_bytes: int | None = None
    milliseconds: float | None = None
    message: str | None = None


class Running(BaseModel):
    """What the plan does on this machine's GPU. ``median_us``: hot, sampled in turns with ``rivals``, of which ``best``
    is the fastest; ``inside``: whether the plan is in the tie set of them all, None where there is no other."""

    model_config = FROZEN

    gpu: str
    status: Status
    message: str | None = None
    accuracy: tuple[OutputAccuracy, ...] = ()
    median_us: float | None = None
    then_us: float | None = None
    best: str | None = None
    best_us: float | None = None
    rivals: tuple[str, ...] = ()
    inside: bool | None = None


class PlanCheckup(BaseModel):
    """One plan. ``rebuilding`` and ``running`` are None where that was not tried."""

    model_config = FROZEN

    graph: int
    pipeline: str
    plan_name: str
    plan_key: str
    is_default: bool
    loading: Loading
    rebuilding: Rebuilding | None = None
    running: Running | None = None

    @property
    def exit_status(self) -> int:
        """See FINE, WORSE, UNUSABLE."""
        rebuilds = self.rebuilding is None or self.rebuilding.ok
        if self.running is not None and self.running.status is not Status.OK:
            return UNUSABLE
        if not self.loading.ok:
            return WORSE if rebuilds else UNUSABLE  # also where nobody tried to rebuild it: a default decides, and was
        slower = self.running is not None and self.running.inside is False
        return WORSE if slower or not rebuilds else FINE

    def sentences(self) -> Iterator[str]:
        """What was found, in order."""
        yield _loading(self.loading)
        if self.rebuilding is not None:
            yield _rebuilding(self.rebuilding)
        if not self.loading.ok and self.exit_status == UNUSABLE and self.running is None:
            yield "load_plan.py would take the heuristics' choice in its place, and say so."
        if self.running is not None:
            yield from _running(self.running)


class Examination(BaseModel):
    """A whole bundle. ``refused``: why it is none, or not whole; then nothing else is known. ``cudnn``: the version at
    hand, None where it was not asked; ``onto``: what plans were loaded onto, in words."""

    model_config = FROZEN

    trusted: bool
    refused: str | None = None
    label: str | None = None
    files: int = 0
    remarks: tuple[str, ...] = ()
    cudnn: str | None = None
    made_by: str | None = None
    onto: str | None = None
    problem: str | None = None
    plans: tuple[PlanCheckup, ...] = ()

    @property
    def exit_status(self) -> int:
        """The worst of all."""
        if self.refused or self.problem:
            return UNUSABLE
        return max((plan.exit_status for plan in self.plans), default=FINE)

    @property
    def ran(self) -> bool:
        """Whether any plan was run."""
        return any(plan.running is not None for plan in self.plans)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.refused:
            return "Refused: nothing of it was given to cuDNN."
        if not self.trusted:
            return "Whole. Only its integrity was checked: loading it takes your trust in where it comes from."
        if self.problem:
            return "Whole, and it cannot be used here."
        where = "" if self.ran else " Nothing was run: this machine has no GPU."
        words = {
            FINE: "Fine: it loads, builds anew and is right, and no other plan tried is faster."
            if self.ran
            else "Fine: it loads and builds anew.",
            WORSE: "Usable, with less than it promises: see what was found.",
            UNUSABLE: "Wrong or unusable here.",
        }
        return words[self.exit_status] + where


def _loading(loading: Loading) -> str:
    if loading.ok:
        took = f" in {loading.milliseconds:.2g} ms" if loading.milliseconds is not None else ""
        return f"The serialized plan loads{took}."
    return f"The serialized plan does not load: {loading.message}"


def _rebuilding(built: Rebuilding) -> str:
    if not built.ok:
        return f"The recipe does not build: {built.message}"
    took = f" in {built.milliseconds:.0f} ms" if built.milliseconds is not None else ""
    return f"The recipe still builds this plan{took}." + (f" {built.message}" if built.message else "")


def _running(run: Running) -> Iterator[str]:
    if run.status is not Status.OK:
        yield f"On {run.gpu} it ended as {str(run.status).replace('_', ' ')}: {run.message}"
        return
    yield f"On {run.gpu} every output is right."
    if run.median_us is None:
        yield f"It was not timed: {run.message}" if run.message else "It was not timed."
        return
    then = f", {microseconds(run.then_us)} when it was chosen" if run.then_us is not None else ""
    yield f"It takes {microseconds(run.median_us)} hot{then}."
    if run.inside is None:
        yield "There is no other plan to hold it against."
    elif run.inside:
        yield f"It is still among the best of {len(run.rivals) + 1} plans sampled in turns."
    else:
        yield f"{run.best} is faster: {microseconds(run.best_us or 0.0)}."
