"""Fetches NVIDIA's user-space driver package from the distribution's own archive, as anybody, without installing it.

apt does the work (mirrors, proxies, signatures), but in a folder of its own, so that the system's package lists, cache
and locks stay as they are and no root is needed. Only the one library is taken out of the package.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.machine.distribution import (
    Distribution,
    driver_sources_deb822,
    driver_sources_one_line,
    read_distribution,
    ubuntu_driver_packages,
)
from engine.machine.driver import LIBRARY, MissingLibcuda

RETRY = "make driver"
APT_SECONDS = 300.0
# Packages of the newest drivers tried before giving up: a name may be left behind as an empty transitional package.
PACKAGES_TRIED = 3
# The library itself; the names `libcuda.so` and `libcuda.so.1` are links to it.
_LIBRARY_FILE = re.compile(r"(?:^|/)libcuda\.so\.\d+\.[\d.]+$")
_COPYRIGHT_FILE = re.compile(r"(?:^|/)usr/share/doc/[^/]+/copyright$")
# apt's hooks are for the system's own lists and cache, which a private run does not touch.
_HOOKS = re.compile(r"^(?:APT::Update::(?:Pre-Invoke|Post-Invoke)|DPkg::)", re.IGNORECASE)


class FetchError(Exception):
    """The driver package could not be fetched; carries the reason and the command that mends it."""

    def __init__(self, reason: str, remedy: str = RETRY) -> None:
        super().__init__(reason)
        self.missing = MissingLibcuda(reason, remedy)


@dataclass(frozen=True)
class Fetched:
    """The package the library came from."""

    package: str
    library: Path


def fetch_libcuda(destination: Path) -> Fetched:
    """Put the distribution's `libcuda.so.1` at `destination`, its licence beside it; raises FetchError."""
    distribution = _this_distribution(destination)
    with tempfile.TemporaryDirectory(prefix="planscope-apt-") as folder:
        # As root, apt downloads as its own user, who has to get into this folder.
        Path(folder).chmod(0o755)
        apt = PrivateApt(Path(folder), distribution)
        apt.update()
        for package in apt.driver_packages()[:PACKAGES_TRIED]:
            archive = apt.download(package)
            if unpack_libcuda(archive, destination):
                return Fetched(archive.stem, destination)
    raise FetchError(f"none of the driver packages of {distribution.name} contains {LIBRARY}")


def _this_distribution(destination: Path) -> Distribution:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    distribution = read_distribution(text)
    tools = [tool for tool in ("apt-get", "apt-cache", "apt-config", "dpkg-deb") if shutil.which(tool) is None]
    if distribution is None or tools:
        lacks = f"this machine has no {tools[0]}" if distribution else "this distribution is not Debian's or Ubuntu's"
        copy = f"scp MACHINE-WITH-AN-NVIDIA-DRIVER:/usr/lib64/{LIBRARY} {destination}"
        raise FetchError(f"{lacks}, so the set-up does not know which package has {LIBRARY}", copy)
    return distribution


class PrivateApt:
    """apt with lists, cache and sources of its own in one folder; configuration, keys and proxies are the machine's."""

    def __init__(self, folder: Path, distribution: Distribution) -> None:
        self._folder = folder
        self._distribution = distribution
        self._problem = ""
        self._environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        for name in ("state/lists/partial", "cache/archives/partial", "sources", "packages", "empty"):
            (folder / name).mkdir(parents=True)
        settings = self._run("apt-config", "dump").stdout
        self._write_sources(settings)
        self._write_configuration(settings)

    def _write_configuration(self, settings: str) -> None:
        kept = [line for line in settings.splitlines() if not _HOOKS.match(line)]
        own = {
            "Dir::State": self._folder / "state",
            "Dir::State::lists": self._folder / "state/lists",
            "Dir::Cache": self._folder / "cache",
            "Dir::Cache::archives": self._folder / "cache/archives",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": self._folder / "sources",
            "Dir::Etc::parts": self._folder / "empty",
            "Dir::Etc::main": "/dev/null",
            "Acquire::Retries": 2,
            "Acquire::http::Timeout": 30,
            "Acquire::https::Timeout": 30,
            "Acquire::Languages": "none",
        }
        configuration = self._folder / "apt.conf"
        configuration.write_text("\n".join([*kept, *(f'{name} "{value}";' for name, value in own.items()), ""]))
        # Read before every other configuration file, which it then switches off.
        self._environment["APT_CONFIG"] = str(configuration)

    def _write_sources(self, settings: str) -> None:
        written = False
        for number, file in enumerate(source_files(settings)):
            rewrite = driver_sources_deb822 if file.suffix == ".sources" else driver_sources_one_line
            try:
                text = rewrite(file.read_text(encoding="utf-8", errors="replace"), self._distribution)
            except OSError:
                continue
            if text:
                suffix = ".sources" if file.suffix == ".sources" else ".list"
                (self._folder / "sources" / f"{number:03}{suffix}").write_text(text, encoding="utf-8")
                written = True
        if not written:
            raise FetchError(f"apt's sources name no archive of {self._distribution.name} that is switched on")

    def update(self) -> None:
        """Read the archive's lists. What cannot be read shows later, as a package that is not there."""
        self._problem = last_complaint(self._run("apt-get", "-q", "update", check=False).stderr)

    def driver_packages(self) -> list[str]:
        """The packages that may have the library, the best first."""
        if self._distribution.family == "debian":
            return ["libcuda1"]
        found = ubuntu_driver_packages(self._run("apt-cache", "search", "--names-only", "^libnvidia-compute-").stdout)
        if not found:
            raise FetchError(self._explain("the archive offers no package libnvidia-compute-NNN"))
        return found

    def download(self, package: str) -> Path:
        """Download one package, its signature checked by apt, and return the file."""
        target = self._folder / "packages" / package
        target.mkdir()
        done = self._run("apt-get", "-q", "download", package, cwd=target, check=False)
        archives = list(target.glob("*.deb"))
        if done.returncode != 0 or not archives:
            complaint = last_complaint(done.stderr) or f"exit status {done.returncode}"
            raise FetchError(self._explain(f"apt cannot download {package}: {complaint}"))
        return archives[0]

    def _explain(self, reason: str) -> str:
        return f"{reason} (and reading its lists: {self._problem})" if self._problem else reason

    def _run(self, *command: str, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        try:
            done = subprocess.run(
                command,
                cwd=cwd or self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=APT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise FetchError(f"{command[0]} did not finish within {APT_SECONDS:.0f} s") from error
        if check and done.returncode != 0:
            raise FetchError(f"{command[0]} failed: {last_complaint(done.stderr) or done.returncode}")
        return done


def source_files(settings: str) -> list[Path]:
    """apt's source files on this machine, in apt's order, from the output of `apt-config dump`."""
    values = dict(re.findall(r'^(Dir(?:::Etc)?(?:::\w+)?) "([^"]*)";$', settings, flags=re.MULTILINE))
    etc = Path(values.get("Dir", "/")) / values.get("Dir::Etc", "etc/apt")
    parts = etc / values.get("Dir::Etc::sourceparts", "sources.list.d")
    listed = sorted(parts.iterdir()) if parts.is_dir() else []
    return [
        etc / values.get("Dir::Etc::sourcelist", "sources.list"),
        *(file for file in listed if file.suffix in (".list", ".sources")),
    ]


def last_complaint(stderr: str) -> str:
    """The line of apt's that says most: its last error, or a file it could not read, or any warning; else empty."""
    for mark, start in (("E: ", ""), ("W: ", "Failed to fetch "), ("W: ", "")):
        lines = [line.removeprefix(mark) for line in stderr.splitlines() if line.startswith(mark + start)]
        if lines:
            return lines[-1].strip()
    return ""


def unpack_libcuda(archive: Path, destination: Path) -> bool:
    """Take the library (and the licence) out of a .deb file; False where it has none.

    Single files are copied out of the stream: nothing in the package decides where anything is written.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    found = False
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as members:
                for member in members:
                    content = members.extractfile(member) if member.isreg() else None
                    if content is not None and _LIBRARY_FILE.search(member.name):
                        _write_whole(content, destination)
                        found = True
                    elif content is not None and _COPYRIGHT_FILE.search(member.name):
                        _write_whole(content, destination.with_name(f"{LIBRARY}.copyright"))
            process.stdout.read()
        except tarfile.TarError as error:
            raise FetchError(f"the package {archive.name} cannot be unpacked: {error}") from error
    if process.returncode != 0:
        raise FetchError(f"the package {archive.name} cannot be unpacked (dpkg-deb ended with {process.returncode})")
    return found


def _write_whole(content: IO[bytes], destination: Path) -> None:
    """Write beside the destination and rename: a process that loads the library meanwhile sees all of it or none."""
    partial = destination.with_name(f"{destination.name}.partial")
    try:
        with partial.open("wb") as written:
            shutil.copyfileobj(content, written)
        partial.replace(destination)
    finally:
        partial.unlink(missing_ok=True)
