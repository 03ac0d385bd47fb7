"""The virtual environment that everything runs in: creating it, entering it, and installing packages into it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"


class SetupError(Exception):
    """Something the person has to mend; the message says what and how."""


def enter_environment(module: str, arguments: Sequence[str], folder: Path = VENV) -> None:
    """Go on inside the virtual environment: run `module` anew with its Python, after creating it where there is none.

    Returns when already inside. An environment without pip is what an interrupted creation leaves: it is created anew.
    """
    inside = Path(sys.prefix).resolve() == folder.resolve()
    if inside and importlib.util.find_spec("pip") is not None:
        return
    python = folder / "bin" / "python"
    if inside or not environment_works(python):
        # From inside a broken one, the Python it was made from.
        create_environment(folder, Path(getattr(sys, "_base_executable", sys.executable)))
    os.chdir(ROOT)
    os.execv(python, [str(python), "-m", module, *arguments])


def environment_works(python: Path) -> bool:
    """Whether a virtual environment's Python starts: the Python it was made from may have been removed since."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def create_environment(folder: Path, python: Path) -> None:
    """Create a virtual environment with this Python; leaves nothing behind where that fails or is interrupted."""
    print(f"Creating {folder.name} with Python {platform.python_version()}", flush=True)
    created = False
    try:
        done = subprocess.run(
            [python, "-m", "venv", "--clear", folder], capture_output=True, text=True, errors="replace", check=False
        )
        created = done.returncode == 0
    finally:
        if not created:
            shutil.rmtree(folder, ignore_errors=True)
    if not created:
        raise SetupError(no_environment_message(done.stdout + done.stderr, python, sys.version_info[:2]))


def no_environment_message(output: str, python: Path, version: tuple[int, int]) -> str:
    """What to do where `python -m venv` fails; Debian and Ubuntu have split it off into a package of its own."""
    if "ensurepip" in output or "No module named venv" in output:
        package = f"python{version[0]}.{version[1]}-venv"
        return (
            f"this Python ({python}) cannot create virtual environments: the package {package} is missing.\n"
            f"Install it, then run make again:\n    sudo apt-get install {package}"
        )
    return f"the virtual environment could not be created:\n{output.strip()}"


def run_pip(*arguments: str) -> tuple[int, str]:
    """pip with its progress on the terminal; returns its exit status and what it wrote to stderr."""
    # A PIP_USER=1 left over in the environment would send packages out of the virtual environment, and fail.
    environment = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    sys.stdout.flush()
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stderr.strip()


def install_requirements(file: Path) -> None:
    """Install a requirements file, or raise SetupError with what pip said."""
    print(f"Installing {file.name}", flush=True)
    status, errors = run_pip("install", "-r", str(file))
    if status != 0:
        raise SetupError(f"{errors}\npip could not install {file.name} (exit status {status}). Run make again to retry")


def installed_version(package: str) -> str | None:
    """The version installed now, also right after pip has changed it."""
    importlib.invalidate_caches()
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
