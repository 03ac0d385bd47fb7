"""Judging the record inside a run file: whether it is one, and whether it fits its pipeline and the blobs beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.graph.errors import FieldError, InvalidInput, invalid
from engine.graph.pipelines import pipeline
from engine.records.run import READABLE_VERSIONS, RunKind, RunRecord, RunStatus

RUN = "run.json"
BLOBS = "blobs/"
EXPORT_AGAIN = "Export the run again where it was made."
MAX_TEXT = 64 << 10


class _Version(BaseModel):
    """The one field that says whether the rest can be understood."""

    model_config = ConfigDict(extra="ignore", strict=True)

    format_version: int


def parse_run(data: bytes) -> RunRecord:
    """The record in ``run.json``."""
    try:
        version = _Version.model_validate_json(data).format_version
        if version not in READABLE_VERSIONS:
            rule = f"this Planscope reads format versions {' and '.join(map(str, READABLE_VERSIONS))}."
            raise invalid(f"{RUN}: format_version", version, rule, "Update Planscope, or export the run again with it.")
        return RunRecord.model_validate_json(data)
    except ValidationError as error:
        raise InvalidInput(*(_explain(dict(e)) for e in error.errors(include_url=False)[:3])) from None
    except (LookupError, ArithmeticError) as error:  # an operation met dims of a rank it does not know
        raise invalid(f"{RUN}: graph", error, "is no graph that can be computed.", EXPORT_AGAIN) from None


def check_run(run: RunRecord, blobs: Mapping[str, bytes]) -> None:
    """What a record cannot check by itself: that it fits its pipeline and the blobs beside it, and its plans differ."""
    if run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
        raise invalid(f"{RUN}: status", run.status, "a run file holds a run that has ended.", EXPORT_AGAIN)
    try:
        fits = pipeline(run.pipeline).graph(run.parameters).graph_id == run.graph_id
        run.started_at.astimezone(UTC)
    except InvalidInput as error:
        raise InvalidInput(*(_inside_run(e) for e in error.errors)) from None
    except (ValueError, ArithmeticError) as error:  # numbers too long to print, dates at the end of time
        raise invalid(RUN, error, "holds a number or date outside every range.", EXPORT_AGAIN) from None
    _check_values(run.model_dump(mode="python"), ())
    if not fits:
        rule = f"is not the graph that {run.pipeline} has for these parameters."
        raise invalid(f"{RUN}: graph", run.graph_id, rule, EXPORT_AGAIN)
    if run.timed() and (run.kind is RunKind.PLAN or run.environment.gpu is None):
        measured = f"{len(run.timed())} plans timed"
        raise invalid(f"{RUN}: plans", measured, "times are measured in a sweep, on a GPU that is named.", EXPORT_AGAIN)
    keys: set[str] = set()
    for plan in run.plans:
        if plan.key in keys:
            raise invalid(f"{RUN}: plans", plan.key, "two plans have the same engine and knobs.", EXPORT_AGAIN)
        keys.add(plan.key)
        if plan.blob_sha256 is None:
            continue
        if plan.blob_sha256 not in blobs:
            rule = f"the serialized form of plan {shown(plan.plan_name)} is not in the file."
            raise invalid(BLOBS + plan.blob_sha256, "missing", rule, EXPORT_AGAIN)
        if plan.blob_bytes != len(blobs[plan.blob_sha256]):
            rule = f"plan {shown(plan.plan_name)} says its serialized form has another size."
            raise invalid(
                f"{RUN}: blob_bytes", f"{plan.blob_bytes} for {len(blobs[plan.blob_sha256])}", rule, EXPORT_AGAIN
            )
    if run.confirmation is not None and not {run.confirmation.winner, run.confirmation.first_pick} <= keys:
        compared = f"{run.confirmation.winner} and {run.confirmation.first_pick}"
        raise invalid(f"{RUN}: confirmation", compared, "names a plan that is not in the run.", EXPORT_AGAIN)
    for sha256 in sorted(set(blobs) - {plan.blob_sha256 for plan in run.plans}):
        raise invalid(BLOBS + sha256, "not used", "no plan refers to it.", EXPORT_AGAIN)


def _check_values(value: object, path: tuple[str, ...]) -> None:
    """Tables hold 64-bit numbers, what was measured is finite, and no text is longer than anybody reads; a record
    alone takes whatever JSON can write."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_values(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_values(inner, (*path, str(index)))
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise invalid(_field(path), f"{value.bit_length()} bits", "does not fit 64 bits.", EXPORT_AGAIN)
    elif isinstance(value, float) and not math.isfinite(value):
        raise invalid(_field(path), value, "is not finite.", EXPORT_AGAIN)
    elif isinstance(value, str) and len(value) > MAX_TEXT and path[-1] != "data":  # samples have their own limit
        raise invalid(_field(path), shown(value), f"a text has at most {MAX_TEXT:,} characters.", EXPORT_AGAIN)


def _field(path: tuple[str, ...]) -> str:
    return shown(f"{RUN}: {'.'.join(path)}")


def _explain(error: dict[str, object]) -> FieldError:
    """One of pydantic's complaints about ``run.json``."""
    location = error["loc"]
    assert isinstance(location, tuple)
    where = ".".join(str(part) for part in location)
    field = f"{RUN}: {where}" if where else RUN
    rule = _sentence(str(error["msg"]).removeprefix("Value error, ")[:300])
    return FieldError(shown(field), _given(error["input"]), rule, EXPORT_AGAIN)


def _given(value: object) -> str:
    """A value as a message quotes it: what stands in braces in the file is as good as never read from a message."""
    if isinstance(value, dict | bytes):
        return "an object" if isinstance(value, dict) else f"{len(value):,} bytes"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else shown(str(value))


def _inside_run(error: FieldError) -> FieldError:
    return FieldError(f"{RUN}: {error.field or 'parameters'}", error.value, error.rule, error.remedy)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!")) else text + "."


def shown(text: str) -> str:
    """Foreign text, cut and with nothing in it that a terminal or a page would act on."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:100])
    return printable if len(text) <= 80 else printable[:77] + "..."
