"""Recordings: run files measured on real GPUs and shipped with the project. Read-only, and read no more than needed."""

from __future__ import annotations

import hashlib
import logging
import threading
import zipfile
from collections import OrderedDict
from pathlib import Path

from engine.graph.errors import InvalidInput
from engine.records.run import RunRecord
from engine.records.verdict import verdict
from engine.runs.archive_reading import BROKEN_ZIP, read_run_member
from engine.runs.archive_record import BLOBS
from engine.runs.database import StoreError
from engine.runs.rows import unknown_run
from engine.runs.summary import Origin, RunSummary, brief, summarize

SHIPPED = Path(__file__).parent / "recordings"

_LOG = logging.getLogger(__name__)
_KEPT = 16  # parsed runs; a run of 40 plans takes about 1 MB
Stamp = tuple[str, int, int]  # file name in the folder, modification time, size: what a cached entry stands for


class Recordings:
    """The run files of one folder and of those in it. Safe from any thread. A file that cannot be read is left out,
    logged once and named in ``problems``."""

    def __init__(self, folder: Path = SHIPPED) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._summaries: dict[Stamp, RunSummary] = {}
        self._runs: OrderedDict[Stamp, RunRecord] = OrderedDict()
        self._problems: dict[Stamp, str] = {}

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with files that could not be read, by file name."""
        self._index()
        return {stamp[0]: problem for stamp, problem in self._problems.items()}

    def change_token(self) -> int:
        """A number that changes when the folder does."""
        return hash(tuple(self._stamps()))

    def summaries(self) -> list[RunSummary]:
        """All recordings in brief, newest first."""
        return sorted(self._index().values(), key=lambda s: (-s.started_at.timestamp(), s.id))

    def get(self, run_id: str) -> RunRecord:
        """A whole recording. Raises InvalidInput where there is none of this id."""
        stamp = self._find(run_id)
        with self._lock:
            return self._read(stamp)

    def blob(self, run_id: str, sha256: str) -> bytes:
        """A serialized plan of a recording, checked against its digest. Raises StoreError where it is damaged."""
        path = self._folder / self._find(run_id)[0]
        try:
            with zipfile.ZipFile(path) as archive:
                data = archive.read(BLOBS + sha256)
        except (KeyError, *BROKEN_ZIP) as error:
            raise StoreError(f"The recording {path.name} does not hold the plan {sha256[:12]}... ({error}).") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise StoreError(f"The recording {path.name} is damaged: a digest does not match.")
        return data

    def file(self, run_id: str) -> bytes:
        """The run file itself."""
        return (self._folder / self._find(run_id)[0]).read_bytes()

    def has(self, run_id: str) -> bool:
        """Whether a recording has this id."""
        return any(summary.id == run_id for summary in self._index().values())

    def _find(self, run_id: str) -> Stamp:
        for stamp, summary in self._index().items():
            if summary.id == run_id:
                return stamp
        raise unknown_run(run_id)

    def _stamps(self) -> list[Stamp]:
        if not self._folder.is_dir():
            return []
        stats = ((path.relative_to(self._folder), path.stat()) for path in sorted(self._folder.rglob("*.zip")))
        return [(str(name), stat.st_mtime_ns, stat.st_size) for name, stat in stats]

    def _index(self) -> dict[Stamp, RunSummary]:
        stamps = self._stamps()
        with self._lock:
            for stamp in stamps:
                if stamp not in self._summaries and stamp not in self._problems:
                    self._learn(stamp)
            for known in (self._summaries, self._problems):
                for gone in set(known) - set(stamps):
                    del known[gone]
            return dict(self._summaries)

    def _learn(self, stamp: Stamp) -> None:
        try:
            run = self._read(stamp)
        except InvalidInput as error:
            _LOG.warning("The recording %s is left out: %s", stamp[0], error)
            self._problems[stamp] = str(error)
        else:
            self._summaries[stamp] = summarize(run, map(brief, run.plans), Origin.RECORDING, verdict(run))

    def _read(self, stamp: Stamp) -> RunRecord:
        run = self._runs.pop(stamp, None) or read_run_member(self._folder / stamp[0])
        self._runs[stamp] = run
        while len(self._runs) > _KEPT:
            self._runs.popitem(last=False)
        return run
