"""The run file: a run and its serialized plans as one zip, to hand on and to ship as a recording.

``run.json`` (a RunRecord), ``blobs/<sha256>`` (one per distinct serialized plan), ``SHA256SUMS`` (of all of these, as
``sha256sum -c`` reads it). The same run always gives the same bytes. archive_reading.py reads one, strictly.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from engine.graph.errors import invalid
from engine.records.run import RunRecord, RunStatus
from engine.runs.archive_reading import SUMS, read_run_file
from engine.runs.archive_record import BLOBS, RUN
from engine.runs.recordings import Recordings
from engine.runs.store import Store

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip can hold


class RunSource(Protocol):
    """What runs are exported from: a Store or a Library."""

    def get(self, run_id: str) -> RunRecord:
        """The whole run."""

    def blob(self, run_id: str, sha256: str) -> bytes:
        """One of its serialized plans."""


@dataclass(frozen=True)
class Imported:
    """What an import did. ``already``: the same run is there; ``original_id``: the file's, where another run has it."""

    id: str
    already: bool = False
    original_id: str | None = None


def export_run(source: RunSource, run_id: str) -> bytes:
    """A run as a run file. Raises InvalidInput while it is under way or where it does not exist."""
    run = source.get(run_id)
    if run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
        raise invalid("run", run_id, f"is {run.status}.", "Export it when it has ended, or cancel it.")
    digests = sorted({plan.blob_sha256 for plan in run.plans if plan.blob_sha256})
    return pack(run, {sha256: source.blob(run_id, sha256) for sha256 in digests})


def pack(run: RunRecord, blobs: Mapping[str, bytes]) -> bytes:
    """The bytes of a run file."""
    members = {RUN: run.model_dump_json().encode()}
    members |= {BLOBS + sha256: blobs[sha256] for sha256 in sorted(blobs)}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(members.items()))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {SUMS: sums.encode(), **members}.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            info.create_system = 3  # Unix, wherever it is written
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    return file.getvalue()


def import_run(store: Store, data: bytes, recordings: Recordings | None = None) -> Imported:
    """Keep a run file's run, marked as imported; the store is untouched where InvalidInput is raised.

    A run keeps its id unless another run has it (in the store, or a recording); the new id follows from the content, so
    that importing a file twice adds nothing.
    """
    file = read_run_file(data)
    run = file.run
    for candidate in (run, run.model_copy(update={"id": _content_id(run)})):
        original_id = run.id if candidate.id != run.id else None
        recorded = recordings is not None and recordings.has(candidate.id)
        if not recorded and store.add_imported(candidate, file.blobs):
            return Imported(candidate.id, original_id=original_id)
        there = recordings.get(candidate.id) if recordings is not None and recorded else store.get(candidate.id)
        if _content_id(there) == _content_id(run):
            return Imported(candidate.id, already=True, original_id=original_id)
    raise invalid("run file", run.id, "another run stands where it would be kept.", "Delete that run first.")


def _content_id(run: RunRecord) -> str:
    """32 hex digits over everything but the id and the title, which the importer may change."""
    text = run.model_copy(update={"id": "0" * 32, "title": ""}).model_dump_json()
    return hashlib.sha256(text.encode()).hexdigest()[:32]
