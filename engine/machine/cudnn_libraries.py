"""The shared libraries of cuDNN 9: where they are, which version each one is, and whether they belong together.

Loading them can abort the process, so this runs in a process of its own (see ``libraries``).
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import sys
from pathlib import Path

from pydantic import BaseModel

from engine.graph.tensors import FROZEN

CORE = ("graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled", "engines_runtime_compiled")
"""Sub-libraries every cuDNN 9 has (NVIDIA cuDNN documentation, "Sub-library structure"); newer ones add more."""


class LibraryInfo(BaseModel):
    """One shared library. ``known_by``: how its version is known ("itself", or the package that installed it)."""

    model_config = FROZEN

    name: str
    path: str | None
    version: str | None
    known_by: str
    problem: str | None = None
    remedy: str | None = None


def packed_version(number: int) -> str:
    """cuDNN's version number as text: 92801 is 9.28.1."""
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def _cudnn_folder() -> tuple[Path | None, str]:
    """Folder of the cuDNN that the frontend picks, and why there is none."""
    try:
        import cudnn  # noqa: F401  the frontend looks for the backend as it is imported
    except (ImportError, OSError, RuntimeError) as error:
        return None, f"the cuDNN frontend cannot be imported: {str(error).splitlines()[0][:300]}"
    path = loaded_path("libcudnn.so") or loaded_path("libcudnn_graph.so")
    return (Path(path).parent, "") if path else (None, "the cuDNN frontend loaded no libcudnn")


def _no_cudnn(problem: str) -> LibraryInfo:
    remedy = f"{sys.executable} -m pip install --force-reinstall nvidia-cudnn-cu13 nvidia-cudnn-frontend"
    return LibraryInfo(name="libcudnn", path=None, version=None, known_by="nothing", problem=problem, remedy=remedy)


def sublibraries() -> list[LibraryInfo]:
    """libcudnn and its sub-libraries, those that lie where the frontend picked cuDNN from, mismatches flagged."""
    folder, problem = _cudnn_folder()
    return matched(_in_folder(folder)) if folder else [_no_cudnn(problem)]


def _in_folder(folder: Path) -> list[LibraryInfo]:
    files = {path.name.split(".so")[0]: path for path in sorted(folder.glob("libcudnn*.so.9"))}
    names = ["libcudnn", *(f"libcudnn_{name}" for name in CORE), *sorted(files)]
    return [_sublibrary(name, files.get(name)) for name in dict.fromkeys(names)]


def _sublibrary(name: str, path: Path | None) -> LibraryInfo:
    remedy = f"{sys.executable} -m pip install --force-reinstall --no-deps {_owner_requirement()}"
    if path is None:
        problem = f"{name}.so.9 is not beside libcudnn.so.9"
        return LibraryInfo(name=name, path=None, version=None, known_by="nothing", problem=problem, remedy=remedy)
    installed = _installed_size(path)
    if installed is not None and installed[1] != path.stat().st_size:
        problem = f"it has {path.stat().st_size} bytes where package {installed[0]} installed {installed[1]}"
        return LibraryInfo(name=name, path=str(path), version=None, known_by="nothing", problem=problem, remedy=remedy)
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        return LibraryInfo(
            name=name, path=str(path), version=None, known_by="nothing", problem=str(error)[:300], remedy=remedy
        )
    own = _own_version(name, handle)
    if own is not None:
        return LibraryInfo(name=name, path=str(path), version=own, known_by="itself")
    if installed is not None:
        package, version = installed[0].split(" ")
        return LibraryInfo(name=name, path=str(path), version=version, known_by=f"package {package}")
    return LibraryInfo(name=name, path=str(path), version=None, known_by="nothing says it")


def _own_version(name: str, handle: ctypes.CDLL) -> str | None:
    """cudnnGetVersion of libcudnn, or the constant some sub-libraries export: patch, minor and major, a byte each."""
    if name == "libcudnn":
        function = handle.cudnnGetVersion
        function.restype = ctypes.c_size_t
        return packed_version(function())
    stem = name.removeprefix("lib")
    for symbol in (f"{stem}_version", f"{stem}_infer_version"):
        try:
            patch, minor, major = bytes((ctypes.c_ubyte * 3).in_dll(handle, symbol))
        except ValueError:
            continue
        return f"{major}.{minor}.{patch}"
    return None


def matched(found: list[LibraryInfo]) -> list[LibraryInfo]:
    """Flag sub-libraries whose version is not libcudnn's (a package version has a fourth number, which is not
    compared)."""
    want = next((library.version for library in found if library.name == "libcudnn"), None)
    checked = []
    for library in found:
        have = library.version and ".".join(library.version.split(".")[:3])
        if want and have and have != want:
            remedy = f"{sys.executable} -m pip install --force-reinstall --no-deps {_owner_requirement()}"
            update = {"problem": f"version {have} beside libcudnn {want}", "remedy": remedy}
            library = library.model_copy(update=update)
        checked.append(library)
    return checked


def loaded_path(name: str) -> str | None:
    """Path under which a library whose file name starts with ``name`` is mapped into this process."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = line.split(maxsplit=5)[-1].strip()
        if path.startswith("/") and Path(path).name.startswith(name):
            return path
    return None


def _installed_size(path: Path) -> tuple[str, int] | None:
    """("package version", bytes) as the package that owns a file recorded it, or None where no package does."""
    for name in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in distribution.files or ():
            if file.name == path.name and file.size and Path(str(file.locate())).resolve() == path.resolve():
                return f"{name} {distribution.version}", file.size
    return None


def _owner_requirement() -> str:
    for name in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        if version := package_version(name):
            return f"{name}=={version}"
    return "nvidia-cudnn-cu13"


def package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
