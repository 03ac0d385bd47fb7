"""The store among real processes: killed, writing at once, and in each other's way."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event

from engine.graph.errors import InvalidInput
from engine.records.options import SweepOptions
from engine.records.run import RunStatus
from engine.runs.store import GONE, Store, StoreError

ROOT = Path(__file__).resolve().parents[2]
PREAMBLE = """
import sys, time
from pathlib import Path
from engine.records.plan import PlanIdentity
from engine.records.run import RunRecord, RunStatus
from engine.runs.store import Store
home, run = Path(sys.argv[1]), RunRecord.model_validate_json(Path(sys.argv[2]).read_text())
plan = run.plans[0]
def numbered(i): return plan.model_copy(update={"identity": PlanIdentity(engine_id=i)})
def tell(*words): print(*words, flush=True)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process that runs a script with ``home``, ``run`` and a few functions at hand; all end with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(script: str, home: Path, run: object) -> subprocess.Popen[str]:
        file = tmp_path / f"{run.id}.json"  # type: ignore[attr-defined]
        file.write_text(run.model_dump_json())  # type: ignore[attr-defined]
        command = [sys.executable, "-c", PREAMBLE + script, str(home), str(file)]
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def heard(process: subprocess.Popen[str]) -> str:
    """The next line a process says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Another program holds the write lock."""
    other = sqlite3.connect(home / "planscope.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


@pytest.mark.process
def test_a_killed_process_loses_nothing_it_wrote(
    tmp_path: Path, make: SimpleNamespace, start: Callable[..., subprocess.Popen[str]]
) -> None:
    run = make.run(status=RunStatus.RUNNING, plans=(make.plan(0, 5.0, blob=b"0"),), finished_at=None)
    script = """
store = Store(home); store.create_run(run); store.put_blob(b"0")
for i in range(1, 100_000):
    sha256 = store.put_blob(str(i).encode())
    store.add_plan(run.id, numbered(i).model_copy(update={"blob_sha256": sha256}))
    tell(i)
"""
    process = start(script, tmp_path, run)
    last = 0
    while last < 30:
        last = int(heard(process))
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    if told := process.stdout.read().split("\n")[:-1]:  # whole lines only
        last = int(told[-1])
    process.wait()
    with Store(tmp_path) as store:
        record, summary = store.get(run.id), store.summary(run.id)
        assert len(record.plans) >= last + 1
        for plan in record.plans:
            assert store.get_blob(plan.blob_sha256) == str(plan.identity.engine_id).encode()
        assert (record.status, record.message, summary.status) == (RunStatus.INTERRUPTED, GONE, RunStatus.INTERRUPTED)
        assert summary.plans == len(record.plans)
        store.delete(run.id)
        left = {path.name for path in store.blob_dir.iterdir()}
        assert len(left) <= 2  # the one whose plan was not recorded yet, and one half-written: kept for a week


@pytest.mark.process
def test_two_processes_write_at_once(
    tmp_path: Path, make: SimpleNamespace, start: Callable[..., subprocess.Popen[str]]
) -> None:
    runs = [make.run(status=RunStatus.RUNNING, plans=(make.plan(0, 5.0),), finished_at=None) for _ in range(2)]
    shared = make.run()
    script = f"""
store = Store(home); store.create_run(run)
tell("ready")
for i in range(1, 31):
    store.add_plan(run.id, numbered(i))
    store.add_plan("{shared.id}", numbered(int(run.id, 16) % 2**40 * 1000 + i))
store.finish(run.id, RunStatus.DONE)
tell("done")
"""
    with Store(tmp_path) as store:
        store.create_run(shared)
        processes = [start(script, tmp_path, run) for run in runs]
        before = store.change_token()
        assert [heard(process) for process in processes] == ["ready"] * 2
        for i in range(30):
            store.rename(shared.id, f"title {i}")
        assert [heard(process) for process in processes] == ["done"] * 2
        for run in runs:
            assert [p.identity.engine_id for p in store.get(run.id).plans] == list(range(31))
            assert store.get(run.id).status is RunStatus.DONE
        assert len(store.get(shared.id).plans) == 60 and store.get(shared.id).title == "title 29"
        assert store.change_token() == before + 30 + 2 * (1 + 60 + 1)


@pytest.mark.process
def test_processes_that_create_the_database_at_the_same_time(
    tmp_path: Path, make: SimpleNamespace, start: Callable[..., subprocess.Popen[str]]
) -> None:
    script = """
tell("ready")
while not (home / "go").exists(): time.sleep(0.001)
store = Store(home); store.create_run(run); tell("done")
"""
    processes = [start(script, tmp_path, make.run(plans=(make.plan(0),))) for _ in range(3)]
    assert [heard(process) for process in processes] == ["ready"] * 3
    (tmp_path / "go").touch()
    assert [heard(process) for process in processes] == ["done"] * 3
    with Store(tmp_path) as store:
        assert len(store.summaries()) == 3


@pytest.mark.process
def test_a_run_is_interrupted_when_its_process_is_gone_and_not_before(
    tmp_path: Path, make: SimpleNamespace, start: Callable[..., subprocess.Popen[str]]
) -> None:
    run = make.run(status=RunStatus.RUNNING, plans=(make.plan(0, 5.0),), finished_at=None)
    # A worker process that outlives its parent must not keep the run alive.
    script = """
import subprocess
store = Store(home); store.create_run(run)
worker = subprocess.Popen(["sleep", "30"])
tell(worker.pid); time.sleep(60)
"""
    process = start(script, tmp_path, run)
    worker = int(heard(process))
    try:
        with Store(tmp_path) as store:
            assert store.get(run.id).status is RunStatus.RUNNING
            assert store.interrupt_abandoned() == 0
            with pytest.raises(InvalidInput, match="Cancel it first"):
                store.delete(run.id)
            process.kill()
            process.wait()
            os.kill(worker, 0)  # still there
            before = store.change_token()
            assert store.interrupt_abandoned() == 1 and store.change_token() > before
            assert store.get(run.id).status is store.summary(run.id).status is RunStatus.INTERRUPTED
            assert store.get(run.id).plans == run.plans
            assert store.interrupt_abandoned() == 0
            store.delete(run.id)
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_reused_process_id_does_not_keep_a_run_alive(tmp_path: Path, make: SimpleNamespace) -> None:
    """The recorded owner has this very process's id, as after a reuse, but holds no lock."""
    run = make.run(status=RunStatus.QUEUED)
    first = Store(tmp_path)
    first.create_run(run)
    first.close()
    (tmp_path / "owners").mkdir(exist_ok=True)
    with sqlite3.connect(tmp_path / "planscope.db") as database:
        (owner,) = database.execute("SELECT owner FROM runs").fetchone()
    assert owner.startswith(f"{os.getpid()}-")
    (tmp_path / "owners" / owner).touch()
    with Store(tmp_path) as second:
        assert second.get(run.id).status is RunStatus.INTERRUPTED


def test_two_stores_of_one_process_see_each_other_alive(tmp_path: Path, make: SimpleNamespace) -> None:
    run = make.run(status=RunStatus.RUNNING)
    with Store(tmp_path) as first:
        first.create_run(run)
        with Store(tmp_path) as second:
            assert second.get(run.id).status is RunStatus.RUNNING
        assert first.get(run.id).status is RunStatus.RUNNING


def test_a_locked_database_is_waited_for_and_then_named(tmp_path: Path, make: SimpleNamespace) -> None:
    with Store(tmp_path, busy_timeout_s=0.6) as store:
        run = make.run()
        store.create_run(run)

        def rename(title: str) -> float:
            begun = time.monotonic()
            with pytest.raises(StoreError, match=r"planscope\.db has been locked by another process for 0\.6 s"):
                store.rename(run.id, title)
            return time.monotonic() - begun

        with locked(tmp_path):
            with ThreadPoolExecutor(4) as pool:  # those behind others in the queue wait no longer than the first
                waited = list(pool.map(rename, "abcd"))
            assert min(waited) > 0.5 and max(waited) < 1.2
            assert store.get(run.id) == run and len(store.summaries()) == 1  # readers do not wait
            with Store(tmp_path, busy_timeout_s=0.2) as reader:  # opening waits, and then reads what there is
                assert reader.get(run.id) == run
        store.rename(run.id, "later")
        assert store.get(run.id).title == "later"


def test_a_lock_that_goes_away_in_time_is_not_noticed(tmp_path: Path, make: SimpleNamespace) -> None:
    with Store(tmp_path) as store:
        run = make.run()
        store.create_run(run)
        with locked(tmp_path):
            writer = threading.Thread(target=store.rename, args=(run.id, "patient"))
            writer.start()
            time.sleep(0.3)
            assert store.get(run.id).title == ""
        writer.join()
        assert store.get(run.id).title == "patient"


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path, make: SimpleNamespace) -> None:
    with Store(tmp_path) as store:
        run = make.run(status=RunStatus.RUNNING)
        store.create_run(run)
        engine = store._database._engine
        engine.dispose()
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count = 60"))
        written = 0
        with pytest.raises(StoreError, match="no space left"):
            for i in range(1000):
                store.add_plan(run.id, make.plan(i, 5.0))
                written += 1
        assert 5 < written < 1000
        assert [p.identity.engine_id for p in store.get(run.id).plans] == list(range(written))


def test_a_blob_that_does_not_fit_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """os.fsync fails as it does on a full disk; nothing half-written stays."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.put_blob(b"x" * 1000)
    assert list(store.blob_dir.iterdir()) == []


def damaged_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)


def changed_by(statement: str) -> Callable[[Path], None]:
    """Damage that leaves a whole SQLite file."""

    def damage(path: Path) -> None:
        with sqlite3.connect(path) as database:
            database.execute(statement)
        database.close()

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        changed_by("DROP TABLE runs"),
        changed_by("DROP TABLE state"),
        changed_by("ALTER TABLE runs DROP COLUMN summary"),
        changed_by("UPDATE runs SET summary = '{'"),
        changed_by("UPDATE plans SET record = '{'"),
        changed_by("UPDATE plans SET record = CAST(x'ff' AS TEXT)"),
        changed_by("UPDATE runs SET summary = CAST(x'ff' AS TEXT)"),
        lambda path: path.write_bytes(path.read_bytes().replace(b"TABLE state", b"TABLE \xfftate")),
        lambda path: path.write_bytes(b"this is no database, but it is somebody's file" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        damaged_in_the_middle,
    ],
)
def test_a_damaged_database_is_left_as_it_is(
    tmp_path: Path, make: SimpleNamespace, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "planscope.db"
    with Store(tmp_path) as store:
        store.create_run(make.run(plans=tuple(make.plan(i, 5.0) for i in range(20))))
    damage(path)
    content = path.read_bytes()
    words = "is damaged or no database. Nothing was changed: move it"
    with pytest.raises(StoreError, match=words), Store(tmp_path) as store:
        for summary in store.summaries():
            store.get(summary.id)
    assert path.read_bytes() == content


def test_what_cannot_be_read_is_not_written_either(tmp_path: Path, make: SimpleNamespace) -> None:
    run = make.run(plans=(make.plan(1, 5.0),))
    with Store(tmp_path) as store:
        store.create_run(run)
    changed_by("UPDATE plans SET record = '{'")(tmp_path / "planscope.db")
    with Store(tmp_path) as store, pytest.raises(StoreError, match="is damaged or no database"):
        store.rename(run.id, "another title")


def test_a_newer_database_is_left_as_it_is(tmp_path: Path, make: SimpleNamespace) -> None:
    with Store(tmp_path) as store:
        store.create_run(make.run())
    with sqlite3.connect(tmp_path / "planscope.db") as database:
        database.execute("PRAGMA user_version = 7")
    with pytest.raises(StoreError, match="version 7, and this Planscope knows version 2: a newer Planscope made it"):
        Store(tmp_path)


def test_a_database_of_the_first_version_becomes_one_of_this(tmp_path: Path, make: SimpleNamespace) -> None:
    run = make.run(plans=(make.plan(1, 5.0),))
    with Store(tmp_path) as store:
        store.create_run(run)
    with sqlite3.connect(tmp_path / "planscope.db") as database:  # as the first version wrote it
        database.execute("PRAGMA user_version = 1")
        (head,) = database.execute("SELECT head FROM runs").fetchone()
        database.execute("UPDATE runs SET head = ?", [as_format_1(json.loads(head))])
        (plan,) = database.execute("SELECT record FROM plans").fetchone()
        database.execute("UPDATE plans SET record = ?", [as_format_1(json.loads(plan))])
    with Store(tmp_path) as store:
        assert store.get(run.id) == run
        store.rename(run.id, "still writable")
    with sqlite3.connect(tmp_path / "planscope.db") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)


def as_format_1(record: dict[str, Any]) -> str:
    """A record without what format 2 added."""
    if "format_version" in record:
        record["format_version"] = 1
        added = SweepOptions.model_fields.keys() - {"modes", "seed", "compute_cache"}
        record["options"] = {name: value for name, value in record["options"].items() if name not in added}
    for name in ("confirmation", "phases", "origin", "engine_name", "repeats", "capturable"):
        record.pop(name, None)
    timings = (record.get("baseline") or record)["timings"]
    for name in timings.keys() - {"hot", "cold", "host", "gpu"}:
        del timings[name]
    return json.dumps(record)


def test_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "planscope.db") as database:
        database.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="database of another program"):
        Store(tmp_path)
    with sqlite3.connect(tmp_path / "planscope.db") as database:
        assert [name for (name,) in database.execute("SELECT name FROM sqlite_master")] == ["theirs"]


def test_a_folder_in_place_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "planscope.db").mkdir()
    with pytest.raises(StoreError, match=r"planscope\.db cannot be opened"):
        Store(tmp_path)


def test_old_leavings_are_removed_on_opening(tmp_path: Path, make: SimpleNamespace) -> None:
    old = time.time() - 8 * 24 * 3600
    with Store(tmp_path) as store:
        kept = store.put_blob(b"kept")
        store.create_run(make.run(plans=(make.plan(1, blob=b"kept"),)))
        fresh = store.put_blob(b"fresh")
        orphan = store.put_blob(b"orphan")
    for name in (kept, orphan):
        os.utime(tmp_path / "blobs" / name, (old, old))
    (tmp_path / "owners").mkdir(exist_ok=True)
    (tmp_path / "owners" / "1-killed").touch()
    os.utime(tmp_path / "owners" / "1-killed", (old, old))
    with Store(tmp_path) as store:
        assert {path.name for path in store.blob_dir.iterdir()} == {kept, fresh}
    assert list((tmp_path / "owners").iterdir()) == []
