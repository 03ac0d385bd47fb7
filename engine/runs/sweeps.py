"""Finding the sweep that goes with a study: the same graph, on the same GPU, by the same cuDNN where there is one."""

from __future__ import annotations

from engine.records.run import RunKind, RunRecord
from engine.runs.library import Library


def sweep_beside(library: Library, run: RunRecord) -> RunRecord | None:
    """The newest sweep of the run's graph on its target's GPU model that measured anything; of the run's own cuDNN
    version before others, for its plans have the same keys. None where there is none of that version: plans of
    different versions are never joined."""
    same = [
        summary
        for summary in library.summaries()
        if summary.kind is RunKind.SWEEP
        and summary.graph_id == run.graph_id
        and (summary.gpu or summary.target) == run.target.gpu_name
        and summary.cudnn == run.environment.cudnn_backend
        and summary.measured
    ]
    newest = max(same, key=lambda summary: summary.started_at, default=None)
    return library.get(newest.id) if newest is not None else None
