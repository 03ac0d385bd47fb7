"""torch eager: what a program gets that writes the graph down in torch, one kernel or more per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from engine.graph.spec import GraphSpec

NAME = "torch eager"


def eager(spec: GraphSpec, values: Mapping[int, Any]) -> Callable[[], dict[int, Any]]:
    """A call that runs the graph in torch, in the I/O type and the strides of the inputs, and gives outputs by uid.

    ``values``: inputs and scalars, as Buffers.values. torch's own defaults hold (TF32 for convolutions, none for
    matmul).
    """

    def run() -> dict[int, Any]:
        with torch.inference_mode():
            known = spec.walk(values, lambda operation, tensors: operation.eager(torch, tensors))
        return {tensor.uid: known[tensor.uid] for tensor in spec.outputs}

    return run
