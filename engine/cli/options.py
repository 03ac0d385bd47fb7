"""Options that several commands share, and how their texts become typed values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.graph.errors import FieldError, InvalidInput, invalid

if TYPE_CHECKING:
    from engine.graph.pipelines import Pipeline
    from engine.graph.spec import GraphSpec
    from engine.plans.targets import Target

Json = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]
PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help="A name that `pipelines` lists.")]
Parameter = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", metavar="LETTER=VALUE", help="A parameter of the pipeline; may be repeated."),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="TYPE",
        help="I/O type: bf16, fp16 or fp32. cuDNN may multiply fp32 in TF32, with 10 bits of mantissa.",
    ),
]
LayoutOption = Annotated[str | None, typer.Option("--layout", metavar="LAYOUT", help="nhwc or nchw.")]
Modes = Annotated[str, typer.Option("--modes", metavar="A,B,FALLBACK", help="Heuristics modes to ask, in order.")]
Builders = Annotated[
    int | None, typer.Option("--builders", metavar="N", help="Builder processes; by default one per core, at most 16.")
]
ComputeCache = Annotated[
    bool,
    typer.Option("--compute-cache", help="Leave the driver's cache of compiled kernels on: builds then look cheap."),
]
Explicit = Annotated[
    list[str] | None,
    typer.Option(
        "--explicit",
        metavar="PLAN",
        help="A plan to try besides the listed ones, as engine id and knobs: '49;SPLIT_K_SLC=15;KERNEL_CFG=30' (in "
        "quotes, for the semicolons). May be repeated. One that hangs or crashes costs only itself.",
    ),
]
EveryEngine = Annotated[
    bool,
    typer.Option(
        "--every-engine",
        help="Ask every engine of cuDNN by its id, not only those that the heuristics list, each with default knobs.",
    ),
]
KnobBudget = Annotated[
    int,
    typer.Option(
        "--knob-budget",
        metavar="N",
        help="Search the knobs of the engines near the best: N further choices that cuDNN takes are built. 0 is off.",
    ),
]
ALL_MODES = "A,B,FALLBACK"
MOST_BUILDERS = 64
MOST_CHOICES = 100_000


def parse_parameters(
    pipeline: Pipeline[Any], given: list[str] | None, dtype: str | None, layout: str | None
) -> tuple[dict[str, str], GraphSpec]:
    """Every parameter as text, and the graph; raises InvalidInput with one FieldError per wrong field."""
    texts: dict[str, str] = {}
    wrong: list[FieldError] = []
    named = [f"dtype={dtype}"] * (dtype is not None) + [f"layout={layout}"] * (layout is not None)
    for text in [*(given or ()), *named]:
        letter, equals, value = text.partition("=")
        letter = letter.strip()
        if not equals or not letter:
            wrong.append(FieldError("-p", text, "a parameter is written LETTER=VALUE.", "For example -p n=32."))
        elif letter in texts:
            wrong.append(FieldError(letter, value, f"it is given twice, as {texts[letter]} before.", "Give it once."))
        else:
            texts[letter] = value.strip()
    if wrong:
        raise InvalidInput(*wrong)
    parameters = pipeline.parse(texts)
    return pipeline.texts(parameters), pipeline.build(parameters)


def parse_modes(text: str) -> tuple[str, ...]:
    """Heuristics modes, each once, in the order given."""
    from engine.plans.candidates import MODES

    modes = tuple(part.strip().upper() for part in text.split(","))
    if wrong := [mode for mode in modes if mode not in MODES]:
        raise invalid("modes", text, f"there is no heuristics mode {wrong[0]!r}.", f"Choose from {', '.join(MODES)}.")
    return tuple(dict.fromkeys(modes))


def parse_builders(count: int | None) -> int | None:
    """A number of builder processes."""
    if count is not None and not 1 <= count <= MOST_BUILDERS:
        rule = f"must be a whole number from 1 to {MOST_BUILDERS}."
        raise invalid("builders", count, rule, "Leave it out for one per core.")
    return count


def parse_seed(seed: int) -> int:
    """The seed of random data."""
    if not 0 <= seed < 2**63:
        raise invalid("seed", seed, "must be a whole number from 0 to 2^63 - 1.", "The default is 0.")
    return seed


def parse_beyond(explicit: list[str] | None, every_engine: bool, knob_budget: int) -> dict[str, Any]:
    """What is asked for beyond the heuristics, as fields of SweepOptions."""
    from engine.plans.explicit import parse_plans

    if not 0 <= knob_budget <= MOST_CHOICES:
        rule = f"must be a whole number from 0 to {MOST_CHOICES:,}."
        raise invalid("knob-budget", knob_budget, rule, "0 searches no knobs.")
    return {"explicit": parse_plans(explicit or ()), "every_engine": every_engine, "knob_budget": knob_budget}


def find_target(text: str | None, otherwise: str = "h200") -> Target:
    """The target of a name or a file; where none is given, this machine's GPU, or ``otherwise`` where it has none."""
    from engine.machine.gpus import list_gpus
    from engine.plans.targets import LOCAL, resolve_target

    if text is None:
        text = LOCAL if list_gpus() else otherwise
    return resolve_target(text)
