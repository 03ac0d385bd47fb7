"""Recordings and the store looked up together; which run stands in for a shape that was never measured."""

from __future__ import annotations

import hashlib
import logging
import os
import statistics
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.records.plan import Status
from engine.records.run import RunKind, RunRecord, RunStatus
from engine.runs import recordings as recordings_module
from engine.runs.archive import pack
from engine.runs.archive_reading import read_run_file
from engine.runs.library import Library
from engine.runs.recordings import Recordings
from engine.runs.store import Store, StoreError
from engine.runs.summary import Origin


def ship(folder: Path, *runs: RunRecord, blob: bytes | None = None) -> None:
    """Write runs as recordings."""
    folder.mkdir(exist_ok=True)
    for run in runs:
        (folder / f"{run.id}.zip").write_bytes(pack(run, {hashlib.sha256(blob).hexdigest(): blob} if blob else {}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


@pytest.fixture
def library(store: Store, folder: Path) -> Library:
    return Library(store, Recordings(folder))


def test_both_are_listed_newest_first(library: Library, folder: Path, make: SimpleNamespace) -> None:
    old, middle, new = (
        make.run(started_at=make.noon + timedelta(days=i), plans=(make.plan(1, 5.0),)) for i in range(3)
    )
    ship(folder, old, new)
    library.store.create_run(middle)
    assert [s.id for s in library.summaries()] == [new.id, middle.id, old.id]
    assert [s.recorded for s in library.summaries()] == [True, False, True]
    assert [s.origin for s in library.summaries()] == [Origin.RECORDING, Origin.OWN, Origin.RECORDING]
    for run in (old, middle, new):
        assert library.get(run.id) == run and library.summary(run.id).id == run.id


def test_a_recordings_summary_is_the_stores(library: Library, folder: Path, make: SimpleNamespace) -> None:
    run = make.run("sdpa", plans=(make.plan(0, 9.0), make.plan(1, 5.0), make.plan(2, status=Status.CRASHED)))
    ship(folder, run)
    recorded = library.summary(run.id)
    library.store.create_run(run)
    assert library.store.summary(run.id) == recorded.model_copy(update={"origin": Origin.OWN})


def test_blobs_of_both(library: Library, folder: Path, make: SimpleNamespace) -> None:
    recorded, own = make.run(plans=(make.plan(1, blob=b"recorded"),)), make.run(plans=(make.plan(1, blob=b"own"),))
    ship(folder, recorded, blob=b"recorded")
    library.store.put_blob(b"own")
    library.store.create_run(own)
    for run, blob in ((recorded, b"recorded"), (own, b"own")):
        assert library.blob(run.id, run.plans[0].blob_sha256) == blob
    with pytest.raises(StoreError, match="does not hold the plan"):
        library.blob(recorded.id, own.plans[0].blob_sha256)
    assert read_run_file(library.export(recorded.id)).run == recorded
    assert read_run_file(library.export(own.id)).run == own


def test_an_unknown_run_is_named(library: Library) -> None:
    for call in (library.get, library.summary, library.export, library.delete, lambda i: library.blob(i, "0" * 64)):
        with pytest.raises((InvalidInput, StoreError)) as caught:
            call("nonsense")
        if isinstance(caught.value, InvalidInput):
            assert (caught.value.errors[0].field, caught.value.errors[0].value) == ("run", "nonsense")
    with pytest.raises(InvalidInput):
        Library(None, Recordings(Path("/nowhere"))).get("nonsense")


def test_recordings_stay_as_they_are(library: Library, folder: Path, make: SimpleNamespace) -> None:
    run = make.run()
    ship(folder, run)
    before = (folder / f"{run.id}.zip").read_bytes()
    for change in (lambda: library.rename(run.id, "mine"), lambda: library.delete(run.id)):
        with pytest.raises(InvalidInput, match="is a recording shipped with Planscope"):
            change()
    imported = library.import_run(before)
    assert (imported.id, imported.already) == (run.id, True) and library.store.summaries() == []
    assert (folder / f"{run.id}.zip").read_bytes() == before


def test_a_file_that_has_a_recordings_id_but_another_content(
    library: Library, folder: Path, make: SimpleNamespace
) -> None:
    run = make.run()
    ship(folder, run)
    other = run.model_copy(update={"message": "another"})
    imported = library.import_run(pack(other, {}))
    assert imported.original_id == run.id != imported.id
    assert library.get(run.id) == run and library.get(imported.id).message == "another"


def test_without_a_store_recordings_are_there(folder: Path, make: SimpleNamespace) -> None:
    run = make.run()
    ship(folder, run)
    library = Library(None, Recordings(folder))
    assert [s.id for s in library.summaries()] == [run.id] and library.get(run.id) == run
    for call in (lambda: library.import_run(b""), lambda: library.delete("x"), lambda: library.rename("x", "y")):
        with pytest.raises(StoreError, match="data folder cannot be used"):
            call()


def test_a_broken_recording_is_left_out_and_named(
    library: Library, folder: Path, make: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    run = make.run()
    ship(folder, run)
    (folder / "broken.zip").write_bytes(b"PK\x03\x04 nothing")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert [s.id for s in library.recordings.summaries()] == [run.id]
    assert list(library.recordings.problems) == ["broken.zip"]
    assert len([r for r in caplog.records if "broken.zip" in r.getMessage()]) == 1
    (folder / "broken.zip").unlink()
    assert library.recordings.problems == {}


def test_a_run_is_parsed_once_and_again_after_a_change(library: Library, make: SimpleNamespace) -> None:
    run = make.run(plans=(make.plan(1, 5.0),))
    library.store.create_run(run)
    assert library.get(run.id) is library.get(run.id)
    library.store.add_plan(run.id, make.plan(2, 4.0))
    assert len(library.get(run.id).plans) == 2
    library.delete(run.id)
    with pytest.raises(InvalidInput):
        library.get(run.id)


def test_a_run_abandoned_while_the_library_is_open_is_noticed(library: Library, make: SimpleNamespace) -> None:
    """Another process's store held both runs and let go of them without finishing."""
    runs = [make.run(status=RunStatus.RUNNING, finished_at=None) for _ in range(2)]
    other = Store(library.store.home)
    for run in runs:
        other.create_run(run)
    assert {s.status for s in library.summaries()} == {library.get(runs[0].id).status} == {RunStatus.RUNNING}
    other.close()
    assert library.get(runs[0].id).status is RunStatus.INTERRUPTED
    other = Store(library.store.home)
    again = make.run(status=RunStatus.RUNNING, finished_at=None)
    other.create_run(again)
    assert library.summary(again.id).status is RunStatus.RUNNING
    other.close()
    assert {s.status for s in library.summaries()} == {RunStatus.INTERRUPTED}


def test_changes_of_files_and_store_are_seen(library: Library, folder: Path, make: SimpleNamespace) -> None:
    run = make.run()
    tokens = [library.change_token()]
    ship(folder, run)
    tokens.append(library.change_token())
    assert [s.title for s in library.summaries()] == [""]
    ship(folder, run.model_copy(update={"title": "measured again"}))
    os.utime(folder / f"{run.id}.zip", ns=(1, 1))
    tokens.append(library.change_token())
    assert [s.title for s in library.summaries()] == ["measured again"] == [library.get(run.id).title]
    own = make.run()
    library.store.create_run(own)
    tokens.append(library.change_token())
    assert len(library.summaries()) == 2
    library.delete(own.id)
    tokens.append(library.change_token())
    (folder / f"{run.id}.zip").unlink()
    tokens.append(library.change_token())
    assert library.summaries() == [] and len(set(tokens)) == len(tokens)
    assert library.change_token() == tokens[-1]


def test_matching_runs_come_best_first(library: Library, folder: Path, make: SimpleNamespace) -> None:
    plans = (make.plan(1, 5.0),)
    days = [make.noon + timedelta(days=i) for i in range(6)]
    recorded = [make.run(started_at=days[4], plans=plans), make.run(started_at=days[5], plans=plans)]
    planned = make.run(started_at=days[5], kind=RunKind.PLAN, plans=(make.plan(1),), baseline=None)
    old, new = make.run(started_at=days[0], plans=plans), make.run(started_at=days[1], plans=plans)
    imported = make.run(started_at=days[3], plans=plans)
    ship(folder, *recorded)
    for run in (planned, old, new, make.run("sdpa", plans=plans)):
        library.store.create_run(run)
    library.import_run(pack(imported, {}))
    expected = [new, old, imported, recorded[1], recorded[0], planned]
    assert [s.id for s in library.matching(new.graph_id)] == [run.id for run in expected]
    assert library.matching("0" * 16) == []


def test_the_nearest_shape(library: Library, folder: Path, make: SimpleNamespace) -> None:
    shapes = [{"m": 256}, {"m": 4096}, {"m": 512, "dtype": "fp16"}, {"m": 1024, "n": 1024}]
    runs = [make.run("matmul", shape, plans=(make.plan(1, 5.0),)) for shape in shapes]
    ship(folder, *runs, make.run("matmul", {"m": 600}))  # the last was never measured

    def near(**asked: object) -> tuple[int, dict[str, tuple[str, str]], float]:
        found = library.nearest("matmul", asked)
        assert found is not None
        return [r.id for r in runs].index(found.summary.id), found.differing, found.distance

    assert near() == (0, {}, 0.0)
    assert near(m=300)[:2] == (0, {"m": ("300", "256")})
    assert near(m=2048) == (1, {"m": ("2048", "4096")}, 1.0)
    assert near(m=2048, n=600)[0] == 3
    # The same type comes before the nearer size, and where the type is nowhere the size decides.
    assert near(m=512)[0] == 0 and near(m=512, dtype="fp16")[0] == 2
    assert near(m=8192, dtype="fp16") == (2, {"m": ("8192", "512")}, 4.0)
    assert near(m=5000, dtype="fp32")[:2] == (1, {"dtype": ("fp32", "bf16"), "m": ("5000", "4096")})


def test_nearest_takes_letters_that_may_be_zero_and_options(
    library: Library, folder: Path, make: SimpleNamespace
) -> None:
    convolution, attention = (
        make.run("conv_relu", plans=(make.plan(1, 5.0),)),
        make.run("sdpa", plans=(make.plan(1, 5.0),)),
    )
    ship(folder, convolution, attention)
    found = library.nearest("conv_relu", {"pad": "0", "layout": "nchw"})
    assert found is not None and found.summary.id == convolution.id and found.distance == 1.0
    assert found.differing == {"pad": ("0", "1"), "layout": ("nchw", "nhwc")}
    found = library.nearest("sdpa", {"causal": "off", "scale": "0.5"})
    assert found is not None and found.differing == {"causal": ("off", "on"), "scale": ("0.5", "")}
    assert library.nearest("matmul", {}) is None
    with pytest.raises(InvalidInput, match="whole number"):
        library.nearest("matmul", {"m": "0"})
    with pytest.raises(InvalidInput, match="no pipeline of this name"):
        library.nearest("matmull", {})


def test_an_own_run_is_preferred_at_equal_distance(library: Library, folder: Path, make: SimpleNamespace) -> None:
    recorded = make.run(plans=(make.plan(1, 5.0),), started_at=make.noon + timedelta(days=9))
    own = make.run(plans=(make.plan(1, 5.0),))
    ship(folder, recorded)
    library.store.create_run(own)
    found = library.nearest("matmul", {"m": 300})
    assert found is not None and found.summary.id == own.id


def test_threads_share_the_recordings(folder: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than are kept parsed, read by several threads at once."""
    monkeypatch.setattr(recordings_module, "_KEPT", 2)
    runs = [make.run(plans=(make.plan(i, 5.0),)) for i in range(6)]
    ship(folder, *runs)
    recordings, wrong = Recordings(folder), []

    def read(start: int) -> None:
        wrong.extend(run.id for run in [*runs[start:], *runs[:start]] if recordings.get(run.id) != run)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len(recordings.summaries()) == 6


@pytest.mark.timing
def test_15_recordings_are_indexed_quickly(folder: Path, make: SimpleNamespace) -> None:
    """Of the size of real ones: 15 plans each on average, 100 samples in each regime."""
    for i in range(15):
        name = list(CATALOGUE)[i % len(CATALOGUE)]
        plans = tuple(
            make.plan(j, 5.0 + j, timings=make.timings(5.0 + j, 100)) for j in range(35 if i % 5 == 0 else 10)
        )
        ship(folder, make.run(name, plans=plans))
    Recordings(folder).summaries()  # imports and file cache
    cold, warm = [], []
    for _ in range(5):
        recordings = Recordings(folder)
        for seconds in (cold, warm):
            begun = time.thread_time()
            assert len(recordings.summaries()) == 15
            seconds.append(time.thread_time() - begun)
    print(
        f"15 recordings: {1000 * statistics.median(cold):.1f} ms of CPU, then {1000 * statistics.median(warm):.2f} ms"
    )
    assert statistics.median(cold) < 0.3 and statistics.median(warm) < 0.02


def test_the_shipped_recordings_are_in_order() -> None:
    """Each passes the strictest reading; ids differ; together they are small enough to ship."""
    shipped = recordings_module.SHIPPED
    runs = [read_run_file(file.read_bytes()).run for file in sorted(shipped.rglob("*.zip"))]
    assert len({run.id for run in runs}) == len(runs) == len(Recordings().summaries())
    assert sum(file.stat().st_size for file in shipped.rglob("*.*")) < 5_000_000
    for run in runs:
        assert run.environment.gpu is not None and run.environment.gpu.name == "NVIDIA H200"
        assert all(plan.blob_sha256 for plan in run.plans if plan.status is Status.OK)
        if run.kind is RunKind.SWEEP:
            assert run.best is not None
    studied = {run.pipeline for run in runs if run.reuse}
    assert studied == {file.stem for file in shipped.glob("reuse/*.zip")}
    assert Recordings().problems == {}
