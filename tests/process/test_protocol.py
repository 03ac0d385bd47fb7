"""The protocol between a parent and its worker processes, with real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.jobs.protocol import EVENT_LIMIT, REQUEST_LIMIT, ROOT, Child, ProtocolError

pytestmark = pytest.mark.process
WORKER = "tests.process.echo_worker"


@pytest.fixture
def child():
    child = Child(WORKER)
    yield child
    child.kill()


def gone(pid, within_s=3.0):
    """Whether the process ends in time; a zombie nobody has waited for yet counts as ended."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_a_request_is_answered_and_events_come_in_order(child):
    number = child.send("echo", text="héllo")
    assert child.receive(10) == {"id": number, "event": "done", "text": "héllo", "pid": child.pid}
    number = child.send("several", count=200)
    events = [child.receive(10) for _ in range(201)]
    assert [e.get("number") for e in events] == [*range(200), None]
    assert {e["id"] for e in events} == {number}


def test_what_libraries_print_does_not_reach_the_protocol(child):
    child.send("print")
    assert child.receive(10)["event"] == "done"
    child.send("exit", status=3)
    assert child.receive(10) is None
    said = child.describe_end()
    assert "exited with status 3" in said and "last words" in said
    assert "a library's own words" in said and "and a child of it" in said


@pytest.mark.parametrize("raw", [b"\xff\xfe\n", b"[]\n", b'{"event":"done"}\n', b'{"id":1}\n'])
def test_garbage_is_a_protocol_error(child, raw):
    child.send("raw", hex=raw.hex())
    with pytest.raises(ProtocolError, match="no event"):
        child.receive(10)


def test_a_line_without_an_end_is_a_protocol_error(child):
    child.send("endless")
    with pytest.raises(ProtocolError, match="no event"):
        child.receive(10)


def test_a_line_longer_than_a_pipe_comes_whole(child):
    child.send("long")
    assert len(child.receive(10)["text"]) == EVENT_LIMIT - 1000


def test_lines_that_do_not_fit_are_refused_on_both_sides(child):
    with pytest.raises(ProtocolError, match="does not fit"):
        child.send("echo", text="x" * REQUEST_LIMIT)
    child.send("too_long")
    assert child.receive(10) is None
    assert "ProtocolError" in child.describe_end()


def test_an_abort_says_its_signal_and_later_sends_fail(child):
    child.send("abort")
    assert child.receive(10) is None
    assert child.receive(0.1) is None
    assert "SIGABRT" in child.describe_end() and not child.alive
    with pytest.raises(BrokenPipeError):
        child.send("echo", text="")


def test_silence_is_a_timeout(child):
    child.send("hang")
    with pytest.raises(TimeoutError):
        child.receive(0.2)


def test_kill_from_another_thread_wakes_the_reader_and_ends_the_whole_group(child):
    child.send("child")
    grandchild = child.receive(10)["child"]
    child.send("hang")
    threading.Timer(0.2, child.kill).start()
    began = time.monotonic()
    assert child.receive(10) is None
    assert time.monotonic() - began < 2
    assert gone(grandchild) and gone(child.pid)


def test_close_lets_a_worker_end_and_kills_one_that_does_not():
    child = Child(WORKER)
    child.close()
    assert child.describe_end() == "exited with status 0"
    child = Child(WORKER)
    child.send("hang")
    child.close(timeout_s=0.2)
    assert "SIGKILL" in child.describe_end()


def test_nothing_is_left_open_behind_killed_workers():
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    Child(WORKER).kill()
    before, threads = descriptors(), threading.active_count()
    for _ in range(5):
        child = Child(WORKER)
        child.send("hang")
        child.kill()
    end = time.monotonic() + 3
    while (descriptors() > before or threading.active_count() > threads) and time.monotonic() < end:
        time.sleep(0.02)
    assert descriptors() <= before and threading.active_count() <= threads


PARENT = f"""
import os, sys, threading, time
from engine.jobs.protocol import Child
def spawn():
    child = Child({WORKER!r})
    child.send("echo", text="")
    child.receive(10)
    child.send("hang")
    print(child.pid, flush=True)
    if sys.argv[1] == "thread":
        return
    time.sleep(60)
threading.Thread(target=spawn).start()
time.sleep(60)
"""


@pytest.mark.parametrize("end", ["kill", "thread"])
def test_a_hanging_worker_does_not_outlive_the_parent_or_the_thread_that_started_it(end):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, end], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
        if end == "kill":
            assert not gone(pid, 0.3)
            parent.send_signal(signal.SIGKILL)
        assert gone(pid)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_a_worker_whose_parent_is_gone_before_it_starts_ends_at_once():
    environment = {**os.environ, "PLANSCOPE_PARENT_PID": "999999999"}
    done = subprocess.run([sys.executable, "-m", WORKER], cwd=ROOT, env=environment, stdin=subprocess.PIPE, timeout=20)
    assert done.returncode == 1
