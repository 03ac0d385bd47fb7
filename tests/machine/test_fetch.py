"""Fetching the driver package: what is taken out of it, whose sources are read, and what a failure says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from engine.machine import fetch
from engine.machine.distribution import Distribution

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb on this machine")
DEBIAN = Distribution("Debian GNU/Linux 12 (bookworm)", "debian", frozenset({"bookworm"}))
UBUNTU = Distribution("Ubuntu 24.04", "ubuntu", frozenset({"noble"}))


def build_package(folder: Path, files: dict[str, str], links: dict[str, str]) -> Path:
    """A real .deb file with these files and links."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: libcuda1\nVersion: 1\nArchitecture: amd64\nMaintainer: A <a@example.org>\nDescription: x\n"
    )
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(content)
    for name, target in links.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(target)
    archive = folder / "package.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, archive], check=True, capture_output=True)
    return archive


@needs_dpkg
@pytest.mark.parametrize("where", ["usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/aarch64-linux-gnu"])
def test_the_library_itself_is_taken_not_the_link_to_it(tmp_path, where):
    package = build_package(
        tmp_path,
        {
            f"{where}/libcuda.so.535.309.01": "the library",
            f"{where}/libcudadebugger.so.535.309.01": "another",
            "usr/share/doc/libcuda1/copyright": "the licence",
        },
        {f"{where}/libcuda.so.1": "libcuda.so.535.309.01", f"{where}/libcuda.so": "libcuda.so.1"},
    )
    destination = tmp_path / "lib/planscope/libcuda.so.1"
    assert fetch.unpack_libcuda(package, destination)
    assert destination.read_text() == "the library"
    assert not destination.is_symlink()
    assert sorted(file.name for file in destination.parent.iterdir()) == ["libcuda.so.1", "libcuda.so.1.copyright"]


@needs_dpkg
def test_a_package_without_the_library_is_told(tmp_path):
    package = build_package(tmp_path, {"usr/share/doc/x/copyright": "transitional"}, {})
    assert not fetch.unpack_libcuda(package, tmp_path / "libcuda.so.1")
    assert not (tmp_path / "libcuda.so.1").exists()


@needs_dpkg
def test_a_damaged_package_is_an_explained_failure(tmp_path):
    (tmp_path / "broken.deb").write_bytes(b"!<arch>\ndebian-binary   nonsense")
    with pytest.raises(fetch.FetchError, match=r"broken\.deb cannot be unpacked"):
        fetch.unpack_libcuda(tmp_path / "broken.deb", tmp_path / "libcuda.so.1")


def test_sources_are_looked_for_where_apt_looks(tmp_path):
    etc = tmp_path / "etc/apt"
    (etc / "sources.list.d").mkdir(parents=True)
    for name in ("debian.sources", "b.list", "a.list", "a.list.save", "notes.txt"):
        (etc / "sources.list.d" / name).touch()
    settings = f'Dir "{tmp_path}/";\nDir::Etc "etc/apt";\nDir::Etc::sourcelist "sources.list";\n'
    settings += 'Dir::Etc::sourceparts "sources.list.d";\n'
    found = [str(file.relative_to(etc)) for file in fetch.source_files(settings)]
    assert found == ["sources.list", *(f"sources.list.d/{n}" for n in ("a.list", "b.list", "debian.sources"))]


def test_apts_error_is_preferred_to_its_warnings():
    assert fetch.last_complaint("W: first\nE: Unable to locate package libcuda1\nW: later\n") == (
        "Unable to locate package libcuda1"
    )
    assert fetch.last_complaint("Reading\nW: Failed to fetch it\n") == "Failed to fetch it"
    some = "W: Failed to fetch it\nW: Some index files failed to download.\n"
    assert fetch.last_complaint(some) == "Failed to fetch it"
    assert fetch.last_complaint("W: The key is old\n") == "The key is old"
    assert fetch.last_complaint("all well\n") == ""


class FakeApt:
    """Stands in for the apt programs: answers by the program and its verb, and remembers every call's configuration."""

    def __init__(self, answers: dict[str, tuple[int, str, str]]) -> None:
        self.answers = answers
        self.configurations: list[str] = []

    def __call__(self, command, cwd, env, **_):
        verb = next((word for word in command[1:] if not word.startswith("-")), "")
        if "APT_CONFIG" in env:
            self.configurations.append(Path(env["APT_CONFIG"]).read_text())
        status, out, err = self.answers.get(f"{command[0]} {verb}", (0, "", ""))
        return subprocess.CompletedProcess(command, status, out, err)


def machine(tmp_path: Path, sources: str) -> str:
    """A machine's folder with these one-line sources; returns what `apt-config dump` says there."""
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine/sources.list").write_text(sources)
    return (
        f'Dir "{tmp_path}/";\nDir::Etc "machine";\nDir::Etc::sourcelist "sources.list";\n'
        'Acquire::http::Proxy "http://proxy.example.org:3128";\n'
        'APT::Update::Post-Invoke-Success:: "touch /var/cache/x";\nDPkg::Pre-Install-Pkgs:: "hook";\n'
    )


def private_apt(tmp_path, monkeypatch, distribution, sources, **answers):
    dump = machine(tmp_path, sources)
    named = {name.replace("_", "-").replace("--", " "): answer for name, answer in answers.items()}
    fake = FakeApt({"apt-config dump": (0, dump, ""), **named})
    monkeypatch.setattr(subprocess, "run", fake)
    folder = tmp_path / "private"
    folder.mkdir()
    return fetch.PrivateApt(folder, distribution), fake


def test_apt_keeps_proxies_and_loses_hooks_and_system_folders(tmp_path, monkeypatch):
    apt, fake = private_apt(tmp_path, monkeypatch, DEBIAN, "deb http://mirror.example.org/debian bookworm main\n")
    apt.update()
    configuration = fake.configurations[-1]
    assert "proxy.example.org" in configuration
    assert "Invoke" not in configuration
    assert "DPkg" not in configuration
    for setting in ("Dir::State", "Dir::State::lists", "Dir::Cache", "Dir::Etc::sourceparts", "Dir::Etc::parts"):
        last = [line for line in configuration.splitlines() if line.startswith(f"{setting} ")][-1]
        assert str(tmp_path / "private") in last
    (source,) = (tmp_path / "private/sources").iterdir()
    assert source.read_text() == "deb http://mirror.example.org/debian bookworm non-free\n"


def test_sources_of_other_people_only(tmp_path, monkeypatch):
    with pytest.raises(fetch.FetchError, match="no archive of Debian GNU/Linux 12"):
        private_apt(tmp_path, monkeypatch, DEBIAN, "deb https://apt.example.com bookworm stable\n")


def test_no_network_is_named_with_the_command_to_try_again(tmp_path, monkeypatch):
    apt, _ = private_apt(
        tmp_path,
        monkeypatch,
        DEBIAN,
        "deb http://mirror.example.org/debian bookworm main\n",
        apt_get__update=(0, "", "W: Failed to fetch InRelease  Could not resolve 'mirror.example.org'\n"),
        apt_get__download=(100, "", "E: Unable to locate package libcuda1\n"),
    )
    apt.update()
    with pytest.raises(fetch.FetchError) as raised:
        apt.download("libcuda1")
    assert "Unable to locate package libcuda1" in raised.value.missing.reason
    assert "Could not resolve 'mirror.example.org'" in raised.value.missing.reason
    assert raised.value.missing.remedy == "make driver"


def test_ubuntu_offers_no_driver(tmp_path, monkeypatch):
    apt, _ = private_apt(tmp_path, monkeypatch, UBUNTU, "deb http://mirror.example.org/ubuntu noble main\n")
    with pytest.raises(fetch.FetchError, match="libnvidia-compute-NNN"):
        apt.driver_packages()


def test_ubuntu_tries_an_older_driver_where_the_newest_is_an_empty_package(tmp_path, monkeypatch):
    tried = []

    class Apt:
        def __init__(self, folder, distribution):
            assert distribution is UBUNTU

        def update(self):
            tried.append("update")

        def driver_packages(self):
            return [f"libnvidia-compute-{branch}" for branch in (570, 550, 535, 470)]

        def download(self, package):
            tried.append(package)
            return Path(f"{package}_1_amd64.deb")

    monkeypatch.setattr(fetch, "PrivateApt", Apt)
    monkeypatch.setattr(fetch, "_this_distribution", lambda destination: UBUNTU)
    monkeypatch.setattr(fetch, "unpack_libcuda", lambda archive, destination: "550" in archive.name)
    fetched = fetch.fetch_libcuda(tmp_path / "libcuda.so.1")
    assert tried == ["update", "libnvidia-compute-570", "libnvidia-compute-550"]
    assert fetched.package == "libnvidia-compute-550_1_amd64"
    monkeypatch.setattr(fetch, "unpack_libcuda", lambda archive, destination: False)
    with pytest.raises(fetch.FetchError, match="none of the driver packages"):
        fetch.fetch_libcuda(tmp_path / "libcuda.so.1")


def test_a_distribution_without_apt_is_told_to_copy_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch.shutil, "which", lambda tool: None)
    with pytest.raises(fetch.FetchError) as raised:
        fetch.fetch_libcuda(tmp_path / "libcuda.so.1")
    assert raised.value.missing.remedy.endswith(str(tmp_path / "libcuda.so.1"))
    assert raised.value.missing.remedy.startswith("scp ")


def test_a_member_that_only_looks_like_the_library_is_left_alone():
    names = [
        "usr/lib/libcuda.so.535.309.01",
        "./usr/lib/x/libcuda.so.470.1",
        "usr/lib/libcuda.so.1",
        "usr/lib/libcuda.so",
    ]
    names += ["usr/lib/libcudart.so.12.1", "usr/lib/libcuda.so.535.309.01.txt", "usr/lib/notlibcuda.so.535.1"]
    assert [name for name in names if fetch._LIBRARY_FILE.search(name)] == names[:2]
