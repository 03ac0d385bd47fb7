"""The GPU that plans are for: the one in this machine, or one that is not here, by its device properties."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from engine.graph.errors import InvalidInput, invalid
from engine.graph.tensors import FROZEN
from engine.machine.gpus import list_gpus
from engine.plans.properties import FILE_LIMIT_BYTES, Properties, check_properties, parse_properties
from engine.records.environment import GpuInfo
from engine.records.run import Source, TargetInfo

LOCAL = "local"
READ_OFF = frozenset({"h200"})
"""Shipped properties that cuDNN itself read off a device; the others were edited from public specifications."""
_FOLDER = Path(__file__).parent / "gpu_properties"


class Target(BaseModel):
    """A GPU to plan for. ``properties`` is None for a GPU of this machine, which ``gpu_uuid`` names; cuDNN then asks
    the device."""

    model_config = FROZEN

    info: TargetInfo
    properties: Properties | None
    gpu_uuid: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether plans are made through a cuDNN handle, on the GPU itself."""
        return self.properties is None


@cache
def shipped_targets() -> tuple[Target, ...]:
    """The GPUs whose properties come with Planscope, those read off a device first, then by name."""
    files = sorted(_FOLDER.glob("*.json"), key=lambda file: (file.stem not in READ_OFF, file.stem))
    return tuple(
        _described(
            file.stem,
            parse_properties(file.read_bytes()),
            Source.READ_OFF if file.stem in READ_OFF else Source.SPECIFICATION,
        )
        for file in files
    )


def local_target(gpu: GpuInfo, name: str = LOCAL) -> Target:
    """A GPU of this machine."""
    major, minor = gpu.compute_capability.split(".")
    sm = int(major) * 10 + int(minor)
    info = TargetInfo(name=name, gpu_name=gpu.name, sm=sm, memory_bytes=gpu.memory_bytes, source=Source.DEVICE)
    return Target(info=info, properties=None, gpu_uuid=gpu.uuid)


def local_targets() -> tuple[Target, ...]:
    """The GPUs of this machine, as the driver counts them; "local", then "local:1", "local:2", ..."""
    return tuple(
        local_target(gpu, LOCAL if index == 0 else f"{LOCAL}:{index}") for index, gpu in enumerate(list_gpus())
    )


def target_from_properties(properties: dict[str, Any], name: str) -> Target:
    """A target from properties as a worker or a person gives them; raises InvalidInput naming a wrong key."""
    return _described(name, check_properties(properties), Source.FILE)


def target_from_file(file: Path | bytes, name: str = "") -> Target:
    """A target from a properties file, or from the bytes of an uploaded one; raises InvalidInput."""
    if isinstance(file, bytes):
        return _described(name or "file", parse_properties(file), Source.FILE)
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:  # a ValueError where the name holds a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise invalid("target", file, f"the file cannot be read ({reason}).", _choices()) from None
    return _described(name or file.stem, parse_properties(data, str(file)), Source.FILE)


def resolve_target(text: str) -> Target:
    """What ``--target`` and a URL say: a shipped name, "local", "local:1", "local:GPU-<uuid>", or the path of a
    properties file.

    Raises InvalidInput for a name that does not exist, a broken file, or a machine without that GPU.
    """
    wanted = text.strip()
    for target in shipped_targets():
        if wanted.lower() == target.info.name:
            return target
    if wanted.lower() == LOCAL or wanted.lower().startswith(f"{LOCAL}:"):
        return _resolve_local(wanted)
    if wanted and ("/" in wanted or wanted.endswith(".json") or _is_file(wanted)):
        return target_from_file(Path(wanted))
    raise invalid("target", text, "there is no target of this name.", _choices())


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # longer than a file's name can be
        return False


def _resolve_local(wanted: str) -> Target:
    targets = local_targets()
    if not targets:
        raise invalid("target", wanted, "this machine has no GPU that the driver offers.", _choices())
    _, _, which = wanted.partition(":")
    for index, target in enumerate(targets):
        if which in ("", str(index), target.gpu_uuid):
            return target
    names = ", ".join(f"{t.info.name} ({t.info.gpu_name})" for t in targets)
    raise invalid("target", wanted, "this machine has no such GPU.", f"It has {names}.")


def _choices() -> str:
    names = ", ".join(target.info.name for target in shipped_targets())
    return f"Choose one of {names}, local (a GPU of this machine), or the path of a properties file."


def _described(name: str, properties: Properties, source: Source) -> Target:
    gpu_name, version, memory = (properties[key] for key in ("deviceName", "deviceVer", "totalGlobalMem"))
    assert isinstance(gpu_name, str) and isinstance(version, int) and isinstance(memory, int)
    info = TargetInfo(name=name, gpu_name=gpu_name, sm=version // 10, memory_bytes=memory, source=source)
    return Target(info=info, properties=properties)


__all__ = [
    "InvalidInput",
    "Target",
    "local_target",
    "local_targets",
    "resolve_target",
    "shipped_targets",
    "target_from_file",
    "target_from_properties",
]
