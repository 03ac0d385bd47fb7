"""The GPUs a person can pick, through NVML: no CUDA context, no torch, so the process that serves pages can ask."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from engine.records.environment import GpuInfo

logger = logging.getLogger(__name__)

_CORES_PER_SM = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
"""CUDA cores per SM where it is not 128 (CUDA C++ Programming Guide, arithmetic throughput by compute capability)."""


def list_gpus(environment: Mapping[str, str] = os.environ) -> tuple[GpuInfo, ...]:
    """GPUs that CUDA_VISIBLE_DEVICES leaves visible, MIG instances in place of the GPU they divide; () without NVML.

    A number in CUDA_VISIBLE_DEVICES counts in NVML's order, that of the PCI bus; CUDA's own default order can differ in
    a machine with several models, so the worker is always given the UUID of what was picked.
    """
    import pynvml  # only here: on machines without the driver the import is all that works

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        found = [_describe(pynvml, pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()
    return visible(found, environment.get("CUDA_VISIBLE_DEVICES"))


def visible(found: Sequence[Sequence[GpuInfo]], setting: str | None) -> tuple[GpuInfo, ...]:
    """What CUDA_VISIBLE_DEVICES leaves of ``found`` (per GPU: itself, or its MIG instances).

    As in the CUDA C++ Programming Guide: entries are numbers or beginnings of UUIDs, in the order wanted; the first
    entry that names nothing ends the list; unset shows all.
    """
    if setting is None:
        return tuple(gpu for group in found for gpu in group)
    chosen: list[GpuInfo] = []
    for entry in (part.strip() for part in setting.split(",")):
        if entry.isdecimal():
            group = found[int(entry)] if int(entry) < len(found) else ()
        else:
            group = [g for each in found for g in each if entry and (g.uuid or "").startswith(entry)]
        if not group:
            break
        chosen += [gpu for gpu in group if gpu not in chosen]
    return tuple(chosen)


def _describe(nvml: Any, handle: Any) -> list[GpuInfo]:
    """The GPU itself, or its MIG instances where MIG is on."""
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    name, driver = nvml.nvmlDeviceGetName(handle), nvml.nvmlSystemGetDriverVersion()
    capability, rated = f"{major}.{minor}", _rated_sm_clock(nvml, handle)
    instances = _mig_instances(nvml, handle)
    if instances:
        return [
            GpuInfo(
                name=nvml.nvmlDeviceGetName(instance),
                uuid=nvml.nvmlDeviceGetUUID(instance),
                compute_capability=capability,
                sm_count=nvml.nvmlDeviceGetAttributes_v2(instance).multiprocessorCount,
                memory_bytes=nvml.nvmlDeviceGetMemoryInfo(instance).total,
                driver=driver,
                rated_sm_clock_mhz=rated,
            )
            for instance in instances
        ]
    cores = nvml.nvmlDeviceGetNumGpuCores(handle)
    gpu = GpuInfo(
        name=name,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        compute_capability=capability,
        sm_count=cores // _CORES_PER_SM.get((major, minor), 128),
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
        driver=driver,
        rated_sm_clock_mhz=rated,
    )
    return [gpu]


def _rated_sm_clock(nvml: Any, handle: Any) -> int | None:
    """The fastest clock the driver allows the SMs, MHz; None, and a warning, where it does not tell."""
    try:
        return int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)) or None
    except nvml.NVMLError as error:
        logger.warning("the driver does not tell the highest SM clock: %s", error)
        return None


def _mig_instances(nvml: Any, handle: Any) -> list[Any]:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:
        return []
    if current != nvml.NVML_DEVICE_MIG_ENABLE:
        return []
    instances = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instances.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except nvml.NVMLError_NotFound:
            continue
    return instances
