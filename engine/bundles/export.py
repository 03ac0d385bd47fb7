"""The bundle: one execution plan as a zip that another program loads with cudnn alone.

Its bytes depend on the run and the plan only (no clock, no compression library), so that two exports are equal and a
checksum of the whole file means something.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from engine.bundles.readme import readme
from engine.graph.errors import invalid
from engine.graph.tensors import Role, TensorSpec
from engine.plans.properties import complete_properties
from engine.plans.targets import shipped_targets
from engine.records.arithmetic import arithmetic
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord, Source
from engine.records.samples import Samples

FORMAT, VERSION = "planscope-bundle", 1
LOADER = Path(__file__).with_name("load_plan.py")
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold
_UNUSABLE = frozenset(Status) - {Status.OK, Status.LISTED, Status.CANCELLED}


def bundle(run: RunRecord, plan: PlanRecord, blob: bytes) -> bytes:
    """The zip for ``plan`` of ``run``; ``blob`` is its serialized form.

    Raises InvalidInput for a plan that was not built, that failed or computed something wrong, and for a blob that is
    not the plan's.
    """
    _check(plan, blob)
    members = {
        "plan.bin": blob,
        "recipe.json": _json(recipe(run, plan)),
        "graph.json": _json(run.graph.model_dump(mode="json")),
        "tensors.json": _json([_tensor(tensor) for tensor in run.graph.real]),
        "manifest.json": _json(manifest(run, plan)),
        "environment.json": _json(run.environment.model_dump(mode="json")),
        "load_plan.py": LOADER.read_bytes(),
        "README.txt": readme(run, plan).encode(),
    }
    if properties := _device_properties(run):
        members["device_properties.json"] = _json(properties)
    sums = "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members))
    return _zip({**members, "SHA256SUMS": sums.encode()})


def default_plan(run: RunRecord) -> tuple[PlanRecord, str]:
    """The plan to hand over where nobody chose one, and why it is this one; raises InvalidInput where there is none."""
    if best := run.best:
        return best, "the fastest plan of the run"
    for mode in run.options.modes:
        for plan in sorted((p for p in run.plans if mode in p.modes), key=lambda p: p.modes[mode]):
            if plan.blob_sha256 and plan.status not in _UNUSABLE:
                return plan, f"the first built plan that heuristics mode {mode} lists; nothing was measured in this run"
    raise invalid("plan", "", "the run has no plan that was built and is right.", "Plan or sweep the graph anew.")


def file_name(run: RunRecord, plan: PlanRecord) -> str:
    """What to call the zip: pipeline, plan and cuDNN version, in characters every file system takes."""
    parts = (run.pipeline, plan.plan_name, f"cudnn{run.environment.cudnn_backend}")
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", "-".join(parts))[:120] + ".zip"


def recipe(run: RunRecord, plan: PlanRecord) -> dict[str, Any]:
    """What names the plan for this graph: with it another cuDNN version may be able to build it anew."""
    return {
        "plan_name": plan.plan_name,
        "plan_key": plan.key,
        "engine_id": plan.identity.engine_id,
        "knobs": dict(plan.identity.knobs),
        "graph_id": run.graph_id,
        "cudnn_backend": run.environment.cudnn_backend,
    }


def manifest(run: RunRecord, plan: PlanRecord) -> dict[str, Any]:
    """Format, version, what the plan needs and what was seen of it."""
    target = run.target.model_dump(mode="json")
    if run.target.source is Source.DEVICE:
        target["source"] = "the GPU itself"  # "this machine's" means nothing where the bundle goes
    return {
        "format": FORMAT,
        "version": VERSION,
        "pipeline": run.pipeline,
        "parameters": dict(run.parameters),
        "graph_id": run.graph_id,
        "plan_name": plan.plan_name,
        "plan_key": plan.key,
        "workspace_bytes": plan.workspace_bytes,
        "behavior_notes": list(plan.behavior_notes),
        "numerical_notes": list(plan.numerical_notes),
        "arithmetic": arithmetic(run.graph.io_dtype, plan, run.options.data),
        "cudnn_backend": run.environment.cudnn_backend,
        "cudnn_frontend": run.environment.cudnn_frontend,
        "target": target,
        "run_id": run.id,
        "started_at": run.started_at.isoformat(),
        "measured": _measured(run, plan),
    }


def _check(plan: PlanRecord, blob: bytes) -> None:
    if plan.status in _UNUSABLE:
        rule = f"this plan ended as {plan.status}: {plan.message}"
        raise invalid("plan", plan.key, rule, "Choose one that is ok.")
    if plan.blob_sha256 is None:
        raise invalid("plan", plan.key, "this plan was listed but not built.", "Build it first, or choose another.")
    if hashlib.sha256(blob).hexdigest() != plan.blob_sha256:
        rule = "its serialized form is not the one that was built."
        raise invalid("plan", plan.key, rule, "The run's data is damaged: plan or sweep anew.")


def _measured(run: RunRecord, plan: PlanRecord) -> dict[str, Any] | str:
    if plan.timings is None:
        return "not measured"
    gpu = run.environment.gpu
    return {
        "gpu": gpu.name if gpu else run.target.gpu_name,
        "driver": gpu.driver if gpu else None,
        "hot_us": _summary(plan.timings.hot),
        "cold_us": _summary(plan.timings.cold),
        "host_us": _summary(plan.timings.host),
        "accuracy": [output.model_dump(mode="json") for output in plan.accuracy],
    }


def _summary(samples: Samples | None) -> dict[str, float | int] | None:
    """Microseconds, with no more digits than a float32 sample supports; None where there are none."""
    if samples is None:
        return None
    values = {"median": samples.median_us, "p10": samples.quantile_us(0.1), "p90": samples.quantile_us(0.9)}
    return {**{name: float(f"{value:.4g}") for name, value in values.items()}, "samples": samples.count}


def _tensor(tensor: TensorSpec) -> dict[str, Any]:
    if tensor.role is Role.SCALAR and tensor.dtype.torch_name not in ("float32", "float16"):
        raise invalid(tensor.name, tensor.dtype, "a bundle passes scalars as fp32 or fp16.", "Change its type.")
    names = {"cudnn_dtype": tensor.dtype.cudnn_name, "torch_dtype": tensor.dtype.torch_name}
    return {**tensor.model_dump(mode="json"), **names, "bytes": tensor.elements * tensor.dtype.itemsize}


def _device_properties(run: RunRecord) -> dict[str, Any] | None:
    """Properties of the plan's GPU, where Planscope ships them: with them a bundle can be checked without that GPU."""
    version = [int(part) for part in re.findall(r"\d+", run.environment.cudnn_backend)[:3]]
    major, minor, patch = version + [0] * (3 - len(version))
    for target in shipped_targets():
        same = (target.info.gpu_name, target.info.sm) == (run.target.gpu_name, run.target.sm)
        if same and target.properties is not None:
            return complete_properties(target.properties, major * 10000 + minor * 100 + patch)[0]
    return None


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(members.items()):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # Unix, rw-r--r--, wherever it is made
            archive.writestr(entry, data)
    return buffer.getvalue()
