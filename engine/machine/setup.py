"""The set-up behind `make run` and `make test`: virtual environment, packages, cuDNN version, driver library.

Runs on the standard library alone, first with the machine's own Python and, once there is a virtual environment, again
with that one. What was done is written down beside the packages, so that a second run starts in no time.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import platform
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from engine.machine import driver
from engine.machine.cudnn_version import PACKAGE, choose_cudnn, offered_versions
from engine.machine.environment import (
    ROOT,
    SetupError,
    enter_environment,
    install_requirements,
    installed_version,
    run_pip,
)
from engine.machine.fetch import RETRY, FetchError, fetch_libcuda

REQUIREMENTS = ROOT / "requirements.txt"
DEVELOPMENT = ROOT / "requirements-dev.txt"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class SetupState:
    """What the virtual environment holds: stamps of what was installed, and which cuDNN was chosen and why.

    A field is empty until its step has been done, and is emptied again before the step starts anew: a step that was
    interrupted is repeated.
    """

    requirements: str = ""
    development: str = ""
    cudnn: str = ""
    cudnn_line: str = ""

    @classmethod
    def read(cls, file: Path) -> SetupState:
        """The state in a file; an empty one where the file is missing or not one of ours."""
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            return cls(**{field.name: str(stored[field.name]) for field in fields(cls)})
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    def write(self, file: Path) -> None:
        """Write the state, whole or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        partial.replace(file)


def requirements_stamp(file: Path) -> str:
    """Changes when the requirements change, or the Python they were installed for."""
    return hashlib.sha256(file.read_bytes() + platform.python_version().encode()).hexdigest()


def cudnn_stamp(asked: str, device_nodes: bool) -> str:
    """Changes when another version is asked for, or one folder is used first with a GPU and then without."""
    return f"asked={asked.strip()} device={device_nodes}"


def set_up(asked_cudnn: str, development: bool, retry_driver: bool = False) -> str | None:
    """Bring the virtual environment that runs this to what was asked for; does only what has not been done.

    Returns a warning where plans cannot be made on this machine. Raises SetupError where nothing will work.
    """
    file = driver.machine_folder() / "setup.json"
    state = SetupState.read(file)
    stamp = requirements_stamp(REQUIREMENTS)
    if state.requirements != stamp:
        # Everything anew: pip may have to move cuDNN back to what torch pins.
        SetupState().write(file)
        install_requirements(REQUIREMENTS)
        state = SetupState(requirements=stamp)
        state.write(file)
    stamp = requirements_stamp(DEVELOPMENT)
    if development and state.development != stamp:
        install_requirements(DEVELOPMENT)
        state = replace(state, development=stamp)
        state.write(file)
    stamp = cudnn_stamp(asked_cudnn, driver.has_device_nodes())
    if state.cudnn != stamp:
        replace(state, cudnn="", cudnn_line="").write(file)
        state = replace(state, cudnn=stamp, cudnn_line=install_cudnn(asked_cudnn))
        state.write(file)
    print(state.cudnn_line, flush=True)
    return ensure_libcuda(retry_driver)


def install_cudnn(asked: str) -> str:
    """Bring cuDNN to the version that belongs on this machine; returns the line that says which one and why."""
    gpu = driver.count_gpus()
    if gpu.problem:
        print(f"Note: {gpu.problem}. Going on as on a machine without a GPU.")
    try:
        choice = choose_cudnn(asked, gpu.found, importlib.metadata.requires("torch") or [])
    except ValueError as error:
        raise SetupError(str(error)) from error
    if not choice.allows(installed_version(PACKAGE)):
        print(f"Installing {choice.requirement}", flush=True)
        # Without dependencies: torch pins another version, and what cuDNN needs is there already.
        status, errors = run_pip("install", "--no-deps", choice.requirement)
        if status != 0:
            raise SetupError(cudnn_failure_message(choice.requirement, errors))
    return f"cuDNN {installed_version(PACKAGE)}: {choice.reason}"


def cudnn_failure_message(requirement: str, pip_errors: str) -> str:
    """What to do where pip cannot install this cuDNN; an environment that was there stays as it was."""
    offered = offered_versions(pip_errors)
    if not offered:
        return f"{pip_errors}\npip could not install {requirement}. Run make again to retry"
    return f"there is no {requirement} for this machine. Choose one of these with CUDNN=: {', '.join(offered)}"


def ensure_libcuda(retry: bool) -> str | None:
    """Fetch libcuda.so.1 where this machine has none; returns a warning where that fails, or failed earlier."""
    if driver.load_libcuda() is not None:
        driver.write_missing_libcuda(None)
        return None
    missing = None if retry else driver.read_missing_libcuda()
    if missing is None:
        print(f"Fetching {driver.LIBRARY}, which cuDNN needs to plan without a GPU", flush=True)
        missing = fetch_or_explain(driver.fetched_library())
        driver.write_missing_libcuda(missing)
    if missing is None:
        return None
    return (
        f"no {driver.LIBRARY}, so no plans can be made on this machine; recorded runs still open.\n"
        f"    why:  {missing.reason}\n    mend: {missing.remedy}"
    )


def fetch_or_explain(destination: Path) -> driver.MissingLibcuda | None:
    """Fetch the driver library and try it; returns what is in the way, as a file for the System page keeps it."""
    try:
        fetched = fetch_libcuda(destination)
    except FetchError as error:
        return error.missing
    except OSError as error:
        return driver.MissingLibcuda(f"{driver.LIBRARY} could not be fetched: {error}", RETRY)
    if driver.load_libcuda() is None:
        destination.unlink()
        return driver.MissingLibcuda(f"the library in {fetched.package} does not load on this machine", RETRY)
    print(f"Fetched {driver.LIBRARY} from {fetched.package} (NVIDIA's licence lies beside it)")
    return None


def port_problem(text: str, host: str = HOST) -> str | None:
    """Why the dashboard cannot be served on this port, and what to do; None where it can."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        return f"PORT={text} is no port: write a number from 1 to 65535, for example PORT=8502"
    port = int(text)
    other = port + 1 if port < 65535 else 8501
    try:
        with socket.socket() as listener:
            # As servers do: connections of one that has just ended do not count.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(1)
    except PermissionError:
        return f"port {port} is reserved for the system. To choose another: PORT=8501 make run"
    except OSError as error:
        return (
            f"port {port} on {host} is taken ({error.strerror}), perhaps by another Planscope: http://{host}:{port}\n"
            f"To choose another: PORT={other} make run"
        )
    return None


@contextlib.contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Two set-ups in one folder take turns. The lock goes with the process, also when it is killed."""
    with file.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another set-up in this folder to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine.machine.setup", description="Set up Planscope's .venv.")
    parser.add_argument("--cudnn", default="", help="install this cuDNN version: 9.x.y, or all four parts")
    parser.add_argument("--development", action="store_true", help="also install what tests and checks need")
    parser.add_argument("--port", help="end with a message where this port cannot be served")
    parser.add_argument("--retry-driver", action="store_true", help="try again to fetch the driver library")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """The command line behind the Makefile: 0 also where the driver library is missing, 1 where nothing will work."""
    options = parse_arguments(arguments)
    try:
        if sys.platform != "linux":
            raise SetupError("Planscope needs Linux, or WSL on Windows: it is where NVIDIA's cuDNN packages install")
        if options.port is not None and (problem := port_problem(options.port)):
            raise SetupError(problem)
        with one_at_a_time(REQUIREMENTS):
            enter_environment("engine.machine.setup", arguments)
            warning = set_up(options.cudnn, options.development, options.retry_driver)
    except SetupError as error:
        print(f"planscope: {error}", file=sys.stderr)
        return 1
    if warning:
        print(f"planscope: {warning}", file=sys.stderr)
    return 1 if warning and options.retry_driver else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
