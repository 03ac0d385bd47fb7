"""Serialized plans as files named by their SHA-256, beside the database."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Container, Mapping
from pathlib import Path

from engine.graph.errors import invalid
from engine.runs.database import StoreError

_ORPHAN_S = 7 * 24 * 3600


class Blobs:
    """A folder of blobs. Builders in other processes write into it too, the same way: a temporary name, then a
    rename."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"The folder {folder} cannot be created: {error.strerror}. Set PLANSCOPE_HOME to another folder."
            ) from None

    def put(self, data: bytes) -> str:
        """Keep ``data``; gives its SHA-256. The file is whole or absent, whatever happens meanwhile."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / sha256
        try:
            if not path.is_file() or path.read_bytes() != data:  # a damaged file is mended by its right content
                _write(path, data)
            else:
                os.utime(path, (time.time(),) * 2)  # as if written again; see remove
        except OSError as error:
            raise StoreError(
                f"A serialized plan of {len(data):,} bytes cannot be written to {self.folder}: {error.strerror}."
            ) from None
        return sha256

    def get(self, sha256: str) -> bytes:
        """The blob, checked against its digest. Raises StoreError where it is missing or damaged."""
        try:
            data = self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise StoreError(f"The serialized plan {sha256[:12]}... is missing from {self.folder}.") from None
        except OSError as error:
            raise StoreError(f"The serialized plan {sha256[:12]}... cannot be read: {error.strerror}.") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise StoreError(
                f"The serialized plan {sha256[:12]}... in {self.folder} is damaged: its digest is not its name. "
                "Sweep the graph again to have it anew."
            )
        return data

    def path(self, sha256: str) -> Path:
        """Where a blob of this digest stands, or would; the digest is checked, for it may come from outside."""
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise invalid("sha256", sha256, "is not a SHA-256 digest.", "Give 64 lower-case hex digits.")
        return self.folder / sha256

    def has(self, sha256: str) -> bool:
        """Whether a file of this digest is there (its content is checked on reading)."""
        return self.path(sha256).is_file()

    def remove(self, recorded_at: Mapping[str, float]) -> None:
        """Remove blobs that no plan in the store refers to any more, each unless it was written again since it was
        recorded: then a job under way needs it, whose plans are not in the store yet, or never will be."""
        for sha256, moment in recorded_at.items():
            with contextlib.suppress(OSError):
                path = self.path(sha256)
                if path.stat().st_mtime <= moment:
                    path.unlink()

    def remove_orphans(self, used: Container[str]) -> None:
        """Remove files older than a week that are not ``used``: of killed processes, half-written ones included, and of
        plans that were only looked at."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name not in used and time.time() - entry.stat().st_mtime > _ORPHAN_S:
                    Path(entry.path).unlink()


def _write(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".writing-", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
