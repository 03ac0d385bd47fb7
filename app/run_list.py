"""Runs and recordings as a list: which are shown, and what each says of itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.links import ExploreState, differing
from app.table_view import Cell, Column, Row, Table
from app.theme import NOTHING, fmt_ratio, fmt_us
from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.records.plan import Status
from engine.runs.summary import Origin, RunSummary

ORIGIN_WORDS = {Origin.OWN: "own", Origin.IMPORTED: "imported", Origin.RECORDING: "recorded"}
_TITLE = Column("title")
_COLUMNS = (
    Column("pipeline"),
    Column("shape", "large inputs with their dims, then what differs from the defaults"),
    Column("GPU", "that measured it, or that it was planned for"),
    Column("winner (hot)", "median GPU time of the winner: of plans that tie, not always the smallest", number=True),
    Column("vs first pick", "time of the heuristics' first pick over the winner's", number=True),
    Column("vs torch", "time of torch eager over the winner's: below 1, torch is faster", number=True),
    Column("cuDNN"),
    Column("date (UTC)"),
    Column("origin"),
    Column("state"),
    Column("winner", "the plan that wins; of plans that tie, the one that Explore names as chosen"),
    Column("plans", "that ended well, of all", number=True),
    Column("torch"),
    Column("frontend"),
)


@dataclass(frozen=True)
class Filter:
    """What a run must have to be listed; empty: anything."""

    pipeline: str = ""
    gpu: str = ""
    origin: Origin | None = None

    def keeps(self, run: RunSummary) -> bool:
        """Whether the run is listed."""
        return (
            self.pipeline in ("", run.pipeline) and self.gpu in ("", gpu_of(run)) and self.origin in (None, run.origin)
        )


def gpu_of(run: RunSummary) -> str:
    """The GPU that measured a run, or that it was planned for."""
    return run.gpu or run.target


def choices(runs: Iterable[RunSummary]) -> tuple[list[str], list[str]]:
    """Pipelines and GPUs there are among the runs, each in alphabetical order."""
    runs = list(runs)
    return sorted({run.pipeline for run in runs}), sorted({gpu_of(run) for run in runs})


def run_table(runs: Sequence[RunSummary]) -> Table:
    """Headings and one row a run, its key the run's id; titles have a column where any run has one."""
    titled = any(run.title for run in runs)
    columns = (_COLUMNS[0], _TITLE, *_COLUMNS[1:]) if titled else _COLUMNS
    rows = []
    for run in runs:
        first, *rest = _cells(run)
        rows.append(Row(run.id, (first, Cell(run.title), *rest) if titled else (first, *rest)))
    return Table("Runs", columns, tuple(rows))


def _cells(run: RunSummary) -> tuple[Cell, ...]:
    good = run.counts.get(Status.OK, 0)
    return (
        Cell(run.pipeline),
        Cell(run.shape),
        Cell(gpu_of(run) if run.gpu else f"{run.target} (planned)"),
        Cell(fmt_us(run.best_us), run.best_us),
        Cell(fmt_ratio(run.speedup_vs_first_pick), run.speedup_vs_first_pick),
        Cell(fmt_ratio(run.speedup_vs_torch), run.speedup_vs_torch),
        Cell(run.cudnn),
        Cell(f"{run.started_at:%Y-%m-%d %H:%M}"),
        Cell(ORIGIN_WORDS[run.origin]),
        Cell(f"{run.status}, a study of reuse" if run.reuse else str(run.status)),
        Cell(run.best_name or NOTHING),
        Cell(f"{good} of {run.plans}", good),
        Cell(run.torch or NOTHING),
        Cell(run.frontend),
    )


def explore_state(run: RunSummary) -> ExploreState | None:
    """The Explore page's state that shows a run; None where its pipeline or parameters are not of this version."""
    chosen = CATALOGUE.get(run.pipeline)
    if chosen is None:
        return None
    try:
        if chosen.graph(run.parameters).graph_id != run.graph_id:
            return None
    except InvalidInput:
        return None
    return ExploreState(pipeline=run.pipeline, given=differing(chosen, run.parameters), run=run.id)
