"""What a GPU could do at most by its public specification, and how close a measured time comes to it.

Rates are dense (no structured sparsity), accumulating in float32, in TFLOP/s; bandwidth in GB/s. Sources: NVIDIA's
product
datasheets of H200 SXM, A100 SXM 80 GB and L4, the DGX/HGX B200 datasheet, and the RTX Blackwell architecture
whitepaper for
the GeForce RTX 5090. fp32 graphs are held against the TF32 tensor-core rate, which is what cuDNN may use for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.graph.spec import GraphSpec
from engine.graph.tensors import DataType


@dataclass(frozen=True)
class Ceilings:
    """Public specification of one GPU model."""

    half_tflops: float
    tf32_tflops: float
    bandwidth_gbps: float

    def tflops(self, dtype: DataType) -> float:
        """Matrix rate for an I/O type."""
        return self.tf32_tflops if dtype is DataType.FP32 else self.half_tflops


SPECIFICATIONS: dict[str, Ceilings] = {
    "NVIDIA H200": Ceilings(989.0, 494.0, 4800.0),
    "NVIDIA A100-SXM4-80GB": Ceilings(312.0, 156.0, 2039.0),
    "NVIDIA L4": Ceilings(121.0, 60.0, 300.0),
    "NVIDIA B200": Ceilings(2250.0, 1100.0, 8000.0),
    "NVIDIA GeForce RTX 5090": Ceilings(209.5, 104.8, 1792.0),
}
"""By the name cuDNN and NVML give the device."""


@dataclass(frozen=True)
class Roofline:
    """The shortest time a specification allows for a graph, in microseconds, and what sets it ("compute" or
    "memory")."""

    compute_us: float
    memory_us: float

    @property
    def floor_us(self) -> float:
        """The larger of both times."""
        return max(self.compute_us, self.memory_us)

    @property
    def bound(self) -> str:
        """Which of the two is larger."""
        return "compute" if self.compute_us >= self.memory_us else "memory"


def roofline(spec: GraphSpec, gpu_name: str) -> Roofline | None:
    """Roofline of a graph on a GPU model, or None where its specification is not listed here."""
    ceilings = SPECIFICATIONS.get(gpu_name)
    if ceilings is None:
        return None
    compute = spec.flops() / ceilings.tflops(spec.io_dtype) * 1e-6
    return Roofline(compute, spec.bytes_moved() / ceilings.bandwidth_gbps * 1e-3)
