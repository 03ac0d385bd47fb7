"""Tensors as cuDNN sees them: dims, strides, a data type and whether they ever reach memory."""

from __future__ import annotations

from enum import StrEnum
from math import prod

from pydantic import BaseModel, ConfigDict, Field, model_validator

FROZEN = ConfigDict(frozen=True, strict=True, extra="forbid", ser_json_inf_nan="constants")


class DataType(StrEnum):
    """An I/O or compute type, named as people name it."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return 4 if self is DataType.FP32 else 2

    @property
    def cudnn_name(self) -> str:
        """Name of the member of ``cudnn.data_type``."""
        return {"bf16": "BFLOAT16", "fp16": "HALF", "fp32": "FLOAT"}[self.value]

    @property
    def torch_name(self) -> str:
        """Name of the attribute of ``torch``."""
        return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[self.value]

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next larger value (IEEE 754 binary16 and binary32; bfloat16 has 8 significant
        bits)."""
        return {"bf16": 2.0**-7, "fp16": 2.0**-10, "fp32": 2.0**-23}[self.value]


class Layout(StrEnum):
    """Memory order of an image tensor whose dims are always written (N, C, H, W)."""

    NHWC = "nhwc"
    NCHW = "nchw"


class Role(StrEnum):
    """How a tensor takes part in a graph. Virtual tensors never reach memory; scalars are passed by value from the
    host."""

    INPUT = "input"
    OUTPUT = "output"
    VIRTUAL = "virtual"
    SCALAR = "scalar"


LARGEST = 2**63 - 1
"""Of a dim or a stride: cuDNN has them in 64 bits."""


class TensorSpec(BaseModel):
    """One tensor of a graph. ``strides`` are in elements; ``value`` is set on scalars only."""

    model_config = FROZEN

    uid: int = Field(ge=1)
    name: str = Field(min_length=1, max_length=64)
    dims: tuple[int, ...] = Field(min_length=1, max_length=8)
    strides: tuple[int, ...] = Field(min_length=1, max_length=8)
    dtype: DataType
    role: Role
    value: float | None = None

    @model_validator(mode="after")
    def _consistent(self) -> TensorSpec:
        if len(self.dims) != len(self.strides):
            raise ValueError(f"tensor {self.name}: {len(self.dims)} dims but {len(self.strides)} strides")
        if any(d < 1 for d in self.dims) or any(s < 0 for s in self.strides):
            raise ValueError(f"tensor {self.name}: dims must be positive and strides not negative")
        if max(*self.dims, *self.strides) > LARGEST:
            raise ValueError(f"tensor {self.name}: dims and strides must fit into 64 bits")
        if (self.value is None) == (self.role is Role.SCALAR):
            raise ValueError(f"tensor {self.name}: a scalar has a value and nothing else has one")
        return self

    @property
    def is_real(self) -> bool:
        """Whether the caller supplies memory for it (everything but virtual tensors)."""
        return self.role is not Role.VIRTUAL

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements (0 for a scalar, which travels with the launch)."""
        return 0 if self.role is Role.SCALAR else self.elements * self.dtype.itemsize


def packed_strides(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides without gaps, in elements."""
    strides = [1]
    for dim in reversed(dims[1:]):
        strides.append(strides[-1] * dim)
    return tuple(reversed(strides))


def image_strides(dims: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Strides of (N, C, spatial...) dims: channels fastest for NHWC, slowest but the batch for NCHW."""
    if layout is Layout.NCHW:
        return packed_strides(dims)
    n, c, *spatial = dims
    order = packed_strides((n, *spatial, c))
    return (order[0], order[-1], *order[1:-1])
