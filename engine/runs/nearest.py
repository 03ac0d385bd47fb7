"""How far apart two shapes of a pipeline are, to offer a recorded one where the asked-for one was never measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.graph.errors import InvalidInput
from engine.graph.pipelines import Pipeline
from engine.graph.pipelines.base import text_of
from engine.runs.summary import RunSummary


@dataclass(frozen=True)
class Nearest:
    """The nearest measured run. ``differing``: letters with another value there, with (asked for, there) as texts.
    ``distance``: sum of |log2| of the ratios of the size letters: 1.0 is one of them doubled."""

    summary: RunSummary
    differing: dict[str, tuple[str, str]]
    distance: float


def nearest(pipeline: Pipeline[Any], asked: Mapping[str, Any], runs: Iterable[RunSummary]) -> Nearest | None:
    """The nearest of ``runs``, which come in order of preference for equal distance. A run with the same type, layout
    and options comes before any with others, however much larger or smaller."""
    wanted, fields = pipeline.parse(asked), pipeline.fields()
    best: tuple[tuple[int, float], Nearest] | None = None
    for run in runs:
        if run.pipeline != pipeline.name or not run.measured:
            continue
        try:
            there = pipeline.parse(run.parameters)
        except InvalidInput:  # recorded with parameters that this version does not have
            continue
        options, distance, differing = 0, 0.0, {}
        for field in fields:
            mine, theirs = getattr(wanted, field.letter), getattr(there, field.letter)
            if mine == theirs:
                continue
            differing[field.letter] = (text_of(mine), text_of(theirs))
            if field.kind == "int":
                shift = 0 if field.minimum else 1  # a letter that may be 0 has no ratio
                distance += abs(math.log2((mine + shift) / (theirs + shift)))
            else:
                options += 1
        rank = (options, distance)
        if best is None or rank < best[0]:
            best = rank, Nearest(run, differing, distance)
    return best[1] if best else None
