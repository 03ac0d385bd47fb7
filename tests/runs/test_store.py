"""The store keeps what it was given, derives its summaries, and removes only what nobody needs."""

from __future__ import annotations

import os
import sqlite3
import statistics
import threading
import time
from datetime import timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.graph.errors import InvalidInput
from engine.records.options import SweepOptions
from engine.records.plan import PlanIdentity, Status
from engine.records.run import Refusal, RunStatus
from engine.records.verdict import verdict
from engine.runs.store import Store, StoreError
from engine.runs.summary import Origin


def test_a_run_streamed_in_comes_back_equal(store: Store, make: SimpleNamespace) -> None:
    whole = make.run("matmul_epilogue", plans=(make.plan(4, 20.0), make.plan(1, 10.0), make.plan(2)))
    start = whole.model_copy(update={"status": RunStatus.RUNNING, "plans": (), "baseline": None, "finished_at": None})
    store.create_run(start)
    assert store.get(whole.id) == start
    store.add_plans(whole.id, [make.plan(4, status=Status.LISTED), make.plan(1, status=Status.LISTED)])
    store.set_baseline(whole.id, whole.baseline)
    for plan in whole.plans:
        store.add_plan(whole.id, plan)
    store.finish(whole.id, RunStatus.DONE)
    got = store.get(whole.id)
    assert got.finished_at is not None
    assert got.model_copy(update={"finished_at": whole.finished_at}) == whole


def test_a_plan_keeps_its_place_when_its_record_is_replaced(store: Store, make: SimpleNamespace) -> None:
    run = make.run(plans=(make.plan(1, status=Status.LISTED), make.plan(2, status=Status.LISTED)))
    store.create_run(run)
    store.add_plan(run.id, make.plan(1, 5.0))
    assert [(p.identity.engine_id, p.status) for p in store.get(run.id).plans] == [(1, Status.OK), (2, Status.LISTED)]


def test_the_summary_agrees_with_the_record(store: Store, make: SimpleNamespace) -> None:
    plans = (
        make.plan(0, 20.0, modes={"A": 0}),
        make.plan(1, 10.0, modes={"A": 1, "B": 0}),
        make.plan(2, status=Status.WRONG_RESULT),
        make.plan(3, status=Status.LISTED),
    )
    run = make.run(plans=plans)
    store.create_run(run)
    (summary,) = store.summaries()
    assert summary == store.summary(run.id)
    record = store.get(run.id)
    assert record.best is not None and record.first_pick is not None and record.baseline is not None
    assert (summary.best_key, summary.best_name) == (record.best.key, record.best.plan_name)
    assert summary.best_us == record.best.timings.hot.median_us
    assert summary.first_pick_key == record.first_pick.key
    assert summary.speedup_vs_first_pick == pytest.approx(2.0, rel=1e-6)
    assert summary.speedup_vs_torch == pytest.approx(3.0, rel=1e-6)
    assert summary.counts == {Status.OK: 2, Status.WRONG_RESULT: 1, Status.LISTED: 1}
    assert summary.plans == 4 and summary.measured
    assert (summary.origin, summary.recorded) == (Origin.OWN, False)
    assert (summary.gpu, summary.cudnn, summary.torch) == ("NVIDIA H200", "9.19.0", "2.11.0")
    assert summary.label == record.label


def test_the_best_plan_of_a_summary_is_the_verdicts_winner_once_there_is_a_verdict(
    store: Store, make: SimpleNamespace
) -> None:
    """Both are as fast as can be told; one needs no workspace."""
    fastest, leanest = make.plan(0, 10.0), make.plan(1, 10.05, workspace_bytes=0)
    run = make.run(plans=(fastest, leanest), status=RunStatus.RUNNING)
    store.create_run(run)
    assert store.summary(run.id).best_key == fastest.key
    store.finish(run.id, RunStatus.DONE)
    summary = store.summary(run.id)
    assert (summary.best_key, summary.best_us) == (leanest.key, pytest.approx(10.05))
    assert summary.best_key == verdict(store.get(run.id)).winner


def test_without_a_plan_that_meets_the_demands_there_is_no_best_one(store: Store, make: SimpleNamespace) -> None:
    run = make.run(plans=(make.plan(0, 10.0),), options=SweepOptions(workspace_limit_bytes=0))
    store.create_run(run)
    summary = store.summary(run.id)
    assert (summary.best_key, summary.best_us, summary.timed) == (None, None, 1) and summary.measured


def test_a_first_pick_that_was_not_timed_gives_no_speedup(store: Store, make: SimpleNamespace) -> None:
    run = make.run(plans=(make.plan(0, status=Status.TIMEOUT, modes={"A": 0}), make.plan(1, 10.0)), baseline=None)
    store.create_run(run)
    summary = store.summary(run.id)
    assert summary.first_pick_key == run.plans[0].key
    assert (summary.first_pick_us, summary.speedup_vs_first_pick, summary.speedup_vs_torch) == (None, None, None)


@pytest.mark.parametrize(
    ("pipeline", "parameters", "text"),
    [
        ("conv_bias_relu", {}, "X 32×128×56×56, W 256×128×3×3, bf16, nhwc"),
        ("conv_relu", {"stride": 2, "layout": "nchw"}, "X 8×64×32×32, W 64×64×3×3, stride 2, bf16, nchw"),
        (
            "matmul_epilogue",
            {"activation": "relu", "amax": "off"},
            "A 16×512×1024, B 16×1024×512, activation relu, amax off, bf16",
        ),
        ("conv_relu", {"n": 2, "stride": 2, "k": 3}, "X 2×64×32×32, W 3×64×3×3, stride 2, bf16, nhwc"),
        ("sdpa", {"dtype": "fp16"}, "Q 4×16×1024×64, K 4×16×1024×64, V 4×16×1024×64, fp16"),
    ],
)
def test_the_shape_is_told_for_people(
    make: SimpleNamespace, store: Store, pipeline: str, parameters: dict[str, str], text: str
) -> None:
    run = make.run(pipeline, parameters)
    store.create_run(run)
    assert store.summary(run.id).shape == text


def test_newest_first_whatever_the_time_zone(store: Store, make: SimpleNamespace) -> None:
    east = make.noon.astimezone(timezone(timedelta(hours=9)))
    runs = [
        make.run(started_at=at) for at in (make.noon, east + timedelta(minutes=1), make.noon - timedelta(minutes=1))
    ]
    for run in runs:
        store.create_run(run)
    assert [s.id for s in store.summaries()] == [runs[1].id, runs[0].id, runs[2].id]
    assert store.get(runs[1].id).started_at == runs[1].started_at


def test_the_change_token_tells_of_every_change_and_only_of_changes(store: Store, make: SimpleNamespace) -> None:
    first, second = make.run(), make.run()
    tokens = [store.change_token()]
    for change in (
        lambda: store.create_run(first),
        lambda: store.create_run(second),
        lambda: store.add_plan(first.id, make.plan(1, 5.0)),
        lambda: store.rename(first.id, "x"),
        lambda: store.delete(second.id),
    ):
        change()
        store.summaries()
        tokens.append(store.change_token())
    assert len(set(tokens)) == len(tokens)
    before = store.change_token(first.id)
    store.create_run(make.run())
    assert store.change_token(first.id) == before
    assert store.change_token("0" * 32) == -1


def test_rename(store: Store, make: SimpleNamespace) -> None:
    run = make.run()
    store.create_run(run)
    store.rename(run.id, "  before \n the driver update ")
    assert store.get(run.id).title == store.summary(run.id).title == "before the driver update"
    store.rename(run.id, "")
    assert store.get(run.id) == run
    for title in ("x" * 201, "a\x07b"):
        with pytest.raises(InvalidInput, match="200 printable"):
            store.rename(run.id, title)


def test_an_unknown_run_is_named(store: Store, make: SimpleNamespace) -> None:
    for call in (
        lambda: store.get("nonsense"),
        lambda: store.summary("nonsense"),
        lambda: store.delete("nonsense"),
        lambda: store.rename("nonsense", "x"),
        lambda: store.add_plan("nonsense", make.plan(1)),
        lambda: store.finish("nonsense", RunStatus.DONE),
    ):
        with pytest.raises(InvalidInput) as caught:
            call()
        assert (caught.value.errors[0].field, caught.value.errors[0].value) == ("run", "nonsense")


def test_a_refused_graph_keeps_its_reasons(store: Store, make: SimpleNamespace) -> None:
    run = make.run(status=RunStatus.RUNNING, baseline=None, finished_at=None)
    store.create_run(run)
    refusal = Refusal(message="no engine", reasons=("head dim 100 is no multiple of 8",))
    store.finish(run.id, RunStatus.FAILED, "cuDNN refuses the graph", refusal)
    got = store.get(run.id)
    assert (got.status, got.message, got.refusal) == (RunStatus.FAILED, "cuDNN refuses the graph", refusal)


def test_values_that_are_no_numbers_survive(store: Store, make: SimpleNamespace) -> None:
    accuracy = make.plan(1, 5.0).accuracy[0].model_copy(update={"max_abs": float("inf")})
    run = make.run(plans=(make.plan(1, status=Status.WRONG_RESULT, accuracy=(accuracy,)),))
    store.create_run(run)
    assert store.get(run.id) == run


def test_blobs_are_whole_or_refused(store: Store) -> None:
    sha256 = store.put_blob(b"a plan")
    assert store.get_blob(sha256) == b"a plan"
    assert (store.blob_dir / sha256).read_bytes() == b"a plan"
    (store.blob_dir / sha256).write_bytes(b"a plam")
    with pytest.raises(StoreError, match="damaged"):
        store.get_blob(sha256)
    assert store.put_blob(b"a plan") == sha256 and store.get_blob(sha256) == b"a plan"
    with pytest.raises(StoreError, match="missing"):
        store.get_blob("0" * 64)
    with pytest.raises(InvalidInput):
        store.get_blob("../planscope.db")


def test_deleting_removes_the_blobs_that_no_other_run_needs(store: Store, make: SimpleNamespace) -> None:
    shared, alone = store.put_blob(b"shared"), store.put_blob(b"alone")
    first = make.run(plans=(make.plan(1, blob=b"shared"), make.plan(2, blob=b"alone")))
    second = make.run(plans=(make.plan(1, blob=b"shared"),))
    store.create_run(first)
    store.create_run(second)
    store.delete(first.id)
    assert [s.id for s in store.summaries()] == [second.id]
    assert store.get_blob(shared) == b"shared" and not (store.blob_dir / alone).exists()
    store.delete(second.id)
    assert list(store.blob_dir.iterdir()) == []


def test_a_blob_that_was_written_again_stays(store: Store, make: SimpleNamespace) -> None:
    """A builder of another job has written the same bytes since; the plan it belongs to is not recorded yet."""
    old = make.run(plans=(make.plan(1, blob=b"same bytes"),))
    store.put_blob(b"same bytes")
    store.create_run(old)
    store.add_plan(old.id, old.plans[0])
    sha256 = old.plans[0].blob_sha256
    partial = store.blob_dir / ".partial"
    partial.write_bytes(b"same bytes")
    os.utime(partial, (time.time(),) * 2)  # the kernel's own clock for files is some milliseconds late
    partial.replace(store.blob_dir / sha256)
    store.add_plan(old.id, make.plan(1, 5.0, blob=b"same bytes"))  # a later record of the old plan is no new blob
    store.delete(old.id)
    assert store.get_blob(sha256) == b"same bytes"
    new = make.run(plans=old.plans)
    store.create_run(new)
    store.delete(new.id)
    assert not (store.blob_dir / sha256).exists()


def test_a_blob_put_again_stays_too(store: Store, make: SimpleNamespace) -> None:
    run = make.run(plans=(make.plan(1, blob=b"same bytes"),))
    store.put_blob(b"same bytes")
    store.create_run(run)
    sha256 = store.put_blob(b"same bytes")
    store.delete(run.id)
    assert store.get_blob(sha256) == b"same bytes"


def test_a_run_under_way_cannot_be_deleted(store: Store, make: SimpleNamespace) -> None:
    run = make.run(status=RunStatus.RUNNING)
    store.create_run(run)
    with pytest.raises(InvalidInput, match="Cancel it first"):
        store.delete(run.id)
    assert store.get(run.id) == run


def test_threads_read_while_one_writes(store: Store, make: SimpleNamespace) -> None:
    run = make.run(status=RunStatus.RUNNING)
    store.create_run(run)
    wrong: list[str] = []
    stop = threading.Event()

    def read() -> None:
        seen = 0
        while not stop.is_set():
            record, summary = store.get(run.id), store.summary(run.id)
            if len(record.plans) < seen or summary.plans < len(record.plans):
                wrong.append(f"{seen} {len(record.plans)} {summary.plans}")
            seen = len(record.plans)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for engine_id in range(25):
        store.add_plan(run.id, make.plan(engine_id, 5.0))
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == [] and len(store.get(run.id).plans) == 25


def test_a_closed_store_says_so(tmp_path: Path, make: SimpleNamespace) -> None:
    store = Store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.create_run(make.run())


def test_an_exception_in_a_write_takes_it_all_back(store: Store, make: SimpleNamespace) -> None:
    run = make.run()
    store.create_run(run)
    broken = make.plan(2).model_copy(update={"identity": PlanIdentity(engine_id=2).model_copy(update={"knobs": None})})
    with pytest.raises(AttributeError):
        store.add_plans(run.id, [make.plan(1), broken])
    assert store.get(run.id).plans == ()
    store.add_plan(run.id, make.plan(1))


@pytest.mark.timing
def test_500_summaries_are_listed_quickly(store: Store, make: SimpleNamespace) -> None:
    plans = tuple(make.plan(i, 10.0 + i) for i in range(3))
    template = make.run("conv_bias_relu", plans=plans)
    store.create_run(template)
    with sqlite3.connect(store.home / "planscope.db") as database:  # copies, for 500 sweeps would take a while to write
        for i in range(499):
            database.execute(
                "INSERT INTO runs SELECT ?, origin, status, graph_id, started_at, owner, revision, head,"
                " replace(summary, id, ?) FROM runs WHERE id = ?",
                (f"{i:032x}", f"{i:032x}", template.id),
            )
    assert len({summary.id for summary in store.summaries()}) == 500
    seconds = []
    for _ in range(5):
        start = time.thread_time()
        store.summaries()
        seconds.append(time.thread_time() - start)
    print(f"500 summaries: {1000 * statistics.median(seconds):.1f} ms of CPU")
    assert statistics.median(seconds) < 0.1
