"""What this GPU can do at most, measured in the same run: copying, one large matrix product, the smallest kernel."""

from __future__ import annotations

from typing import Any

import torch

from engine.graph.tensors import DataType
from engine.measure.fusion.contest import sample, settled
from engine.measure.screening import Rule
from engine.measure.session import Session
from engine.records.fusion import MeasuredCeilings

COPY_ELEMENTS = 1 << 28
"""Of float32: 1 GiB each way, far beyond any cache."""
SIDE = 8192
"""Rows and columns of the product: large enough for full rate."""
RULE = Rule(least=40, error=0.01, budget_s=2.0)


def measure_ceilings(session: Session, seed: int) -> MeasuredCeilings:
    """Hot, in turns. Random data: zeros would be faster than anything real. For fp32 the product is in TF32, which
    cuDNN may use. Bytes are moved by a copy and by a kernel, and the faster counts: on an H200 a copy in a CUDA graph
    reached 2.7 TB/s where pointwise kernels of the same run reached 3.4 to 4.2."""
    device, dtype = session.device.torch_device, session.spec.io_dtype
    source = torch.rand(min(COPY_ELEMENTS, session.device.free_bytes() // 16), device=device)
    target = torch.empty_like(source)
    a, b = (torch.randn(SIDE, SIDE, device=device).to(getattr(torch, dtype.torch_name)) for _ in range(2))
    product, tiny = torch.empty_like(a), torch.zeros(1, device=device)
    versions: dict[str, Any] = {
        "copy": lambda: target.copy_(source),
        "kernel": lambda: torch.neg(source, out=target),
        "matmul": lambda: torch.mm(a, b, out=product),
        "launch": lambda: tiny.add_(1.0),
    }
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if dtype is DataType.FP32 else before)
    try:
        ready = {name: settled(call) for name, call in versions.items()}
        found = sample(session, ready, RULE, seed, lambda name: None, regimes=())
    finally:
        torch.set_float32_matmul_precision(before)
    return MeasuredCeilings(
        copy_bytes=2 * source.numel() * source.element_size(),
        copy_us=min((found[name].hot for name in ("copy", "kernel")), key=lambda hot: hot.median_us),
        matmul_flops=2 * SIDE**3,
        matmul_us=found["matmul"].hot,
        launch_us=found["launch"].hot,
    )
