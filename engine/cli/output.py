"""What the commands write: JSON or plain aligned tables on stdout, everything else on stderr, files all or nothing."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.graph.errors import InvalidInput, invalid

_WIDEST = 160
"""Characters of a table's cell."""


class Failed(Exception):
    """Something that is no argument's fault could not be done: exit status 1. ``remedy`` says what mends it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message, self.remedy = message, remedy


def open_streams() -> None:
    """Make sure that stdout and stderr are there, and take any text.

    A stream that was closed (``>&-``) leads nowhere from now on; else the next file to be opened would get its number,
    and what is printed. A character that the encoding lacks, or a byte of a file name that is no text, is escaped.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    sys.stdout, sys.stderr = (s or Path(os.devnull).open("w") for s in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def emit_json(content: Any) -> None:
    """One JSON document on stdout, in characters that its encoding has."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(content, indent=2)
    print(text)


def say(text: str) -> None:
    """A line for people on stderr, so that stdout holds the result alone."""
    print("\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def printable(text: str) -> str:
    """Foreign text, with nothing in it that a terminal would act on."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def print_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns aligned, numbers to the right; None is a dash, and what nobody could read in a line is cut."""
    cells = [["-" if value is None or value == "" else _cell(str(value)) for value in row] for row in rows]
    right = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(header))]
    widths = [max([len(title), *(len(row[i]) for row in cells)]) for i, title in enumerate(header)]
    for line in [list(header), *cells]:
        parts = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
        print("  ".join(parts).rstrip())


def print_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Name and value, one pair a line; pairs without a value are left out."""
    shown = [(name, printable(str(value))) for name, value in facts if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print(f"{name.ljust(width)}  {value}")


def check_writable(path: Path, option: str = "--out") -> None:
    """Raise InvalidInput where a file cannot be written: before the work, not after it."""
    try:
        if path.is_dir():
            nothing = path == Path()
            raise _unwritable(path, option, f"it is {'this folder, as no name is too' if nothing else 'a folder'}.")
        folder = (path.absolute() if path.exists() else path.resolve()).parent  # a link may lead to a new file
        if not folder.is_dir():
            raise _unwritable(path, option, "its folder does not exist.")
        if path.is_file():
            path.open("ab").close()  # root may write everywhere, and yet not into every file
        elif not path.exists() and not os.access(folder, os.W_OK):
            raise _unwritable(path, option, "you may not write there.")
    except (OSError, ValueError, RuntimeError) as error:  # the last: links that lead to each other
        if isinstance(error, InvalidInput):
            raise
        raise _unwritable(path, option, f"{getattr(error, 'strerror', None) or error}.") from None


def write_file(path: Path, data: bytes, option: str = "--out") -> None:
    """Write a file whole, in place of one that is there; a device or a pipe is written to as it is."""
    check_writable(path, option)
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            _write_through(path, data)
            return
        target = path.resolve()
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as partial:
            try:
                partial.write(data)
                partial.flush()
                os.fchmod(partial.fileno(), 0o666 & ~_umask())
                Path(partial.name).replace(target)
            except BaseException:
                Path(partial.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _unwritable(path, option, f"{error.strerror or error}.") from None


def _write_through(path: Path, data: bytes) -> None:
    """Into a device or a pipe; a word where that has to wait, for a pipe opens only once somebody reads it."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(opened, True)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        say(f"{path} is a pipe that nobody reads yet: waiting.")
        opened = os.open(path, os.O_WRONLY)
    with open(opened, "wb") as file:  # noqa: PTH123
        file.write(data)


def read_file(path: Path, field: str, limit: int) -> bytes:
    """A file's bytes; raises InvalidInput where it cannot be read or is larger than ``limit``."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise invalid(field, path, f"the file cannot be read ({reason}).", "Give a file that exists.") from None
    if len(data) > limit:
        raise invalid(field, path, f"the file is larger than {limit:,} bytes.", "Give another file.")
    return data


def _unwritable(path: Path, option: str, rule: str) -> InvalidInput:
    return invalid(option, path, rule, "Name a file in a folder that you may write to.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cell(text: str) -> str:
    plain = printable(text)
    return plain if len(plain) <= _WIDEST else plain[: _WIDEST - 3] + "..."


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(",", "").replace(".", "", 1).removesuffix("x").isdigit()
