"""Device properties: the JSON by which cuDNN plans for a GPU that is not in the machine.

cuDNN writes such a file itself (``python -m engine env --properties FILE``) and reads it back, but its complaints name
no key, and every few versions it asks for a key more. So a file is checked here, key by key, and completed for the
version at hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from engine.graph.errors import FieldError, InvalidInput, invalid

FILE_LIMIT_BYTES = 64 * 1024
Properties = dict[str, Any]

_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Size = Annotated[int, Field(ge=1, le=2**50)]
_Grid = Annotated[list[_Count], Field(min_length=3, max_length=3)]
_Flag = Annotated[int, Field(ge=0, le=1)]

BUS_WIDTH_SINCE = 92800
"""cuDNN 9.28 wants ``memoryBusWidth``, in bits, which 9.19 did not write."""
NEWEST = BUS_WIDTH_SINCE
"""The version that asks for the most keys; older ones do not mind a key that they do not know."""

_BUS_WIDTHS = {
    "NVIDIA A10": 384,
    "NVIDIA A100-PCIE-40GB": 5120,
    "NVIDIA A100 80GB PCIe": 5120,
    "NVIDIA A100-SXM4-40GB": 5120,
    "NVIDIA A100-SXM4-80GB": 5120,
    "NVIDIA B200": 8192,
    "NVIDIA GH200 480GB": 6144,
    "NVIDIA GeForce RTX 3090": 384,
    "NVIDIA GeForce RTX 4090": 384,
    "NVIDIA GeForce RTX 5090": 512,
    "NVIDIA H100 80GB HBM3": 5120,
    "NVIDIA H100 PCIe": 5120,
    "NVIDIA H200": 6144,
    "NVIDIA L4": 192,
    "NVIDIA L40S": 384,
    "Tesla T4": 256,
    "Tesla V100-SXM2-16GB": 4096,
    "Tesla V100-SXM2-32GB": 4096,
}
"""Public specifications, by the name cuDNN gives the device."""

_TYPICAL_BUS_WIDTHS = ((100 * 2**30, 6144), (32 * 2**30, 5120), (20 * 2**30, 384), (0, 256))
"""For a device not listed above, by its memory: stacked memory from about 40 GB on, GDDR below."""


def _one_line(name: str) -> str:
    if not name.isprintable():
        raise ValueError("must be one line of printable characters")
    return name


class DeviceProperties(BaseModel):
    """Every key cuDNN 9.8 to 9.28 reads. A key that only a newer version knows passes through."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    deviceName: Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_one_line)]
    deviceVer: Annotated[int, Field(ge=500, le=9990, multiple_of=10)]
    multiProcessorCount: Annotated[int, Field(ge=1, le=4096)]
    totalGlobalMem: _Size
    l2CacheSize: Annotated[int, Field(ge=0, le=2**40)]
    maxGridSize: _Grid
    maxBlockSize: _Grid
    regsPerBlock: _Count
    warpSize: Annotated[int, Field(ge=32, le=32)]
    maxSharedMemoryPerBlock: _Count
    maxSharedMemoryPerBlockOptin: _Count
    reservedSharedMemoryPerBlock: _Number
    maxRegistersPerSM: _Count
    maxCtasPerSM: _Count
    maxThreadsPerBlock: _Count
    maxThreadsPerSM: _Count
    pciDeviceId: _Number
    isTccDriver: _Flag
    supportCoopLaunch: _Flag
    smClockRateKHz: _Count
    memClockRateKHz: _Count
    cudaDeviceId: _Number
    driverVer: _Number
    memoryBusWidth: Annotated[int, Field(ge=1, le=1 << 20)] | None = None


def parse_properties(data: bytes, file: str = "") -> Properties:
    """Properties from the bytes of ``file``; raises InvalidInput that names each wrong or missing key."""
    if len(data) > FILE_LIMIT_BYTES:
        raise invalid(
            "target",
            file or f"{len(data):,} bytes",
            f"a properties file has at most {FILE_LIMIT_BYTES:,} bytes.",
            "Give the file that `python -m engine env --properties FILE` writes.",
        )
    try:
        content = json.loads(data.decode("utf-8-sig"))  # editors on Windows begin a file with a mark
    except (ValueError, RecursionError) as error:
        raise invalid("target", file or _start(data), f"the file is not JSON ({_where(error)}).", _REMEDY) from None
    if not isinstance(content, dict):
        raise invalid("target", file or _start(data), "the file must hold one JSON object.", _REMEDY)
    return check_properties(content)


def check_properties(content: Mapping[str, Any]) -> Properties:
    """Checked properties; raises InvalidInput with one FieldError per wrong or missing key."""
    try:
        DeviceProperties.model_validate(dict(content))
    except ValidationError as error:
        raise InvalidInput(*(_explain(dict(e)) for e in error.errors()[:8])) from None
    return {key: value for key, value in content.items() if value is not None}


def complete_properties(properties: Properties, backend_version: int) -> tuple[Properties, tuple[str, ...]]:
    """Properties with the keys that this cuDNN version (``cudnn.backend_version()``) wants, and a sentence per value
    that was assumed rather than known."""
    if "memoryBusWidth" in properties or backend_version < BUS_WIDTH_SINCE:
        return properties, ()
    name, memory = str(properties["deviceName"]), properties["totalGlobalMem"]
    assert isinstance(memory, int)
    width = _BUS_WIDTHS.get(name)
    if width is not None:
        return {**properties, "memoryBusWidth": width}, ()
    width = next(bits for least, bits in _TYPICAL_BUS_WIDTHS if memory >= least)
    told = (
        f"The properties of {name} lack memoryBusWidth, which this cuDNN version asks for: "
        f"{width} bits were assumed from its memory size."
    )
    return {**properties, "memoryBusWidth": width}, (told,)


_REMEDY = "Write one with `python -m engine env --properties FILE` on the machine that has the GPU."


def _where(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"see line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is no UTF-8 text"
    return "nested too deep" if isinstance(error, RecursionError) else "a number in it is too long"


def _start(data: bytes) -> str:
    return data[:40].decode(errors="replace")


def _explain(error: dict[str, Any]) -> FieldError:
    key = str(error["loc"][0]) if error["loc"] else "target"
    if error["type"] == "missing":
        return FieldError(key, "missing", "a properties file needs this key.", _REMEDY)
    place = "".join(f"[{part}]" for part in error["loc"][1:])
    rule = str(error["msg"]).removeprefix("Value error, ")
    rule = rule[0].lower() + rule[1:]
    return FieldError(key + place, str(error["input"])[:80], f"{rule}.", _REMEDY)
