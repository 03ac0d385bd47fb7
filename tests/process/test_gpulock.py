"""One measurement per GPU: the lock among threads, processes and hostile files."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from engine.jobs.gpulock import GpuLock
from engine.jobs.protocol import ROOT, JobCancelled, JobError

pytestmark = pytest.mark.process

HOLD = """
import sys, time, pathlib, threading
from engine.jobs.gpulock import GpuLock
lock = GpuLock(sys.argv[1], "sweep of matmul", pathlib.Path(sys.argv[2]))
assert lock.try_acquire() is None
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    command = [sys.executable, "-c", HOLD, "GPU-1", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_another_process_sees_who_holds_it_and_gets_it_when_that_one_is_killed(holder, tmp_path):
    lock = GpuLock("GPU-1", "sweep of sdpa", tmp_path)
    seen = lock.try_acquire()
    assert (seen.pid, seen.what) == (holder.pid, "sweep of matmul")
    assert abs(time.time() - seen.since.timestamp()) < 60
    assert str(holder.pid) in str(seen) and "sweep of matmul" in str(seen)

    threading.Timer(0.3, lambda: os.kill(holder.pid, signal.SIGKILL)).start()
    told = []
    with lock.acquired(threading.Event(), told.append):
        assert [t.pid for t in told] == [holder.pid]
        assert GpuLock("GPU-1", "third", tmp_path).try_acquire().what == "sweep of sdpa"
    assert GpuLock("GPU-1", "third", tmp_path).try_acquire() is None


def test_another_gpu_is_free(holder, tmp_path):
    lock = GpuLock("MIG-2/../3", "sweep", tmp_path)
    assert lock.try_acquire() is None
    lock.release()
    assert {path.parent for path in tmp_path.rglob("*")} == {tmp_path}


def test_waiting_is_cancelled_at_once(holder, tmp_path):
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    began = time.monotonic()
    with pytest.raises(JobCancelled):
        GpuLock("GPU-1", "sweep", tmp_path).acquired(cancel)
    assert time.monotonic() - began < 1


def test_the_file_is_for_every_user_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        with GpuLock("GPU-1", "sweep", tmp_path).acquired(threading.Event()):
            (path,) = tmp_path.iterdir()
            assert path.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


@pytest.mark.parametrize("kind", ["symbolic link", "dangling link", "hard link", "folder", "pipe"])
def test_a_file_that_is_no_lock_file_is_refused_and_left_alone(tmp_path, kind):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path = tmp_path / "planscope-GPU-1.lock"
    {
        "symbolic link": lambda: path.symlink_to(precious),
        "dangling link": lambda: path.symlink_to(tmp_path / "new"),
        "hard link": lambda: path.hardlink_to(precious),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
    }[kind]()
    with pytest.raises(JobError, match=r"lock file .*planscope-GPU-1\.lock"):
        GpuLock("GPU-1", "sweep", tmp_path).try_acquire()
    assert precious.read_text() == "precious" and not (tmp_path / "new").exists()


@pytest.mark.parametrize("note", [b"", b"{", b"[1]", b'{"pid": "x"}', b"\xff" * 5000, b'{"pid":1e400}'])
def test_a_note_of_nonsense_does_not_disturb_those_who_wait(tmp_path, note):
    lock = GpuLock("GPU-1", "sweep", tmp_path)
    with lock.acquired(threading.Event()):
        next(tmp_path.iterdir()).write_bytes(note)
        assert GpuLock("GPU-1", "other", tmp_path).try_acquire().pid == 0


def test_a_removed_file_is_not_mistaken_for_the_lock(tmp_path, monkeypatch):
    path = tmp_path / "planscope-GPU-1.lock"
    opened = []
    real_open = os.open

    def open_then_remove(*arguments, **options):
        descriptor = real_open(*arguments, **options)
        if not opened:
            path.unlink()
        opened.append(descriptor)
        return descriptor

    monkeypatch.setattr(os, "open", open_then_remove)
    lock = GpuLock("GPU-1", "first", tmp_path)
    assert lock.try_acquire() is None
    assert GpuLock("GPU-1", "second", tmp_path).try_acquire().what == "first"
    lock.release()
