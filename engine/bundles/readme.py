"""The README.txt of a bundle: what it is, what it needs, and the three lines that run it, with its own tensor names."""

from __future__ import annotations

import keyword

from engine.graph.tensors import Role, TensorSpec
from engine.records.plan import PlanRecord
from engine.records.run import RunRecord

_TEXT = """\
A cuDNN execution plan, exported by Planscope
=============================================

Plan        {plan_name}  (engine {engine}; knobs: {knobs})
Graph       {pipeline}: {parameters}
Made for    {gpu} (compute capability {capability})
Loads in    cuDNN {cudnn} and in no other version, patch level included
Workspace   {workspace} bytes
Measured    {measured}

Install
-------
    pip install "nvidia-cudnn-frontend>=1.32,<2" "nvidia-cudnn-cu13=={cudnn}.*"
(nvidia-cudnn-cu12 for CUDA 12.) It was built with frontend {frontend}. torch is not needed, but welcome.

Check, load and, on a machine with a GPU and torch, time it
-----------------------------------------------------------
    python load_plan.py

Use it
------
Keep files of your own out of this folder: the loader refuses what SHA256SUMS does not list. Copy load_plan.py to your
program and run it from there:

    import torch
    from load_plan import load_plan

    plan = load_plan("PATH")  # of this folder, or of the zip as it came
    outputs = plan({call})
{tensors}
Outputs ({outputs}) and the workspace are made by torch, or taken from you: give an output as you give an input, and
the workspace as workspace=.... stream=... takes a torch stream or an address; the default is torch's current one.
Tensors may be given by uid as well: plan({{1: ..., 2: ...}}). Without torch, give any object that has data_ptr() or
__cuda_array_interface__, or device addresses as integers.

Files
-----
plan.bin                the serialized plan
recipe.json             engine id and knobs: what names the plan for this graph and cuDNN version
graph.json              the operation graph
tensors.json            uid, name, dims, strides (in elements) and type of every tensor a call takes
manifest.json           format, versions, target, workspace, what was measured
environment.json        the machine and the versions it was made with
device_properties.json  where it is here: the GPU's properties, for a check on a machine without one
load_plan.py            the loader
SHA256SUMS              of all the others (sha256sum -c SHA256SUMS)

Built once more from the recipe, a plan differs from plan.bin in the frontend's graph counter and, where its kernel was
compiled, in stray bytes between the kernel's parameters: compare recipes, not files.

A plan holds code for the GPU. The checksums tell damage, not malice: load only what comes from people you trust.
"""

_TAKEN = frozenset(keyword.kwlist) | {"self", "given", "workspace", "stream"}


def readme(run: RunRecord, plan: PlanRecord) -> str:
    """The text for this plan."""
    inputs, outputs = run.graph.with_role(Role.INPUT), run.graph.outputs
    knobs = ", ".join(f"{name}={value}" for name, value in sorted(plan.identity.knobs.items()))
    measured = "not measured"
    if plan.timings is not None:
        where = run.environment.gpu.name if run.environment.gpu else run.target.gpu_name
        measured = f"{plan.timings.hot.median_us:.4g} us on {where}, {run.started_at:%Y-%m-%d}"
    return _TEXT.format(
        plan_name=plan.plan_name,
        engine=plan.identity.engine_id,
        knobs=knobs or "none",
        pipeline=run.pipeline,
        parameters=", ".join(f"{letter}={value}" for letter, value in run.parameters.items() if value),
        gpu=run.target.gpu_name,
        capability=f"{run.target.sm / 10:.1f}",
        cudnn=run.environment.cudnn_backend,
        frontend=run.environment.cudnn_frontend,
        workspace="unknown" if plan.workspace_bytes is None else f"{plan.workspace_bytes:,}",
        measured=measured,
        call=_call(inputs),
        tensors="".join(_line(tensor) for tensor in run.graph.real),
        outputs=", ".join(tensor.name for tensor in outputs),
    )


def _call(inputs: tuple[TensorSpec, ...]) -> str:
    if all(tensor.name.isidentifier() and tensor.name not in _TAKEN for tensor in inputs):
        return ", ".join(f"{tensor.name}=..." for tensor in inputs)
    return "{" + ", ".join(f"{tensor.uid}: ..." for tensor in inputs) + "}"


def _line(tensor: TensorSpec) -> str:
    dims, strides = "x".join(map(str, tensor.dims)), ",".join(map(str, tensor.strides))
    value = f" = {tensor.value}, filled in by itself" if tensor.value is not None else ""
    return f"    # {tensor.name}: {tensor.role}, uid {tensor.uid}, {tensor.dtype} {dims}, strides {strides}{value}\n"
