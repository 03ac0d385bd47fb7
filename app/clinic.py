"""The plan doctor behind the page: one examination at a time, on a thread that outlives every rerun.

The processes of an examination die with the thread that started them, and a script's thread ends with each click.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import streamlit as st

from engine.bundles.checkups import Examination
from engine.jobs.examining import examine


class Clinic:
    """``submit`` a file; the future gives its Examination, or raises JobCancelled when the server ends first."""

    def __init__(self) -> None:
        self._cancel = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="clinic")

    def submit(self, data: bytes, trust: bool) -> Future[Examination]:
        """Examine the bytes of a file."""
        return self._thread.submit(self._examine, data, trust)

    def close(self) -> None:
        """End what is under way."""
        self._cancel.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _examine(self, data: bytes, trust: bool) -> Examination:
        with tempfile.TemporaryDirectory(prefix="planscope-") as folder:
            file = Path(folder) / "bundle.zip"
            file.write_bytes(data)
            return examine(file, trust, cancel=self._cancel)


@st.cache_resource(show_spinner=False, on_release=Clinic.close)
def clinic() -> Clinic:
    """This server's."""
    made = Clinic()
    atexit.register(made.close)
    return made
