"""What a process makes graphs with: a cuDNN handle on its own GPU, or the device properties of a GPU that is
elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from engine.plans.properties import complete_properties
from engine.plans.targets import Target


class TargetUnusable(RuntimeError):
    """cuDNN cannot plan for this target in this process: no driver library, no such GPU, or properties it rejects."""


@dataclass
class Context:
    """One of ``handle`` and ``device_property``. ``assumptions``: sentences about values that were assumed."""

    handle: Any = None
    device_property: Any = None
    sm: int | None = None
    assumptions: tuple[str, ...] = field(default=())

    def graph(self, cudnn: Any, **types: Any) -> Any:
        """A new ``cudnn.pygraph`` for the target.

        Never ``sm_count``, always ``sm_version``: with a count of SMs the Hopper convolution engines refuse.
        """
        if self.handle is not None:
            return cudnn.pygraph(handle=self.handle, **types)
        return cudnn.pygraph(device_property=self.device_property, sm_version=self.sm, **types)


def open_context(cudnn: Any, target: Target, handle: Any = None) -> Context:
    """The context for a target. For a GPU of this machine ``handle`` is used, or created on the GPU the process sees
    first.

    Raises TargetUnusable with cuDNN's own words.
    """
    if target.properties is None:
        try:
            return Context(handle=handle or cudnn.create_handle(), sm=target.info.sm)
        except RuntimeError as error:
            raise TargetUnusable(f"cuDNN cannot use {target.info.gpu_name}: {error}") from None
    properties, assumptions = complete_properties(target.properties, cudnn.backend_version())
    try:
        described = cudnn.create_device_properties(json.dumps(properties))
    except RuntimeError as error:
        raise TargetUnusable(f"cuDNN rejects the device properties of {target.info.gpu_name}: {error}") from None
    return Context(device_property=described, sm=target.info.sm, assumptions=assumptions)
