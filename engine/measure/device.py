"""The GPU this process measures on, and the versions it measures with."""

from __future__ import annotations

import json
import os
import platform
import socket
from typing import Any

import cudnn
import torch

from engine.machine.gpus import list_gpus
from engine.records.environment import Environment, GpuInfo


class NoGpu(RuntimeError):
    """This process sees no usable GPU; the message says so and why."""


class Device:
    """The one GPU left visible: a stream of its own (the default stream cannot be captured) and a cuDNN handle on
    it."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
            why = f" (CUDA_VISIBLE_DEVICES is {hidden!r})" if hidden is not None else ""
            raise NoGpu(f"this process sees no usable GPU{why}")
        self.torch_device = torch.device("cuda", 0)
        torch.cuda.set_device(self.torch_device)
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.handle: Any = cudnn.create_handle()
        cudnn.set_stream(handle=self.handle, stream=self.stream.cuda_stream)
        self.info = describe_gpu()

    @property
    def l2_bytes(self) -> int:
        """Size of the L2 cache."""
        return int(torch.cuda.get_device_properties(self.torch_device).L2_cache_size)

    def free_bytes(self) -> int:
        """Memory that can be allocated, torch's own cache counted as free."""
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(self.torch_device)[0])

    def properties(self) -> dict[str, Any]:
        """The device properties cuDNN plans with, as ``Target`` files hold them."""
        found: dict[str, Any] = json.loads(cudnn.create_device_properties(self.torch_device.index).serialize())
        return found

    def is_lost(self) -> bool:
        """Whether an error has spoilt the CUDA context, as an illegal access does: nothing runs in this process any
        more."""
        try:
            torch.cuda.synchronize()
            return int(torch.ones(1, device=self.torch_device).sum()) != 1
        except RuntimeError:
            return True


def describe_gpu() -> GpuInfo:
    """The first visible GPU, as NVML knows it where NVML answers (driver, MIG's UUID) and as torch does for the
    rest."""
    properties, visible = torch.cuda.get_device_properties(0), list_gpus()
    known = {"sm_count": properties.multi_processor_count, "l2_bytes": int(properties.L2_cache_size)}
    uuid = f"GPU-{properties.uuid}"
    # Of several, NVML's first need not be CUDA's.
    found = visible if len(visible) == 1 else [gpu for gpu in list_gpus({}) if gpu.uuid == uuid]
    if found:
        return found[0].model_copy(update=known)
    return GpuInfo(
        name=properties.name,
        uuid=uuid,
        compute_capability=f"{properties.major}.{properties.minor}",
        memory_bytes=properties.total_memory,
        driver=next((gpu.driver for gpu in visible), None),
        **known,
    )


def environment(gpu: GpuInfo | None) -> Environment:
    """Versions of everything that takes part in a measurement."""
    return Environment(
        gpu=gpu,
        cudnn_backend=cudnn.backend_version_string(),
        cudnn_frontend=cudnn.__version__,
        cuda=torch.version.cuda,
        torch=torch.__version__,
        python=platform.python_version(),
        host=socket.gethostname(),
        os=platform.platform(),
    )
