"""Forward convolution of images (cross-correlation, as cuDNN and torch both define it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from engine.graph.errors import invalid
from engine.graph.operations.base import Dims, Operation, tiles
from engine.graph.tensors import TensorSpec

Padding = Annotated[int, Field(ge=0, le=2**31 - 1)]
Step = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Convolution(Operation):
    """image (N, C, H, W) with weight (K, C, R, S) gives (N, K, P, Q); symmetric padding, in elements. Height
    before width everywhere."""

    input_ports = ("image", "weight")
    input_rank = 4
    contracts = True

    kind: Literal["convolution"] = "convolution"
    padding: tuple[Padding, Padding]
    stride: tuple[Step, Step]
    dilation: tuple[Step, Step]

    def infer(self, inputs: Mapping[str, TensorSpec]) -> dict[str, Dims]:
        image, weight = inputs["image"].dims, inputs["weight"].dims
        if image[1] != weight[1]:
            raise invalid(
                "c", image[1], f"the image has {image[1]} channels but the filter {weight[1]}.", "Make them equal."
            )
        for axis, (letter, taps_letter) in enumerate((("h", "r"), ("w", "s"))):
            reach = self.dilation[axis] * (weight[2 + axis] - 1) + 1
            padded = image[2 + axis] + 2 * self.padding[axis]
            if reach > padded:
                raise invalid(
                    taps_letter,
                    weight[2 + axis],
                    f"the filter reaches over {reach} elements (dilation {self.dilation[axis]}) but {letter} with its "
                    f"padding has only {padded}.",
                    f"Use a smaller {taps_letter} or dilation, or a larger {letter} or pad.",
                )
        return {"out": (image[0], weight[0], *self._spatial(image, weight))}

    def _spatial(self, image: Dims, weight: Dims) -> Dims:
        """Output height and width."""
        return tuple(
            (image[2 + a] + 2 * self.padding[a] - self.dilation[a] * (weight[2 + a] - 1) - 1) // self.stride[a] + 1
            for a in range(len(image) - 2)
        )

    def lower(self, cudnn: Any, graph: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        out = graph.conv_fprop(
            image=tensors["image"],
            weight=tensors["weight"],
            padding=list(self.padding),
            stride=list(self.stride),
            dilation=list(self.dilation),
            compute_data_type=cudnn.data_type.FLOAT,
            name=self.name,
        )
        return {"out": out}

    def reference(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Patches times filters (im2col), a few images at a time: a matrix product, so cuDNN is not asked to judge
        itself."""
        image, weight = tensors["image"], tensors["weight"]
        k, c, r, s = weight.shape
        p, q = self._spatial(tuple(image.shape), tuple(weight.shape))
        flat = weight.reshape(k, c * r * s)
        out = image.new_empty((image.shape[0], k, p, q))
        for part in tiles(image.shape[0], c * r * s * p * q * image.element_size()):
            patches = torch.nn.functional.unfold(
                image[part], (r, s), dilation=self.dilation, padding=self.padding, stride=self.stride
            )
            out[part] = torch.matmul(flat, patches).reshape(-1, k, p, q)
        return {"out": out}

    def eager(self, torch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
        out = torch.nn.functional.conv2d(
            tensors["image"], tensors["weight"], stride=self.stride, padding=self.padding, dilation=self.dilation
        )
        return {"out": out}

    def flops(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> int:
        _, c, r, s = inputs["weight"].dims
        return 2 * outputs["out"].elements * c * r * s

    def label(self) -> str:
        return "conv"
