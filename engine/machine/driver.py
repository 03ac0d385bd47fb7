"""Finds and loads `libcuda.so.1`, and says whether this machine has a GPU.

cuDNN plans and builds for a GPU that is not in the machine, but only in a process that has a real `libcuda.so.1`: no
GPU and no kernel module, just the user-space driver library. Where the machine has none, the set-up puts the
distribution's own into the virtual environment. A worker loads it by its path before it imports cudnn; cuDNN then
asks the dynamic loader for the name `libcuda.so.1` and gets the one already loaded, so nobody sets LD_LIBRARY_PATH.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

LIBRARY = "libcuda.so.1"
# WSL keeps the Windows driver's library here, and some of its distributions leave the folder out of the loader's path.
WSL_LIBRARY = Path("/usr/lib/wsl/lib") / LIBRARY
CUDA_SUCCESS = 0
CUDA_ERROR_NO_DEVICE = 100
PROBE_SECONDS = 60.0


def machine_folder() -> Path:
    """Where the set-up keeps what it fetched and what it found out: inside the virtual environment that runs this."""
    return Path(sys.prefix) / "lib" / "planscope"


def fetched_library() -> Path:
    """Where the set-up puts the driver library it fetches; the file need not be there."""
    return machine_folder() / LIBRARY


def load_libcuda() -> str | None:
    """Load `libcuda.so.1` into this process, for everything loaded later.

    Returns where it came from: "system", or the path of the file; None where there is none that loads. Call it in a
    worker process before `import cudnn`. The machine's own comes first: with a GPU it must match the kernel module.
    """
    for origin in ("system", str(WSL_LIBRARY), str(fetched_library())):
        try:
            ctypes.CDLL(LIBRARY if origin == "system" else origin, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return origin
    return None


@dataclass(frozen=True)
class MissingLibcuda:
    """Why there is no driver library, and the exact command that mends it."""

    reason: str
    remedy: str


def _missing_report() -> Path:
    return machine_folder() / "libcuda-missing.json"


def write_missing_libcuda(missing: MissingLibcuda | None) -> None:
    """Keep what the set-up found out for the System page; None where the library is there after all."""
    report = _missing_report()
    if missing is None:
        report.unlink(missing_ok=True)
        return
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(asdict(missing), indent=2) + "\n", encoding="utf-8")


def read_missing_libcuda() -> MissingLibcuda | None:
    """What the last set-up could not fetch. It may be there by now: ask `load_libcuda` in a worker first."""
    try:
        stored = json.loads(_missing_report().read_text(encoding="utf-8"))
        return MissingLibcuda(reason=str(stored["reason"]), remedy=str(stored["remedy"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        return MissingLibcuda(reason=f"the set-up's report cannot be read ({error})", remedy="make driver")


@dataclass(frozen=True)
class GpuProbe:
    """What the driver answered: how many GPUs (or MIG slices) it offers, and what went wrong where that is none."""

    count: int
    problem: str | None = None

    @property
    def found(self) -> bool:
        return self.count > 0


def has_device_nodes() -> bool:
    """Whether the kernel shows an NVIDIA device. Takes no time; says nothing about whether a process can use it."""
    return Path("/dev/dxg").exists() or any(Path("/dev").glob("nvidia[0-9]*"))


def count_gpus(timeout_s: float = PROBE_SECONDS) -> GpuProbe:
    """Ask the driver for its GPUs, in a process of its own: a broken driver may hang or crash whoever initializes it.

    CUDA_VISIBLE_DEVICES is left aside, because the answer is about the machine.
    """
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    try:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve())],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return GpuProbe(0, f"the NVIDIA driver did not answer within {timeout_s:.0f} s")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return GpuProbe(0, f"asking the NVIDIA driver for its GPUs failed: {last}")
    answer = json.loads(done.stdout)
    return GpuProbe(count=answer["count"], problem=answer["problem"])


def _count_gpus_here() -> GpuProbe:
    """`count_gpus`, in this process. Only the machine's own library can reach a GPU, so no other is tried."""
    for name in (LIBRARY, str(WSL_LIBRARY)):
        try:
            libcuda = ctypes.CDLL(name)
        except OSError:
            continue
        break
    else:
        return GpuProbe(0, "this machine has no NVIDIA driver" if has_device_nodes() else None)
    status = libcuda.cuInit(0)
    count = ctypes.c_int(0)
    if status == CUDA_SUCCESS:
        status = libcuda.cuDeviceGetCount(ctypes.byref(count))
    if status in (CUDA_SUCCESS, CUDA_ERROR_NO_DEVICE):
        return GpuProbe(count.value)
    # A library without its kernel module answers with an error as well: only with a device is it worth a word.
    problem = f"the NVIDIA driver answers with {_error_name(libcuda, status)}" if has_device_nodes() else None
    return GpuProbe(0, problem)


def _error_name(libcuda: ctypes.CDLL, status: int) -> str:
    name = ctypes.c_char_p()
    if libcuda.cuGetErrorName(status, ctypes.byref(name)) != CUDA_SUCCESS or name.value is None:
        return f"error {status}"
    return f"{name.value.decode()} ({status})"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(_count_gpus_here())))
