"""The set-up does what has not been done, once; says which cuDNN it chose; and explains a port that is taken."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest

from engine.machine import driver, environment, setup
from engine.machine.cudnn_version import CudnnChoice
from engine.machine.environment import SetupError
from engine.machine.fetch import Fetched, FetchError

REQUIREMENTS = "install -r requirements.txt"
DEVELOPMENT = "install -r requirements-dev.txt"
NEWEST = "install --no-deps nvidia-cudnn-cu13>=9.28,<10"
WITHOUT_GPU = "no GPU in this machine, and without one versions before 9.28 list too few plans"
OFFERED = ["9.19.0.56", "9.20.0.48", "9.28.1.4"]


class FakeMachine:
    """A machine without a GPU, with an empty virtual environment, whose pip and fetch write down what they would do."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.done: list[str] = []
        self.cudnn: str | None = None
        self.libcuda: str | None = None
        self.fetch_error: FetchError | None = None
        self.pip_error = ""
        self.gpus = driver.GpuProbe(0)
        self.nodes = False
        self.requirements = folder / "requirements.txt"
        self.requirements.write_text("torch==2.13.0\n")
        (folder / "requirements-dev.txt").write_text("pytest\n")
        monkeypatch.setattr(sys, "prefix", str(folder / ".venv"))
        monkeypatch.setattr(setup, "REQUIREMENTS", self.requirements)
        monkeypatch.setattr(setup, "DEVELOPMENT", folder / "requirements-dev.txt")
        monkeypatch.setattr(environment, "run_pip", self.run_pip)
        monkeypatch.setattr(setup, "run_pip", self.run_pip)
        monkeypatch.setattr(setup, "installed_version", lambda package: self.cudnn)
        monkeypatch.setattr(setup.importlib.metadata, "requires", lambda package: ["nvidia-cudnn-cu13==9.20.0.48"])
        monkeypatch.setattr(setup, "fetch_libcuda", self.fetch_libcuda)
        monkeypatch.setattr(driver, "load_libcuda", lambda: self.libcuda)
        monkeypatch.setattr(driver, "count_gpus", lambda: self.gpus)
        monkeypatch.setattr(driver, "has_device_nodes", lambda: self.nodes)

    def run_pip(self, *arguments: str) -> tuple[int, str]:
        self.done.append(" ".join([*arguments[:-1], Path(arguments[-1]).name]))
        if self.pip_error:
            return 1, self.pip_error
        if arguments[-1] == str(self.requirements):
            self.cudnn = "9.20.0.48"
        elif arguments[-1].startswith("nvidia-cudnn-cu13"):
            choice = CudnnChoice(arguments[-1].removeprefix("nvidia-cudnn-cu13"), "")
            matching = [version for version in OFFERED if choice.allows(version)]
            if not matching:
                return 1, f"ERROR: Could not find a version (from versions: {', '.join(OFFERED)})"
            self.cudnn = matching[-1]
        return 0, ""

    def fetch_libcuda(self, destination: Path) -> Fetched:
        self.done.append("fetch")
        if self.fetch_error:
            raise self.fetch_error
        self.libcuda = str(destination)
        return Fetched("libcuda1_1_amd64", destination)

    def set_up(self, cudnn: str = "", development: bool = False, retry_driver: bool = False) -> list[str]:
        """One run; returns what it did."""
        self.done.clear()
        self.warning = setup.set_up(cudnn, development, retry_driver)
        return list(self.done)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return FakeMachine(tmp_path, monkeypatch)


def test_the_first_run_does_everything_and_the_second_nothing(machine, capsys):
    assert machine.set_up() == [REQUIREMENTS, NEWEST, "fetch"]
    first = capsys.readouterr().out
    assert machine.set_up() == []
    second = capsys.readouterr().out
    assert second == f"cuDNN 9.28.1.4: {WITHOUT_GPU}\n"
    assert second in first


def test_tests_add_their_packages_and_a_later_run_leaves_them(machine):
    machine.set_up()
    assert machine.set_up(development=True) == [DEVELOPMENT]
    assert machine.set_up(development=True) == []
    assert machine.set_up() == []


def test_changed_requirements_are_installed_and_cudnn_is_looked_at_again(machine):
    machine.set_up()
    machine.requirements.write_text("torch==2.14.0\n")
    assert machine.set_up() == [REQUIREMENTS, NEWEST]


def test_another_cudnn_and_back(machine, capsys):
    machine.set_up()
    assert machine.set_up("9.19.0") == ["install --no-deps nvidia-cudnn-cu13==9.19.0.*"]
    assert machine.cudnn == "9.19.0.56"
    capsys.readouterr()
    assert machine.set_up("9.19.0") == []
    assert capsys.readouterr().out == "cuDNN 9.19.0.56: asked for with CUDNN=9.19.0\n"
    assert machine.set_up() == [NEWEST]
    assert machine.cudnn == "9.28.1.4"


def test_a_gpu_machine_keeps_torchs_cudnn_and_its_own_driver(machine, capsys):
    machine.gpus, machine.nodes, machine.libcuda = driver.GpuProbe(1), True, "system"
    assert machine.set_up() == [REQUIREMENTS]
    said = capsys.readouterr().out
    assert said.endswith("cuDNN 9.20.0.48: torch's own, so that plans match the programs that use this GPU\n")


def test_a_folder_shared_by_two_machines_follows_the_one_it_runs_on(machine):
    machine.set_up()
    machine.gpus, machine.nodes = driver.GpuProbe(1), True
    assert machine.set_up() == ["install --no-deps nvidia-cudnn-cu13==9.20.0.48"]


def test_a_driver_that_does_not_work_is_told(machine, capsys):
    machine.gpus = driver.GpuProbe(0, "the NVIDIA driver answers with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)")
    machine.set_up()
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803). Going on as on a machine without a GPU" in capsys.readouterr().out


def test_a_version_that_is_not_offered_names_those_that_are(machine):
    machine.set_up()
    with pytest.raises(
        SetupError, match=r"no nvidia-cudnn-cu13==9\.77\.0\.\*.*9\.19\.0\.56, 9\.20\.0\.48, 9\.28\.1\.4"
    ):
        machine.set_up("9.77.0")
    # What was there is there still, and the next run has nothing to install.
    assert machine.set_up() == []
    assert machine.cudnn == "9.28.1.4"


def test_a_word_for_a_version_is_refused_before_pip_runs(machine):
    machine.set_up()
    with pytest.raises(SetupError, match="CUDNN=newest is no cuDNN version"):
        machine.set_up("newest")
    assert machine.done == []


def test_an_interrupted_installation_is_repeated(machine):
    machine.pip_error = "ERROR: no space left on device"
    for _ in range(2):
        with pytest.raises(SetupError, match=r"no space left on device[\s\S]*requirements\.txt"):
            machine.set_up()
        assert machine.done == [REQUIREMENTS]
    machine.pip_error = ""
    assert machine.set_up() == [REQUIREMENTS, NEWEST, "fetch"]


def test_a_failed_fetch_warns_at_every_run_and_is_tried_again_on_request(machine):
    machine.fetch_error = FetchError("apt cannot download libcuda1: no network")
    assert machine.set_up()[-1] == "fetch"
    first = machine.warning
    assert first is not None
    assert "no network" in first
    assert "make driver" in first
    assert machine.set_up() == []
    assert machine.warning == first
    missing = driver.MissingLibcuda("apt cannot download libcuda1: no network", "make driver")
    assert driver.read_missing_libcuda() == missing
    machine.fetch_error = None
    assert machine.set_up(retry_driver=True) == ["fetch"]
    assert machine.warning is None
    assert driver.read_missing_libcuda() is None


def test_a_driver_installed_since_ends_the_warning(machine):
    machine.fetch_error = FetchError("no network")
    machine.set_up()
    machine.libcuda = "system"
    assert machine.set_up() == []
    assert machine.warning is None
    assert driver.read_missing_libcuda() is None


def test_a_library_that_does_not_load_is_thrown_away(machine, monkeypatch):
    def fetch_rubbish(destination: Path) -> Fetched:
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.write_bytes(b"rubbish")
        return Fetched("libcuda1_1_amd64", destination)

    monkeypatch.setattr(setup, "fetch_libcuda", fetch_rubbish)
    machine.set_up()
    assert machine.warning is not None
    assert "libcuda1_1_amd64 does not load" in machine.warning
    assert not driver.fetched_library().exists()


@pytest.mark.parametrize("content", ["", "[1]", '{"requirements": "x"}', "\x00"])
def test_a_state_that_cannot_be_read_is_an_empty_one(tmp_path, content):
    (tmp_path / "setup.json").write_text(content)
    assert setup.SetupState.read(tmp_path / "setup.json") == setup.SetupState()


def test_a_state_comes_back_as_written(tmp_path):
    state = setup.SetupState("a", "b", "c", "cuDNN 9.28.1.4: because")
    state.write(tmp_path / "lib/setup.json")
    assert setup.SetupState.read(tmp_path / "lib/setup.json") == state
    assert [file.name for file in (tmp_path / "lib").iterdir()] == ["setup.json"]


def test_a_taken_port_is_named_with_another_to_take():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        problem = setup.port_problem(str(port))
        assert problem is not None
        assert problem.startswith(f"port {port} on 127.0.0.1 is taken")
        assert problem.endswith(f"PORT={port + 1 if port < 65535 else 8501} make run")
    assert setup.port_problem(str(port)) is None


@pytest.mark.parametrize("text", ["", "0", "65536", "-1", "http", "8501 ", "8_501", "٨٥٠١"])
def test_what_is_no_port_is_refused_with_an_example(text):
    problem = setup.port_problem(text)
    assert problem is not None
    assert "from 1 to 65535" in problem


def test_the_command_line_ends_with_1_and_one_message(capsys):
    assert setup.main(["--port", "http"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("planscope: PORT=http is no port")
    assert captured.out == ""


def test_two_set_ups_take_turns(tmp_path):
    file = tmp_path / "requirements.txt"
    file.touch()
    order: list[str] = []

    def second() -> None:
        with setup.one_at_a_time(file):
            order.append("second")

    waiting = threading.Thread(target=second)
    with setup.one_at_a_time(file):
        waiting.start()
        waiting.join(timeout=0.3)
        assert waiting.is_alive()
        order.append("first")
    waiting.join(timeout=10)
    assert order == ["first", "second"]
