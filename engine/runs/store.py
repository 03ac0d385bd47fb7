"""The store of runs: every record is on disk when the call that wrote it returns, so a killed process loses nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from engine.graph.errors import invalid
from engine.records.plan import PlanRecord
from engine.records.run import Baseline, Confirmation, Phases, Refusal, RunRecord, RunStatus
from engine.runs.blobs import Blobs
from engine.runs.database import BUSY_TIMEOUT_S, Database, StoreError, StoreLocked
from engine.runs.owners import Owner, is_alive, remove_stale
from engine.runs.rows import (
    blobs_in_use,
    interrupt,
    read_head,
    save_head,
    save_plans,
    tick,
    unknown_run,
    unused_blobs,
)
from engine.runs.schema import PLANS, RUNS, STATE
from engine.runs.summary import ACTIVE, Origin, RunSummary

__all__ = ["Store", "StoreError"]

_LOG = logging.getLogger(__name__)
GONE = "The process that ran it went away; what it had recorded is kept."
UNSTORED = "How it ended could not be stored; what it had recorded before is kept."


class Store:
    """Runs of one data folder. All methods are safe from any thread; writes raise StoreError where the database is
    locked by another process for longer than ``busy_timeout_s``, full or damaged.

    Open one per process. On opening, runs whose process is gone become interrupted.
    """

    def __init__(self, home: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.home = home
        self._blobs = Blobs(home / "blobs")
        self._owners = home / "owners"
        self._owner = Owner(self._owners)
        self._abandoned: set[str] = set()
        self._database = Database(home / "planscope.db", busy_timeout_s)
        try:
            self._database.write(self._tidy)
            self.change_token()
            self.summaries()  # what nobody could list is noticed now, when recordings can still stand in
        except StoreLocked as error:  # what is there can be read all the same
            _LOG.warning("Runs of ended processes stay as they are for now: %s", error)
        except BaseException:
            self._database.close()
            raise

    @property
    def blob_dir(self) -> Path:
        """Where blobs stand, each named by its SHA-256. Others may write here: to a temporary name, then rename."""
        return self._blobs.folder

    def close(self) -> None:
        """Finish queued writes and let go of the files; runs not finished count as interrupted from now on."""
        self._database.close()
        self._owner.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- Writing a run as it happens

    def create_run(self, run: RunRecord) -> None:
        """Keep a new run of this process, with the plans it already has."""
        self._database.write(lambda connection: self._insert(connection, run, Origin.OWN))

    def add_plan(self, run_id: str, plan: PlanRecord) -> None:
        """Keep a plan, or its newer record in place of an earlier one of the same key."""
        self.add_plans(run_id, [plan])

    def add_plans(self, run_id: str, plans: Sequence[PlanRecord]) -> None:
        """Keep several plans in one step."""

        def write(connection: Connection) -> None:
            head, origin = read_head(connection, run_id)
            save_plans(connection, run_id, plans)
            save_head(connection, head, origin)

        self._database.write(write, streamed=True)

    def set_baseline(self, run_id: str, baseline: Baseline) -> None:
        """Keep what torch took."""
        self._change(run_id, streamed=True, baseline=baseline)

    def set_aftermath(self, run_id: str, confirmation: Confirmation | None, phases: Phases | None) -> None:
        """Keep the confirmation of the winner, and what the phases took."""
        self._change(run_id, streamed=True, confirmation=confirmation, phases=phases)

    def finish(
        self, run_id: str, status: RunStatus, message: str | None = None, refusal: Refusal | None = None
    ) -> None:
        """The run has ended."""

        def write(connection: Connection) -> None:
            head, origin = read_head(connection, run_id)
            changed = {"status": status, "message": message, "refusal": refusal, "finished_at": datetime.now(UTC)}
            save_head(connection, head.model_copy(update=changed), origin)
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(owner=None))

        self._database.write(write)

    def abandon(self, run_id: str) -> None:
        """A run of this process has ended, and that cannot be stored: it is interrupted as soon as anything can be."""
        self._abandoned.add(run_id)

    # -- Reading

    def get(self, run_id: str) -> RunRecord:
        """The whole run. Raises InvalidInput where there is none of this id."""
        with self._database.read() as connection:
            head = connection.execute(select(RUNS.c.head).where(RUNS.c.id == run_id)).scalar()
            if head is None:
                raise unknown_run(run_id)
            rows = connection.execute(
                select(PLANS.c.record).where(PLANS.c.run_id == run_id).order_by(PLANS.c.position)
            ).scalars()
            return RunRecord.model_validate_json(f'{head[:-1]},"plans":[{",".join(rows)}]}}')

    def summary(self, run_id: str) -> RunSummary:
        """A run in brief. Raises InvalidInput where there is none of this id."""
        with self._database.read() as connection:
            text = connection.execute(select(RUNS.c.summary).where(RUNS.c.id == run_id)).scalar()
            if text is None:
                raise unknown_run(run_id)
            return RunSummary.model_validate_json(text)

    def summaries(self) -> list[RunSummary]:
        """All runs in brief, newest first."""
        return self._summaries()

    def change_token(self, run_id: str | None = None) -> int:
        """A number that changes whenever anything (or this run) does, from any process; cheap enough for every rerun.
        Runs that do not exist have -1."""
        query = select(STATE.c.changes) if run_id is None else select(RUNS.c.revision).where(RUNS.c.id == run_id)
        with self._database.read() as connection:
            value = connection.execute(query).scalar()
        return -1 if value is None else int(value)

    def interrupt_abandoned(self) -> int:
        """Mark active runs whose process is gone as interrupted; gives how many. Opening a store does this, and a
        Library whenever it meets an active run."""
        with self._database.read() as connection:
            owners = (
                connection.execute(select(RUNS.c.owner).where(RUNS.c.status.in_(ACTIVE)).distinct()).scalars().all()
            )
        if not self._abandoned and all(owner is not None and is_alive(self._owners, owner) for owner in owners):
            return 0
        abandoned = set(self._abandoned)
        count = self._database.write(self._interrupt)
        self._abandoned -= abandoned
        return count

    # -- What people do with runs

    def rename(self, run_id: str, title: str) -> None:
        """Give a run a title; "" takes it away."""
        title = " ".join(title.split())
        if len(title) > 200 or not title.isprintable():
            raise invalid(
                "title", title, "a title has at most 200 printable characters.", "Shorten it or leave them out."
            )
        self._change(run_id, title=title)

    def delete(self, run_id: str) -> None:
        """Remove a run, and the serialized plans that no other run needs. Raises InvalidInput while it is under way."""

        def write(connection: Connection) -> dict[str, float]:
            self._interrupt(connection)
            head, _ = read_head(connection, run_id)
            if head.status in ACTIVE:
                raise invalid("run", run_id, f"is {head.status}.", "Cancel it first.")
            unused = unused_blobs(connection, run_id)
            connection.execute(delete(RUNS).where(RUNS.c.id == run_id))
            tick(connection)
            return unused

        unused = self._database.write(write)

        def remove(connection: Connection) -> None:
            used = blobs_in_use(connection)
            self._blobs.remove({sha256: at for sha256, at in unused.items() if sha256 not in used})

        # Apart, so that a process killed in between leaves blobs without a run, never a run without its blobs.
        try:
            self._database.write(remove)
        except StoreError as error:
            _LOG.warning("Blobs of the deleted run %s will be removed later: %s", run_id, error)

    def add_imported(self, run: RunRecord, blobs: Mapping[str, bytes]) -> bool:
        """Keep a run from elsewhere with its blobs (see archive.py, which has checked them); False where a run has its
        id."""
        for data in blobs.values():
            self._blobs.put(data)

        def write(connection: Connection) -> bool:
            if connection.execute(select(RUNS.c.id).where(RUNS.c.id == run.id)).scalar():
                return False
            for sha256, data in blobs.items():
                if not self._blobs.has(sha256):  # removed with another run since
                    self._blobs.put(data)
            self._insert(connection, run, Origin.IMPORTED)
            return True

        return self._database.write(write)

    # -- Serialized plans

    def put_blob(self, data: bytes) -> str:
        """Keep a serialized plan; gives its SHA-256."""
        return self._blobs.put(data)

    def get_blob(self, sha256: str) -> bytes:
        """A serialized plan, checked against its digest. Raises StoreError where it is missing or damaged."""
        return self._blobs.get(sha256)

    def blob(self, run_id: str, sha256: str) -> bytes:
        """A serialized plan of a run; as get_blob, for the store keeps a blob that several runs share once."""
        return self._blobs.get(sha256)

    # -- Inside

    def _summaries(self, *conditions: Any) -> list[RunSummary]:
        query = select(RUNS.c.summary).where(*conditions).order_by(RUNS.c.started_at.desc(), RUNS.c.id)
        with self._database.read() as connection:
            return [RunSummary.model_validate_json(text) for text in connection.execute(query).scalars()]

    def _change(self, run_id: str, streamed: bool = False, **changed: Any) -> None:
        def write(connection: Connection) -> None:
            head, origin = read_head(connection, run_id)
            save_head(connection, head.model_copy(update=changed), origin)

        self._database.write(write, streamed=streamed)

    def _insert(self, connection: Connection, run: RunRecord, origin: Origin) -> None:
        row = {"id": run.id, "origin": origin, "status": run.status, "graph_id": run.graph_id, "revision": 0}
        owner = self._owner.claim() if run.status in ACTIVE else None
        started_at = run.started_at.astimezone(UTC).isoformat(timespec="microseconds")
        connection.execute(insert(RUNS).values(**row, owner=owner, started_at=started_at, head="", summary=""))
        save_plans(connection, run.id, run.plans)
        save_head(connection, run, origin)

    def _tidy(self, connection: Connection) -> None:
        """What opening a store sets right."""
        self._interrupt(connection)
        self._blobs.remove_orphans(blobs_in_use(connection))
        owners = connection.execute(select(RUNS.c.owner).where(RUNS.c.owner.is_not(None))).scalars()
        remove_stale(self._owners, set(owners))

    def _interrupt(self, connection: Connection) -> int:
        return interrupt(connection, self._why_over)

    def _why_over(self, run_id: str, owner: str | None) -> str | None:
        if run_id in self._abandoned:
            return UNSTORED
        return None if owner is not None and is_alive(self._owners, owner) else GONE
