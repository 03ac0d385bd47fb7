"""Every operation kind. A new one is a class in a file here and its name in this union."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.graph.operations.attention import Attention
from engine.graph.operations.convolution import Convolution
from engine.graph.operations.mask import Mask
from engine.graph.operations.matmul import Matmul
from engine.graph.operations.pointwise import Binary, Unary
from engine.graph.operations.reduction import Reduction
from engine.graph.operations.softmax import Softmax

AnyOperation = Annotated[
    Attention | Binary | Convolution | Mask | Matmul | Reduction | Softmax | Unary,
    Field(discriminator="kind"),
]

__all__ = ["AnyOperation", "Attention", "Binary", "Convolution", "Mask", "Matmul", "Reduction", "Softmax", "Unary"]
