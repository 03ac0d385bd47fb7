"""Which cuDNN version belongs into the virtual environment of this machine, and why.

A serialized plan loads only in the version that built it. On a machine with a GPU the version is therefore torch's own,
the one that ships with the user's programs. Without a GPU it is 9.28 or newer, for older ones list plans incompletely
there. Somebody who needs plans for another version asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PACKAGE = "nvidia-cudnn-cu13"
# The oldest version whose lists are complete without a GPU (9.20 lacks, for example, matmul's engine 4).
COMPLETE_WITHOUT_GPU = ">=9.28,<10"

_ASKED = re.compile(r"^9\.\d+\.\d+(\.\d+)?$")
_PINNED = re.compile(rf"^{PACKAGE}\s*\(?==\s*([0-9.]+)\)?\s*(?:;|$)")


@dataclass(frozen=True)
class CudnnChoice:
    """What to install (a pip specifier for PACKAGE) and why, as the end of a sentence about the version."""

    specifier: str
    reason: str

    @property
    def requirement(self) -> str:
        return PACKAGE + self.specifier

    def allows(self, version: str | None) -> bool:
        """Whether an installed version is what was chosen."""
        return version is not None and all(_clause_allows(clause, version) for clause in self.specifier.split(","))


def choose_cudnn(asked: str, gpu: bool, torch_requirements: Iterable[str]) -> CudnnChoice:
    """The cuDNN version for this machine.

    `asked` is what the person asked for (9.x.y, or all four parts), empty where they did not; `torch_requirements` are
    the requirements of the installed torch. Raises ValueError, its message for the person, where `asked` is no version.
    """
    asked = asked.strip()
    if asked:
        if not _ASKED.match(asked):
            raise ValueError(
                f"CUDNN={asked} is no cuDNN version: write 9.x.y, or all four parts, "
                "for example CUDNN=9.20.0 or CUDNN=9.20.0.48"
            )
        return CudnnChoice(f"=={asked}" if asked.count(".") == 3 else f"=={asked}.*", f"asked for with CUDNN={asked}")
    pinned = next((match[1] for line in torch_requirements if (match := _PINNED.match(line))), None)
    if gpu and pinned:
        return CudnnChoice(f"=={pinned}", "torch's own, so that plans match the programs that use this GPU")
    if gpu:
        return CudnnChoice(COMPLETE_WITHOUT_GPU, "the newest, for this torch brings none of its own")
    return CudnnChoice(
        COMPLETE_WITHOUT_GPU, "no GPU in this machine, and without one versions before 9.28 list too few plans"
    )


def offered_versions(pip_error: str) -> list[str]:
    """The releases a package index offers, out of pip's complaint that none of them is the one asked for."""
    match = re.search(r"\(from versions: ([^)]*)\)", pip_error)
    return [] if match is None else [version for version in match[1].split(", ") if _ASKED.match(version)]


def _clause_allows(clause: str, version: str) -> bool:
    match = re.match(r"^(==|>=|<)([0-9.]+?)(\.\*)?$", clause)
    if match is None:
        raise ValueError(f"not a clause this module writes: {clause!r}")
    wanted, installed = _numbers(match[2]), _numbers(version)
    if match[1] == "==":
        return installed[: len(wanted)] == wanted if match[3] else installed == wanted
    return installed >= wanted if match[1] == ">=" else installed < wanted


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
