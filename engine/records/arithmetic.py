"""What an fp32 plan multiplies in: float32, or TF32, whose operands keep 10 of float32's 23 bits of mantissa.

The graph asks for float32 either way. cuDNN's notes settle it in part: a plan that uses tensor cores multiplies in
TF32, but one that leaves the choice to cuBLASLt carries no note and may do so too. The error against the reference
tells them apart: over random data TF32 is off by about 1e-3 of the result's rms, float32 by about 1e-6.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from engine.graph.tensors import DataType
from engine.records.options import DataKind
from engine.records.passport import OutputAccuracy
from engine.records.plan import PlanRecord, Status

TF32_OPERANDS = 6.0 * 2.0**-10
"""What the tolerance of an fp32 output allows for TF32: each product is off by up to 2^-10 when both operands are cut.
Over a sum of independent products that is about 2^-10 of the result's rms; six times that covers the largest of a
billion elements."""

ENOUGH_ELEMENTS = 64
LEAST_TF32_ERROR = 2.0**-13
"""TF32's error has a standard deviation of 0.18 to 0.6 * 2^-10 of the result's rms, depending on how operands are cut
(emulated, 1 to 4096 products). The largest of ENOUGH_ELEMENTS was never below 1.7 times this one, with a ReLU after it
or not."""

EXPLANATION = (
    "TF32 cuts fp32 operands to 10 bits of mantissa, for tensor cores: results are off by about 1e-3 of their rms, "
    "where float32 is off by about 1e-6."
)


class Arithmetic(StrEnum):
    """What a plan multiplies in, and how that is known."""

    TF32_SEEN = "TF32, by its error"
    FLOAT32_SEEN = "float32, by its error"
    TF32_NOTED = "TF32, by its notes"
    FLOAT32_NOTED = "float32, by its notes"
    UNKNOWN = "TF32 not excluded"

    @property
    def word(self) -> str:
        """Without how it is known."""
        return self.value.split(",")[0]


def arithmetic(io_dtype: DataType, plan: PlanRecord, data: DataKind = DataKind.NORMAL) -> Arithmetic | None:
    """What a plan of an fp32 graph multiplies in: by its error where it was measured (on this kind of ``data``) and is
    right, else by its notes. None for other types, which tensor cores take as they are."""
    if io_dtype is not DataType.FP32:
        return None
    return _seen(plan.accuracy, data) or _noted(plan)


def seen_arithmetic(
    io_dtype: DataType, accuracy: Iterable[OutputAccuracy], data: DataKind = DataKind.NORMAL
) -> Arithmetic | None:
    """The same of anything that was compared with the reference, such as a baseline; None where the error does not
    tell."""
    return _seen(tuple(accuracy), data) if io_dtype is DataType.FP32 else None


def _seen(accuracy: tuple[OutputAccuracy, ...], data: DataKind) -> Arithmetic | None:
    if not accuracy or not all(output.passed for output in accuracy):
        return None
    errors = [(output.max_rel or 0.0, output.tolerance - TF32_OPERANDS) for output in accuracy]
    if any(error > plain > 0.0 for error, plain in errors):
        return Arithmetic.TF32_SEEN
    # Of positive data the sum grows with the number of products and TF32's rounding errors with its root: they vanish.
    telling = sum(output.elements for output in accuracy) >= ENOUGH_ELEMENTS and data is not DataKind.POSITIVE
    if telling and all(error < LEAST_TF32_ERROR for error, _ in errors):
        return Arithmetic.FLOAT32_SEEN
    return None


def _noted(plan: PlanRecord) -> Arithmetic:
    if "TENSOR_CORE" in plan.numerical_notes:
        return Arithmetic.TF32_NOTED
    asked = plan.status is Status.OK and plan.blob_sha256 is not None and plan.message is None
    if asked and "CUBLASLT_DEPENDENCY" not in plan.behavior_notes:
        return Arithmetic.FLOAT32_NOTED
    return Arithmetic.UNKNOWN
