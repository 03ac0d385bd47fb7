"""Options that say how a sweep measures, and what a winner has to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.graph.errors import invalid

if TYPE_CHECKING:
    from engine.records.options import Preset

PresetName = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="How sure to be: quick, standard (100 samples of every plan near the best) or thorough (400).",
    ),
]
DataName = Annotated[
    str, typer.Option("--data", metavar="KIND", help="What inputs are drawn from: normal, uniform or positive.")
]
ScoreShift = Annotated[
    float, typer.Option("--score-shift", metavar="X", help="Added to every score of an attention; negative is hardest.")
]
WorkspaceLimit = Annotated[
    str | None,
    typer.Option("--workspace-limit", metavar="SIZE", help="The winner's workspace at most: bytes, or as 64M or 1G."),
]
Deterministic = Annotated[
    bool,
    typer.Option("--deterministic", help="The winner is a plan that neither cuDNN's notes nor ten runs show to vary."),
]
Capturable = Annotated[bool, typer.Option("--capturable", help="The winner can be captured into a CUDA graph.")]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_measuring(
    preset: str, data: str, score_shift: float, workspace_limit: str | None, deterministic: bool, capturable: bool
) -> dict[str, Any]:
    """These options as fields of SweepOptions. Raises InvalidInput."""
    from engine.records.options import DataKind

    if data not in set(DataKind):
        raise invalid("data", data, "there is no such kind of data.", f"Choose from {', '.join(DataKind)}.")
    if not abs(score_shift) <= 1e4:
        raise invalid("score-shift", score_shift, "must be a number from -10000 to 10000.", "The default is 0.")
    return {
        "preset": parse_preset(preset),
        "data": DataKind(data),
        "score_shift": score_shift,
        "workspace_limit_bytes": None if workspace_limit is None else parse_bytes(workspace_limit),
        "deterministic_only": deterministic,
        "capturable_only": capturable,
    }


def parse_preset(text: str) -> Preset:
    """A preset by its name."""
    from engine.records.options import Preset

    if text not in set(Preset):
        raise invalid("preset", text, "there is no such preset.", f"Choose from {', '.join(Preset)}.")
    return Preset(text)


def parse_bytes(text: str) -> int:
    """A number of bytes, with K, M or G for powers of 1024."""
    number, unit = text.strip().upper().removesuffix("IB").removesuffix("B"), ""
    if number[-1:] in _UNITS and number[-1:]:
        number, unit = number[:-1].rstrip(), number[-1]
    remedy = "For example 64M; 0 allows only plans without a workspace."
    if not number.isascii() or not number.isdigit():
        rule = "must be a whole number of bytes, or one with K, M or G behind it."
        raise invalid("workspace-limit", text, rule, remedy)
    if len(number) > 19 or int(number) * _UNITS[unit] >= 2**63:
        raise invalid("workspace-limit", text, "no GPU has so much memory.", remedy)
    return int(number) * _UNITS[unit]
