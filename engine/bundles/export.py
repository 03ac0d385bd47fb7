"""The bundle: execution plans as a zip that another program loads with cudnn alone.

Its bytes depend on the runs and the plans only (no clock, no compression library), so that two exports are equal and a
checksum of the whole file means something.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from engine.bundles.choosing import NOT_HANDED_OVER, default_plan, judged
from engine.bundles.contents import (
    Manifest,
    Measured,
    PlanEntry,
    PlanFile,
    Recipe,
    RunFile,
)
from engine.bundles.graphs import graph_entry, graph_file
from engine.bundles.readme import readme
from engine.graph.errors import invalid
from engine.plans.properties import NEWEST, complete_properties
from engine.plans.targets import shipped_targets
from engine.records.arithmetic import arithmetic
from engine.records.plan import PlanRecord
from engine.records.run import RunRecord
from engine.records.samples import Samples

__all__ = ["Part", "bundle", "bundle_of", "default_plan", "file_name"]

LOADER = Path(__file__).with_name("load_plan.py")
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold


@dataclass(frozen=True)
class Part:
    """Plans of one run, and so of one graph: the default first. ``blobs``: their serialized forms by SHA-256;
    ``chosen``: why that default; ``properties``: of the GPU, where it is one that Planscope does not ship."""

    run: RunRecord
    plans: tuple[PlanRecord, ...]
    blobs: Mapping[str, bytes]
    chosen: str = ""
    properties: Mapping[str, Any] | None = None


def bundle(run: RunRecord, plan: PlanRecord, blob: bytes) -> bytes:
    """The zip for one plan; raises InvalidInput as ``bundle_of`` does."""
    if plan.blob_sha256 and hashlib.sha256(blob).hexdigest() != plan.blob_sha256:
        rule = "its serialized form is not the one that was built."
        raise invalid("plan", plan.key, rule, "The run's data is damaged: plan or sweep anew.")
    return bundle_of([Part(run, (plan,), {plan.blob_sha256 or "": blob})])


def bundle_of(parts: Sequence[Part]) -> bytes:
    """The zip for plans of one graph or several, all for one GPU and one cuDNN version.

    Raises InvalidInput for a plan that was not built, that failed or computed something wrong; for runs of different
    targets or versions; and for graphs that a loader could not tell apart by their tensors' dims.
    """
    _check_together(parts)
    members, entries, number = dict[str, bytes](), [], 0
    for at, part in enumerate(parts, 1):
        members[f"graph-{at}.json"] = _json(graph_file(part.run.graph))
        members[f"run-{at}.json"] = _json(_run_file(part))
        for plan in part.plans:
            _check(plan)
            number += 1
            entries.append(_plan_entry(plan, number, at))
            members[f"plan-{number}.json"] = _json(_plan_file(part.run, plan))
            members[f"plan-{number}.bin"] = part.blobs[plan.blob_sha256 or ""]
    manifest = _manifest(parts, tuple(entries))
    members["manifest.json"] = _json(manifest)
    members["load_plan.py"] = LOADER.read_bytes()
    members["README.txt"] = readme(manifest, parts[0].run, parts[0].plans[0]).encode()
    if properties := _device_properties(parts[0]):
        members["device_properties.json"] = _text(properties)
    sums = "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members))
    return _zip({**members, "SHA256SUMS": sums.encode()})


def file_name(run: RunRecord, plan: PlanRecord) -> str:
    """What to call the zip: pipeline, plan and cuDNN version, in characters every file system takes."""
    parts = (run.pipeline, plan.plan_name, f"cudnn{run.environment.cudnn_backend}")
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", "-".join(parts))[:120] + ".zip"


def _check_together(parts: Sequence[Part]) -> None:
    first = parts[0].run
    for part in parts:
        if not part.plans:
            raise invalid("plan", part.run.id, "there is no plan to hand over.", "Plan or sweep the graph anew.")
        for what, own, others in (
            ("cuDNN", part.run.environment.cudnn_backend, first.environment.cudnn_backend),
            ("GPU", part.run.target.gpu_name, first.target.gpu_name),
        ):
            if own != others:
                rule = f"one bundle holds plans for one {what}, and another run has {others}."
                raise invalid("run", own, rule, "Write a bundle for each.")
    seen = [graph_entry(part.run, 1).dims for part in parts]
    if any(dims in seen[:at] for at, dims in enumerate(seen)):
        rule = "two graphs have tensors of the same dims: a loader could not tell them apart."
        raise invalid("run", first.pipeline, rule, "Write a bundle for each.")


def _check(plan: PlanRecord) -> None:
    if plan.status in NOT_HANDED_OVER:
        rule = f"this plan ended as {plan.status}: {plan.message}"
        raise invalid("plan", plan.key, rule, "Choose one that is ok.")
    if plan.blob_sha256 is None:
        raise invalid("plan", plan.key, "this plan was listed but not built.", "Build it first, or choose another.")


def _manifest(parts: Sequence[Part], entries: tuple[PlanEntry, ...]) -> Manifest:
    run = parts[0].run
    measured = any(entry.measured for entry in entries)
    made_for = f"made for {run.target.gpu_name}, cuDNN {run.environment.cudnn_backend}"
    if measured:
        told = f"measured on {run.environment.gpu.name if run.environment.gpu else run.target.gpu_name}"
    elif run.environment.gpu is None:
        told = f"planned and built without a GPU (its properties: {run.target.source}), nothing was run or measured"
    else:
        told = "built on that GPU, not measured"
    several = f"{len(entries)} plans" if len(entries) > 1 else "One plan"
    of = f" of {len(parts)} graphs" if len(parts) > 1 else ""
    return Manifest(
        label=f"{several}{of}, {made_for}; {told}.",
        cudnn_backend=run.environment.cudnn_backend,
        cudnn_frontend=run.environment.cudnn_frontend,
        target=run.target,
        graphs=tuple(graph_entry(part.run, at) for at, part in enumerate(parts, 1)),
        plans=entries,
    )


def _plan_entry(plan: PlanRecord, number: int, graph: int) -> PlanEntry:
    measured = plan.timings is not None
    return PlanEntry(number=number, graph=graph, plan_name=plan.plan_name, plan_key=plan.key, measured=measured)


def _run_file(part: Part) -> RunFile:
    run = part.run
    return RunFile(
        run_id=run.id,
        kind=run.kind,
        started_at=run.started_at,
        target=run.target,
        environment=run.environment,
        options=run.options,
        chosen=part.chosen,
        verdict=judged(run),
    )


def _plan_file(run: RunRecord, plan: PlanRecord) -> PlanFile:
    recipe = Recipe(
        plan_name=plan.plan_name,
        plan_key=plan.key,
        engine_id=plan.identity.engine_id,
        knobs=dict(plan.identity.knobs),
        graph_id=run.graph_id,
        cudnn_backend=run.environment.cudnn_backend,
    )
    return PlanFile(
        recipe=recipe,
        workspace_bytes=plan.workspace_bytes,
        serialized_sha256=plan.blob_sha256 or "",
        serialized_bytes=plan.blob_bytes or 0,
        arithmetic=arithmetic(run.graph.io_dtype, plan, run.options.data),
        measured=_measured(run, plan),
        record=plan,
    )


def _measured(run: RunRecord, plan: PlanRecord) -> Measured | None:
    if plan.timings is None:
        return None
    gpu, hot = run.environment.gpu, _summary(plan.timings.hot)
    assert hot is not None
    return Measured(
        gpu=gpu.name if gpu else run.target.gpu_name,
        driver=gpu.driver if gpu else None,
        hot_us=hot,
        cold_us=_summary(plan.timings.cold),
        host_us=_summary(plan.timings.host),
        accuracy=plan.accuracy,
    )


def _summary(samples: Samples | None) -> dict[str, float | int] | None:
    """Microseconds, with no more digits than a float32 sample supports; None where there are none."""
    if samples is None:
        return None
    values = {"median": samples.median_us, "p10": samples.quantile_us(0.1), "p90": samples.quantile_us(0.9)}
    return {**{name: float(f"{value:.4g}") for name, value in values.items()}, "samples": samples.count}


def _device_properties(part: Part) -> dict[str, Any] | None:
    """The GPU's properties: the target's own, or those that Planscope ships for it, with every key that any cuDNN asks
    for. With them a bundle can be checked without that GPU, and by another version."""
    at = (part.run.target.gpu_name, part.run.target.sm)
    shipped = (t.properties for t in shipped_targets() if (t.info.gpu_name, t.info.sm) == at)
    properties = part.properties or next(shipped, None)
    return complete_properties(dict(properties), NEWEST)[0] if properties else None


def _json(content: BaseModel) -> bytes:
    return _text(content.model_dump(mode="json"))


def _text(content: Any) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _zip(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in _in_order(members):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # Unix, rw-r--r--, wherever it is made
            archive.writestr(entry, data)
    return buffer.getvalue()


def _in_order(members: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    yield from sorted(members.items())
