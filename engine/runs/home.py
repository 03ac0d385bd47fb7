"""The folder that holds a person's runs: one place per user, or wherever PLANSCOPE_HOME points."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from engine.graph.errors import InvalidInput, invalid

HOME_VARIABLE = "PLANSCOPE_HOME"
_REMEDY = f"Set {HOME_VARIABLE} to a folder on a disk with free space that you may write to."


def data_home() -> Path:
    """The data folder, created where it does not exist and proven writable.

    Raises InvalidInput naming PLANSCOPE_HOME where it cannot be used: no folder, no permission, no space.
    """
    given = os.environ.get(HOME_VARIABLE, "").strip()
    if "\0" in given:  # no environment can hold one, but a test's or a caller's mapping can
        raise invalid(HOME_VARIABLE, given, "a path holds no NUL character.", _REMEDY)
    try:
        home = Path(given).expanduser() if given else platformdirs.user_data_path("planscope", appauthor=False)
    except RuntimeError as error:  # "~nobody-of-this-name/..."
        raise invalid(HOME_VARIABLE, given, f"{str(error).rstrip('.')}.", _REMEDY) from None
    return usable_home(home.absolute())


def usable_home(home: Path) -> Path:
    """``home`` itself, created and written to once: a full disk lets folders be made and files not be filled."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=home, prefix=".probe-") as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
    except (FileExistsError, NotADirectoryError):
        raise invalid(HOME_VARIABLE, home, "the data folder, or a folder above it, is a file.", _REMEDY) from None
    except OSError as error:
        raise _unusable(home, error) from None
    return home


def _unusable(home: Path, error: OSError) -> InvalidInput:
    reason = (error.strerror or str(error)).lower()
    return invalid(HOME_VARIABLE, home, f"the data folder cannot be written ({reason}).", _REMEDY)
