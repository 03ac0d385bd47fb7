"""The catalogue. A new pipeline is a parameter model and a function in a file here, and its name in this list."""

from __future__ import annotations

from typing import Any

from engine.graph.pipelines.attention import SDPA
from engine.graph.pipelines.base import ParameterField, Parameters, Pipeline, find
from engine.graph.pipelines.convolution import CONV_BIAS_RELU, CONV_RELU
from engine.graph.pipelines.matmul import MATMUL, MATMUL_EPILOGUE

CATALOGUE: dict[str, Pipeline[Any]] = {p.name: p for p in (CONV_BIAS_RELU, CONV_RELU, MATMUL, MATMUL_EPILOGUE, SDPA)}


def pipeline(name: str) -> Pipeline[Any]:
    """The pipeline of this name; raises InvalidInput that lists the names there are."""
    return find(CATALOGUE, name)


__all__ = ["CATALOGUE", "ParameterField", "Parameters", "Pipeline", "pipeline"]
