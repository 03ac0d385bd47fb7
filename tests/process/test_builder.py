"""What a builder does with a plan that it has built."""

from __future__ import annotations

import hashlib
import resource
import signal

import pytest

from engine.jobs.builder import store_blob
from engine.plans.building import PlanFailure
from engine.records.plan import Status


def test_a_plan_is_kept_under_its_digest(tmp_path):
    assert store_blob(b"a plan", tmp_path / "blobs") == hashlib.sha256(b"a plan").hexdigest()
    assert [file.read_bytes() for file in (tmp_path / "blobs").iterdir()] == [b"a plan"]


def test_a_plan_that_does_not_fit_leaves_nothing_and_says_where(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write is then refused, as by a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(PlanFailure) as caught:
            store_blob(bytes(100_000), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.status is Status.BUILD_FAILED
    assert str(tmp_path) in caught.value.message and "PLANSCOPE_HOME" in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanFailure, match="file/blobs"):
        store_blob(b"a plan", tmp_path / "file" / "blobs")
