"""Raw timing samples, kept as float32 inside the record: 100 samples are 536 characters, so they need no file of
their own."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import numpy as np
from pydantic import BaseModel, Field, field_validator

from engine.graph.tensors import FROZEN

_YEAR_US = 3e13
"""Longer than anything measured; the means and sums of what is shorter stay within float32."""


class Samples(BaseModel):
    """Samples of one plan in one regime, in the order taken. ``data`` is base64 of little-endian float32, in
    microseconds per execution; each sample averages ``executions`` executions."""

    model_config = FROZEN

    data: str = Field(max_length=1 << 20)
    executions: int = Field(ge=1)

    @field_validator("data")
    @classmethod
    def _decodes(cls, data: str) -> str:
        try:
            raw = base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"samples are not base64: {error}") from None
        values = np.frombuffer(raw, "<f4") if len(raw) % 4 == 0 else np.empty(0, "<f4")
        if values.size == 0 or not ((values > 0) & (values < _YEAR_US)).all():
            raise ValueError("samples must be at least one positive float32, each less than a year")
        return data

    @classmethod
    def of(cls, values_us: Iterable[float], executions: int = 1) -> Samples:
        """From microseconds per execution."""
        raw = np.asarray(list(values_us), dtype="<f4").tobytes()
        return cls(data=base64.b64encode(raw).decode(), executions=executions)

    @property
    def values(self) -> np.ndarray:
        """All samples, float32, microseconds."""
        return np.frombuffer(base64.b64decode(self.data), "<f4")

    @property
    def count(self) -> int:
        """How many samples."""
        return int(self.values.size)

    @property
    def median_us(self) -> float:
        """Median, microseconds."""
        return float(np.median(self.values))

    @property
    def relative_error(self) -> float:
        """Standard error of the mean over the mean, as of independent samples; infinite of a single one."""
        values = self.values.astype(float)
        return float(values.std(ddof=1) / values.size**0.5 / values.mean()) if values.size > 1 else float("inf")

    def quantile_us(self, q: float) -> float:
        """Quantile by linear interpolation, microseconds."""
        return float(np.quantile(self.values, q))
