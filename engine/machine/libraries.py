"""Which cuDNN this machine would run with, library by library, and what is missing or does not belong together.

Run as ``python -m engine.machine.libraries`` it prints a LibraryReport as JSON. It loads libraries, and a broken set of
them can abort the process, so it is always a process of its own (``engine.jobs.inspection`` starts it).
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from pydantic import BaseModel

from engine.graph.tensors import FROZEN
from engine.machine.cudnn_libraries import LibraryInfo, loaded_path, package_version, packed_version, sublibraries
from engine.machine.driver import load_libcuda, read_missing_libcuda

COMPLETE_DEVICELESS = 92800
"""Older cuDNN lists fewer plans for a GPU that is not in the machine than for the same GPU in it (measured: 9.19, 9.20
lack matmul engine 4 for the H200; 9.28 lists it)."""


class LibraryReport(BaseModel):
    """Everything a worker process here would load. Versions are None where the package is not installed."""

    model_config = FROZEN

    libraries: tuple[LibraryInfo, ...]
    cudnn_backend: str | None
    cudnn_frontend: str | None
    torch: str | None
    python: str
    deviceless_complete: bool

    @property
    def problems(self) -> tuple[LibraryInfo, ...]:
        """What needs mending."""
        return tuple(library for library in self.libraries if library.problem)


def inspect_libraries() -> LibraryReport:
    """Load everything a builder would and report on it. Call it in a process that may crash."""
    driver = _driver()
    found = sublibraries()
    backend = next((library.version for library in found if library.name == "libcudnn"), None)
    complete = backend is not None and _number(backend) >= COMPLETE_DEVICELESS
    return LibraryReport(
        libraries=(driver, *found, _cuda_library("libnvrtc"), _cuda_library("libcublasLt")),
        cudnn_backend=backend,
        cudnn_frontend=package_version("nvidia-cudnn-frontend"),
        torch=package_version("torch"),
        python=sys.version.split()[0],
        deviceless_complete=complete,
    )


def _driver() -> LibraryInfo:
    origin = load_libcuda()
    if origin is None:
        missing = read_missing_libcuda()
        reason = missing.reason if missing else "no driver library was found"
        remedy = missing.remedy if missing else "rm -f .venv/planscope-stamp && make run"
        problem = f"{reason}; without it no plan can be built here"
        return LibraryInfo(name="libcuda", path=None, version=None, known_by="nothing", problem=problem, remedy=remedy)
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    text = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    return LibraryInfo(name="libcuda", path=loaded_path("libcuda.so") or origin, version=text, known_by="itself")


def _cuda_library(name: str) -> LibraryInfo:
    """NVRTC or cuBLASLt: cuDNN opens them by name when a plan needs them, and aborts the process where cuBLASLt is
    missing."""
    package = {"libnvrtc": "nvidia-cuda-nvrtc", "libcublasLt": "nvidia-cublas"}[name]
    remedy = f"{sys.executable} -m pip install --force-reinstall {package}"
    path = loaded_path(f"{name}.so") or _packaged(name) or f"{name}.so.13"
    try:
        handle = ctypes.CDLL(path)
    except OSError as error:
        return LibraryInfo(
            name=name, path=None, version=None, known_by="nothing", problem=str(error)[:300], remedy=remedy
        )
    if name == "libnvrtc":
        major, minor = ctypes.c_int(), ctypes.c_int()
        handle.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        version = f"{major.value}.{minor.value}"
    else:
        handle.cublasLtGetVersion.restype = ctypes.c_size_t
        version = packed_version(handle.cublasLtGetVersion())
    return LibraryInfo(name=name, path=loaded_path(f"{name}.so"), version=version, known_by="itself")


def _packaged(name: str) -> str | None:
    """A library inside an installed nvidia package, where the loader's own search does not look."""
    for entry in sys.path:
        for path in sorted(Path(entry).glob(f"nvidia/*/lib/{name}.so.*"), reverse=True):
            return str(path)
    return None


def _number(version: str) -> int:
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * 10000 + minor * 100 + patch


if __name__ == "__main__":
    sys.stdout.write(inspect_libraries().model_dump_json() + "\n")
