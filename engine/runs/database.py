"""The SQLite file: opening it safely, reading from any thread, and writing from one.

Several processes may have it open (a server and a command line). Readers never wait (WAL); a write waits for other
processes' writes at most the busy timeout, and returns only once it is committed.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection, create_engine, event, insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from engine.runs.schema import APPLICATION_ID, METADATA, SCHEMA_VERSION, STATE, UPGRADABLE

T = TypeVar("T")
BUSY_TIMEOUT_S = 5.0
_OF_DAMAGE = ("no such table", "no such column", "has no column named", "Could not decode", "unsupported", "too big")
"""Words of errors that SQLite gives no code of their own."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class StoreError(Exception):
    """The store cannot do it: locked, full, damaged, of a newer version. The message is for people and says what to
    do."""


class StoreLocked(StoreError):
    """Another process kept the database locked for longer than the busy timeout."""


class Database:
    """One database file. ``read()`` is safe from any thread; ``write`` runs in the one writer thread."""

    def __init__(self, path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._queue: queue.SimpleQueue[tuple[Callable[[Connection], Any], bool, Future[Any], float] | None]
        self._queue = queue.SimpleQueue()
        self._closed = False
        self._engine = create_engine(
            URL.create("sqlite", database=str(path)),
            connect_args={"timeout": busy_timeout_s, "check_same_thread": False},
            pool_size=8,
            max_overflow=-1,
        )
        event.listen(self._engine, "connect", _prepare)
        event.listen(self._engine, "begin", _begin)
        try:
            self._open()
        except BaseException:
            self._engine.dispose()
            raise
        self._thread = threading.Thread(target=self._write_all, name="planscope-store-writer", daemon=True)
        self._thread.start()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection whose statements all see the same state of the database."""
        with self._explained(), self._engine.connect() as connection:
            yield connection

    def write(self, change: Callable[[Connection], T], *, streamed: bool = False) -> T:
        """Run ``change`` in a transaction of its own; returns after the commit. An exception takes all of it back.

        What is written survives the end of this process. A power cut too, unless it is ``streamed`` and nothing that is
        not came after it: waiting for the disk on every record of a sweep would keep the GPU waiting as well.
        """
        if self._closed:
            raise StoreError("The store has been closed.")
        future: Future[T] = Future()
        self._queue.put((change, streamed, future, time.monotonic() + self._busy_timeout_s))
        return future.result()

    def close(self) -> None:
        """End the writer thread after what is queued, and close every connection."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()
            self._engine.dispose()

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            change, streamed, future, deadline = item
            try:
                future.set_result(self._write(change, streamed, deadline))
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller, and the thread goes on
                future.set_exception(error)
            del item, change, future

    def _write(self, change: Callable[[Connection], T], streamed: bool, deadline: float) -> T:
        # What has waited in the queue behind a locked database has used up that much of its own patience.
        patience_ms = max(1, int((deadline - time.monotonic()) * 1000))
        with self._explained(), self._engine.connect() as connection:
            raw = _raw(connection)
            raw.execute(f"PRAGMA busy_timeout = {patience_ms}")
            raw.execute(f"PRAGMA synchronous = {'NORMAL' if streamed else 'FULL'}")
            try:
                result = change(connection.execution_options(immediate=True))
                connection.commit()
            finally:
                raw.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}")
            return result

    def _open(self) -> None:
        """Check that the file is ours and of this version, or create it. Nothing is ever deleted or overwritten."""
        with self._explained():
            if self.path.exists() and self.path.stat().st_size and not _has_sqlite_header(self.path):
                raise StoreError(_damaged(self.path))
            deadline = time.monotonic() + self._busy_timeout_s
            while not self._create():  # the switch to WAL does not wait for another process doing it at the same time
                if time.monotonic() > deadline:
                    raise StoreLocked(_locked(self.path, self._busy_timeout_s))
                time.sleep(0.02)

    def _create(self) -> bool:
        """Create or check the tables; False where another process has the file locked for a moment."""
        try:
            with self._engine.connect() as connection:
                _raw(connection).execute("PRAGMA journal_mode = WAL")
                if self._is_current(connection):
                    return True
            with self._engine.connect().execution_options(immediate=True) as connection:
                if not self._is_current(connection):
                    if not _version(connection):
                        METADATA.create_all(connection)
                        connection.execute(insert(STATE).values(changes=0))
                    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
                    connection.commit()
            return True
        except (DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            if _code(cause) not in _BUSY:
                raise
            return False

    def _is_current(self, connection: Connection) -> bool:
        version = _version(connection)
        application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if version == 0 and not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one():
            return False
        if application != APPLICATION_ID:
            raise StoreError(
                f"{self.path} is a database of another program. Move it away, or set PLANSCOPE_HOME to another folder."
            )
        if version not in (SCHEMA_VERSION, *UPGRADABLE):
            raise StoreError(
                f"{self.path} has schema version {version}, and this Planscope knows version {SCHEMA_VERSION}: a newer "
                "Planscope made it. Update Planscope, or set PLANSCOPE_HOME to another folder."
            )
        return version == SCHEMA_VERSION

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says into what a person can act on; anything unknown passes as it is. A record that was read
        and cannot be parsed is damage, and so is a text that is none."""
        try:
            yield
        except DBAPIError as error:
            raise self._explain(error.orig, error) from error
        except (sqlite3.Error, OSError) as error:
            raise self._explain(error, error) from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise StoreError(_damaged(self.path)) from error

    def _explain(self, cause: BaseException | None, error: Exception) -> Exception:
        code = sqlite3.SQLITE_CANTOPEN if isinstance(cause, OSError) else _code(cause)
        if code in _BUSY:
            return StoreLocked(_locked(self.path, self._busy_timeout_s))
        if code == sqlite3.SQLITE_FULL:
            return StoreError(f"There is no space left for {self.path}. Free some; what was written before is kept.")
        damage = any(words in str(cause) for words in _OF_DAMAGE)
        if damage or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreError(_damaged(self.path))
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
            reason = getattr(cause, "strerror", None) or cause
            return StoreError(
                f"{self.path} cannot be opened or written ({reason}). Check its permissions and its disk, or set "
                "PLANSCOPE_HOME to another folder."
            )
        return error


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where _begin says, not where the driver guesses
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    """A writer takes the lock at once: a lock taken later, after reading, fails without waiting."""
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _version(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _raw(connection: Connection) -> sqlite3.Connection:
    """The driver's connection, for pragmas that must stand outside a transaction."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def _has_sqlite_header(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _code(error: BaseException | None) -> int:
    """SQLite's primary result code."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _damaged(path: Path) -> str:
    return (
        f"{path} is damaged or no database. Nothing was changed: move it (with its -wal and -shm files) elsewhere "
        "to start anew, or set PLANSCOPE_HOME to another folder."
    )


def _locked(path: Path, waited_s: float) -> str:
    return f"{path} has been locked by another process for {waited_s:g} s. Try again, or end the process that holds it."
