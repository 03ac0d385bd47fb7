"""Serialized plans as files named by their SHA-256, beside the database."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from engine.graph.errors import invalid
from engine.runs.database import StoreError

_ORPHAN_S = 24 * 3600


class Blobs:
    """A folder of blobs. Builders in other processes write into it too, the same way: a temporary name, then a
    rename."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"The folder {folder} cannot be created: {error.strerror}.") from None

    def put(self, data: bytes) -> str:
        """Keep ``data``; gives its SHA-256. The file is whole or absent, whatever happens meanwhile."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / sha256
        try:
            if not path.is_file() or path.read_bytes() != data:  # a damaged file is mended by its right content
                _write(path, data)
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

    def remove(self, digests: Iterable[str]) -> None:
        """Remove these blobs, as far as they are there."""
        for sha256 in digests:
            self.path(sha256).unlink(missing_ok=True)

    def orphans(self) -> set[str]:
        """Names of all files older than a day: those that no plan refers to were left by killed processes."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            return {e.name for e in entries if time.time() - e.stat().st_mtime > _ORPHAN_S}
        return set()

    def remove_orphans(self, names: Iterable[str]) -> None:
        """Remove files by name, half-written ones included."""
        for name in names:
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()


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
