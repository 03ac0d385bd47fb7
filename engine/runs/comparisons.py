"""Comparisons of fused and unfused versions that were kept: the shipped ones, and those of the data folder. One JSON
file each, small enough to read whole."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from engine.graph.cutting import cut
from engine.graph.errors import invalid
from engine.records.fusion import FusionRecord
from engine.runs.recordings import SHIPPED

FOLDER = "fusion"
LIMIT_BYTES = 16 << 20
"""A comparison of eleven versions and five stages takes about half a megabyte."""


@dataclass(frozen=True)
class Kept:
    """A comparison, whether it ships with the project, and the file that it stands in."""

    record: FusionRecord
    recorded: bool
    path: Path


class Comparisons:
    """Those in ``home``'s folder, if there is one, and the shipped ones. ``problems``: files that could not be read, by
    name, after ``listed``."""

    def __init__(self, home: Path | None, shipped: Path = SHIPPED / FOLDER) -> None:
        self._folders = ((shipped, True), *([(home / FOLDER, False)] if home is not None else []))
        self.problems: dict[str, str] = {}

    def listed(self) -> tuple[Kept, ...]:
        """All, newest first; each id once."""
        self.problems = {}
        found: dict[str, Kept] = {}
        for folder, recorded in self._folders:
            for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
                try:
                    record = _read(path, path.stat().st_mtime_ns)
                except (OSError, ValueError) as error:
                    self.problems[path.name] = str(error).split("\n")[0][:300]
                else:
                    found.setdefault(record.id, Kept(record, recorded, path))
        return tuple(sorted(found.values(), key=lambda kept: kept.record.started_at, reverse=True))


def keep(record: FusionRecord, home: Path) -> Path:
    """Write a comparison into a data folder, whole or not at all."""
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.id}.json"
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".part", delete=False) as partial:
        try:
            partial.write(to_bytes(record))
            partial.flush()
            os.replace(partial.name, path)  # noqa: PTH105 - the name is a text
        except BaseException:
            Path(partial.name).unlink(missing_ok=True)
            raise
    return path


def to_bytes(record: FusionRecord) -> bytes:
    """As a file has it."""
    return record.model_dump_json().encode()


def from_bytes(data: bytes, name: str) -> FusionRecord:
    """The reverse. Raises InvalidInput naming the file."""
    if len(data) > LIMIT_BYTES:
        raise invalid("file", name, f"a comparison takes {LIMIT_BYTES:,} bytes at most.", "Give another file.")
    try:
        record = FusionRecord.model_validate_json(data)
        cut(record.graph)  # Tensors of a stranger's attention may not fit together.
        return record
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        rule = f"this is no comparison ({f'{where}: ' if where else ''}{first['msg']})."
        raise invalid("file", name, rule, "Make one with `python -m engine fusion`.") from None


@lru_cache(maxsize=512)
def _read(path: Path, changed_ns: int) -> FusionRecord:
    with path.open("rb") as file:
        return from_bytes(file.read(LIMIT_BYTES + 1), path.name)
