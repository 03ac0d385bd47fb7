"""All runs a person can look at: their own, imported ones, and the recordings shipped with the project."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from engine.graph.errors import invalid
from engine.graph.pipelines import pipeline as pipeline_of
from engine.records.run import RunRecord
from engine.runs.archive import Imported, export_run, import_run
from engine.runs.database import StoreLocked
from engine.runs.nearest import Nearest, nearest
from engine.runs.recordings import Recordings
from engine.runs.rows import unknown_run
from engine.runs.store import Store, StoreError
from engine.runs.summary import ACTIVE, Origin, RunSummary

__all__ = ["Library", "Nearest"]

_LOG = logging.getLogger(__name__)
_PREFERENCE = (Origin.OWN, Origin.IMPORTED, Origin.RECORDING)
_KEPT = 8  # parsed runs of the store: a page asks for the same one on every rerun


class Library:
    """The store and the recordings, looked up together. Safe from any thread.

    ``store`` is None where the data folder cannot be used: recordings can be looked at even then.
    """

    def __init__(self, store: Store | None, recordings: Recordings | None = None) -> None:
        self.store = store
        self.recordings = recordings if recordings is not None else Recordings()
        self._listed: tuple[tuple[int, int], list[RunSummary]] | None = None
        self._opened: OrderedDict[str, tuple[int, RunRecord]] = OrderedDict()
        self._lock = threading.Lock()

    def change_token(self, run_id: str | None = None) -> tuple[int, int]:
        """Changes whenever anything (or this run) does; takes well under a millisecond."""
        return (self.store.change_token(run_id) if self.store else 0, self.recordings.change_token())

    def summaries(self) -> list[RunSummary]:
        """Every run in brief, newest first."""
        if self._listed is not None and any(run.status in ACTIVE for run in self._listed[1]):
            self._interrupt_abandoned()
        token = self.change_token()
        cached = self._listed  # one reference: another thread may replace it meanwhile
        if cached is None or cached[0] != token:
            runs = self._list()
            cached = token, sorted(runs, key=lambda run: run.started_at, reverse=True)
            self._listed = cached
        return list(cached[1])

    def get(self, run_id: str) -> RunRecord:
        """A whole run. Raises InvalidInput where there is none of this id."""
        if self.store is None or self.recordings.has(run_id):
            return self.recordings.get(run_id)
        token = self.store.change_token(run_id)
        with self._lock:
            known = self._opened.get(run_id)
        # The token was read first: a run that changes meanwhile is kept under an older one, and read again next time.
        run = known[1] if known and known[0] == token else self.store.get(run_id)
        if run.status in ACTIVE and self._interrupt_abandoned():
            run = self.store.get(run_id)
        with self._lock:
            self._opened[run_id] = token, run
            self._opened.move_to_end(run_id)
            while len(self._opened) > _KEPT:
                self._opened.popitem(last=False)
        return run

    def summary(self, run_id: str) -> RunSummary:
        """A run in brief. Raises InvalidInput where there is none of this id."""
        found = next((run for run in self.summaries() if run.id == run_id), None)
        if found is None:
            raise unknown_run(run_id)
        return found

    def blob(self, run_id: str, sha256: str) -> bytes:
        """A serialized plan of a run, checked against its digest."""
        if self.store is None or self.recordings.has(run_id):
            return self.recordings.blob(run_id, sha256)
        return self.store.blob(run_id, sha256)

    def matching(self, graph_id: str) -> list[RunSummary]:
        """Runs of this graph, best first: measured before planned, own before imported before recorded; of recordings
        the one that timed most plans, of others the newest."""
        runs = [run for run in self.summaries() if run.graph_id == graph_id]
        return sorted(runs, key=lambda run: (not run.measured, *_preference(run)))

    def nearest(self, pipeline: str, parameters: Mapping[str, Any]) -> Nearest | None:
        """The measured run of this pipeline whose shape is nearest. Raises InvalidInput on parameters that are none."""
        runs = sorted(self.summaries(), key=_preference)
        return nearest(pipeline_of(pipeline), parameters, runs)

    def export(self, run_id: str) -> bytes:
        """A run as a run file; a recording as the very file that ships."""
        return self.recordings.file(run_id) if self.recordings.has(run_id) else export_run(self, run_id)

    def import_run(self, data: bytes) -> Imported:
        """Keep a run file's run. Raises InvalidInput where the file is not in order."""
        return import_run(self._writable(), data, self.recordings)

    def rename(self, run_id: str, title: str) -> None:
        """Give a run a title. Raises InvalidInput for a recording."""
        self._own(run_id).rename(run_id, title)

    def delete(self, run_id: str) -> None:
        """Remove a run. Raises InvalidInput for a recording, and for a run under way."""
        self._own(run_id).delete(run_id)

    def _list(self) -> list[RunSummary]:
        if self.store is None:
            return self.recordings.summaries()
        runs = self.store.summaries()
        if any(run.status in ACTIVE for run in runs) and self._interrupt_abandoned():
            runs = self.store.summaries()
        return [*runs, *self.recordings.summaries()]

    def _interrupt_abandoned(self) -> bool:
        """Notice runs whose process has been killed since the store was opened."""
        try:
            return self.store is not None and self.store.interrupt_abandoned() > 0
        except StoreLocked as error:
            _LOG.info("Whether runs were abandoned is looked at next time: %s", error)
            return False

    def _own(self, run_id: str) -> Store:
        if self.recordings.has(run_id):
            rule = "is a recording shipped with Planscope: it stays as it is."
            raise invalid("run", run_id, rule, "Choose a run of your own.")
        return self._writable()

    def _writable(self) -> Store:
        if self.store is None:
            raise StoreError("The data folder cannot be used, so no run can be kept. The System page says why.")
        return self.store


def _preference(run: RunSummary) -> tuple[int, int]:
    return _PREFERENCE.index(run.origin), -run.timed if run.recorded else 0
