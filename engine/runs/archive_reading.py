"""Reading a run file that anybody may have made: everything is checked before anything is kept, nothing is unpacked to
disk, and every complaint is an InvalidInput that names the member of the file."""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from engine.graph.errors import InvalidInput, invalid
from engine.records.run import RunRecord
from engine.runs.archive_record import BLOBS, EXPORT_AGAIN, RUN, check_run, parse_run, shown

SUMS = "SHA256SUMS"

MAX_FILE_BYTES = 100 << 20
MAX_TOTAL_BYTES = 256 << 20
MAX_MEMBERS = 4096
MAX_RUN_BYTES = 16 << 20
MAX_RATIO = 200  # deflate reaches 1032; records and kernels stay below 30

_NOT_PLANSCOPE = "Choose a .zip that Planscope exported."
BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    OSError,
)
"""What zipfile raises on damaged input, apart from its own exception."""

_BLOB_NAME = re.compile(r"blobs/[0-9a-f]{64}")
_SUM_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]{1,200})")


@dataclass(frozen=True)
class RunFile:
    """A run file's content. ``blobs`` by SHA-256: exactly those the run's plans refer to."""

    run: RunRecord
    blobs: dict[str, bytes]


def read_run_file(data: bytes) -> RunFile:
    """A run file's content, checked in full. Raises InvalidInput, and nothing else, on anything wrong."""
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(f"{len(data):,} bytes")
    members = _read_members(data)
    _check_sums(members)
    run = parse_run(members[RUN])
    blobs = {name.removeprefix(BLOBS): content for name, content in members.items() if name.startswith(BLOBS)}
    check_run(run, blobs)
    return RunFile(run, blobs)


def read_run_member(path: Path) -> RunRecord:
    """Only the run of a run file on disk, for files that came with the project; digests are not checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            data = archive.read(RUN)
    except (KeyError, *BROKEN_ZIP) as error:
        raise invalid(path.name, RUN, f"cannot be read ({error}).", EXPORT_AGAIN) from None
    return parse_run(data)


def _read_members(data: bytes) -> dict[str, bytes]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except BROKEN_ZIP as error:
        raise invalid("run file", f"{len(data):,} bytes", f"is no readable zip ({error}).", _NOT_PLANSCOPE) from None
    with archive:
        infos = archive.infolist()
        _check_directory(infos)
        members = {}
        for info in infos:
            try:
                with archive.open(info) as member:
                    # One byte more than declared, so that a member longer than it says is noticed.
                    content = member.read(info.file_size + 1)
            except BROKEN_ZIP as error:
                raise invalid(info.filename, "damaged", f"cannot be unpacked ({error}).", EXPORT_AGAIN) from None
            if len(content) != info.file_size:
                raise invalid(
                    info.filename,
                    f"{len(content):,} bytes",
                    f"its entry says {info.file_size:,} bytes.",
                    EXPORT_AGAIN,
                )
            members[info.filename] = content
    return members


def _check_directory(infos: list[zipfile.ZipInfo]) -> None:
    """Judge the zip by what it says of itself, before unpacking anything."""
    if len(infos) > MAX_MEMBERS:
        raise invalid("run file", f"{len(infos):,} members", f"has at most {MAX_MEMBERS:,}.", _NOT_PLANSCOPE)
    seen: set[str] = set()
    for info in infos:
        name = info.filename
        if name not in (RUN, SUMS) and not _BLOB_NAME.fullmatch(name):
            rule = f"a run file holds {RUN}, {SUMS} and {BLOBS}<sha256>, and no other names or folders."
            raise invalid(shown(name) or "a member", shown(name), rule, _NOT_PLANSCOPE)
        if name in seen:
            raise invalid(name, name, "stands twice in the file.", EXPORT_AGAIN)
        seen.add(name)
        if info.flag_bits & 0x1:
            raise invalid(name, "encrypted", "a run file is not encrypted.", EXPORT_AGAIN)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise invalid(name, oct(kind), "is a link or another special file.", _NOT_PLANSCOPE)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise invalid(name, info.compress_type, "members are stored or deflated.", EXPORT_AGAIN)
        limit = MAX_RUN_BYTES if name in (RUN, SUMS) else MAX_TOTAL_BYTES
        if info.file_size > limit:
            raise invalid(name, f"{info.file_size:,} bytes", f"may unpack to {limit:,} bytes.", _NOT_PLANSCOPE)
        if info.file_size > MAX_RATIO * max(info.compress_size, 1 << 10):
            rule = f"may unpack to {MAX_RATIO} times its packed size."
            raise invalid(name, f"{info.file_size:,} from {info.compress_size:,} bytes", rule, _NOT_PLANSCOPE)
    if (total := sum(info.file_size for info in infos)) > MAX_TOTAL_BYTES:
        rule = f"may unpack to {MAX_TOTAL_BYTES:,} bytes in all."
        raise invalid("run file", f"{total:,} bytes", rule, _NOT_PLANSCOPE)
    for name in (RUN, SUMS):
        if name not in seen:
            raise invalid(name, "missing", f"a run file holds {name}.", _NOT_PLANSCOPE)


def _check_sums(members: dict[str, bytes]) -> None:
    """Every member stands in SHA256SUMS with its own digest, and nothing else does."""
    listed: dict[str, str] = {}
    text = members[SUMS].decode("utf-8", errors="replace")
    for line in text.splitlines():
        match = _SUM_LINE.fullmatch(line)
        if match is None or match[2] in listed:
            rule = "a line is a SHA-256, two blanks and a name, and no name stands twice."
            raise invalid(SUMS, shown(line), rule, EXPORT_AGAIN)
        listed[match[2]] = match[1]
    for name in sorted(set(members) - {SUMS} - set(listed)):
        raise invalid(name, "not listed", f"every member stands in {SUMS}.", EXPORT_AGAIN)
    for name, expected in listed.items():
        if name == SUMS or name not in members:
            raise invalid(shown(name), "missing", f"{SUMS} lists it and the file does not hold it.", EXPORT_AGAIN)
        digest = hashlib.sha256(members[name]).hexdigest()
        if digest != expected:
            rule = f"its SHA-256 is not the one in {SUMS}: the file was damaged or changed."
            raise invalid(name, digest, rule, EXPORT_AGAIN)
        if name.startswith(BLOBS) and name != BLOBS + digest:
            raise invalid(name, digest, "a serialized plan is named by its SHA-256.", EXPORT_AGAIN)


def _too_large(value: object) -> InvalidInput:
    return invalid("run file", value, f"a run file has at most {MAX_FILE_BYTES:,} bytes.", _NOT_PLANSCOPE)
