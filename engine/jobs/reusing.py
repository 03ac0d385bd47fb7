"""A study of reuse as a job: it waits in its queue as a sweep does, says how far it is, and the store keeps what it
measured."""

from __future__ import annotations

import tempfile
from pathlib import Path

from engine.jobs.job import Job
from engine.jobs.protocol import JobError
from engine.jobs.request import Progress, Study
from engine.jobs.snapshots import JobState
from engine.jobs.studying import Processes, study
from engine.records.run import RunRecord
from engine.runs.store import Store


def conduct(job: Job, asked: Study, store: Store, processes: Processes) -> None:
    """To the job's end. Raises JobCancelled, CannotPlan, JobError and StoreError where nothing was kept."""

    def report(what: str, done: int, total: int, left_s: float | None) -> None:
        job.report(Progress(done=done, total=total, eta_s=left_s, message=what))

    with tempfile.TemporaryDirectory(prefix="planscope-") as name:
        run, outcome = study(asked, Path(name), job.cancel, report, processes)
        if run.reuse is None:
            raise JobError(_why_none(run))
        keep_study(store, run, Path(name))
    steps = len(run.reuse.costs)
    job.report(Progress(done=steps, total=steps, message="studied", remarks=outcome.remarks, run_id=run.id))
    job.end(JobState.DONE, "studied")


def _why_none(run: RunRecord) -> str:
    """Why there is nothing to study, in cuDNN's words: its refusal, or the first error of a plan."""
    if run.refusal is not None:
        return " ".join((run.refusal.message, *run.refusal.reasons[:1]))
    message = next((plan.message for plan in run.plans if plan.message), None)
    return f"cuDNN built no plan: {message}" if message else "cuDNN built no plan"


def keep_study(store: Store, run: RunRecord, folder: Path) -> None:
    """Put a study and its serialized plans, which lie in ``folder``, into the store."""
    for sha256 in digests(run):
        store.put_blob((folder / sha256).read_bytes())
    store.create_run(run)


def digests(run: RunRecord) -> list[str]:
    """The SHA-256 of every serialized plan of a run, each once."""
    return sorted({plan.blob_sha256 for plan in run.plans if plan.blob_sha256})
