"""The README.txt of a bundle: what it is, what it needs, and the three lines that run it, with its own tensor names."""

from __future__ import annotations

import keyword

from engine.bundles.contents import GraphEntry, Manifest
from engine.graph.tensors import Role, TensorSpec
from engine.records.plan import PlanRecord
from engine.records.run import RunRecord

_TEXT = """\
A cuDNN execution plan, exported by Planscope
=============================================

{label}
{plans}
Default     {plan_name}  (engine {engine}; knobs: {knobs})
            {measured}
Made for    {gpu} (compute capability {capability}), cuDNN {cudnn}

Install
-------
    pip install "nvidia-cudnn-frontend>=1.32,<2" "nvidia-cudnn-cu13=={cudnn}.*"
(nvidia-cudnn-cu12 for CUDA 12.) It was built with frontend {frontend}. torch is not needed, but welcome. A serialized
plan loads in its own cuDNN version alone, patch level included; in another, or on another GPU, the loader builds the
plan anew from its recipe (engine id and knobs), and where cuDNN has no such plan it takes the heuristics' choice. It
says in a warning which way it went, and why: plan.way, plan.why. load_plan(fallback=False) takes the serialized plan or
none.

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
__cuda_array_interface__, or device addresses as integers. Another plan of the bundle: load_plan(plan="NAME").
{picking}
Files
-----
manifest.json           format and version, GPU and cuDNN, and the index of graphs and plans
graph-N.json            operation graph N; the tensors a call takes; the calls that build it with cudnn
run-N.json              where and when its plans were made, the environment, and who won by how much: the tie set
plan-N.json             plan N: its recipe, workspace, notes, and what was measured, sample by sample
plan-N.bin              its serialized form
device_properties.json  where it is here: the GPU's properties, for a check on a machine without one
load_plan.py            the loader
SHA256SUMS              of all the others (sha256sum -c SHA256SUMS)

Built once more from the recipe, a plan differs from plan-N.bin in the frontend's graph counter and, where its kernel
was compiled, in stray bytes between the kernel's parameters: compare recipes, not files.

A plan holds code for the GPU. The checksums tell damage, not malice: load only what comes from people you trust.
"""

_PICKING = """
It holds plans for several shapes: a call picks by the dims of its tensors, and load_plan(dims={{"{name}": {dims}}})
gives one of them.
"""

_TAKEN = frozenset(keyword.kwlist) | {"self", "given", "workspace", "stream"}
_MOST = 8


def readme(manifest: Manifest, run: RunRecord, plan: PlanRecord) -> str:
    """The text for a bundle whose default is this plan."""
    inputs, outputs = run.graph.with_role(Role.INPUT), run.graph.outputs
    knobs = ", ".join(f"{name}={value}" for name, value in sorted(plan.identity.knobs.items()))
    measured = "not measured"
    if plan.timings is not None:
        where = run.environment.gpu.name if run.environment.gpu else run.target.gpu_name
        measured = f"measured: {plan.timings.hot.median_us:.4g} us on {where}, {run.started_at:%Y-%m-%d}"
    picking = _PICKING.format(name=inputs[0].name, dims=inputs[0].dims) if len(manifest.graphs) > 1 else ""
    return _TEXT.format(
        label=manifest.label,
        plans="".join(_graph_lines(manifest, graph) for graph in manifest.graphs),
        plan_name=plan.plan_name,
        engine=plan.identity.engine_id,
        knobs=knobs or "none",
        gpu=run.target.gpu_name,
        capability=f"{run.target.sm / 10:.1f}",
        cudnn=run.environment.cudnn_backend,
        frontend=run.environment.cudnn_frontend,
        measured=measured,
        call=_call(inputs),
        tensors="".join(_line(tensor) for tensor in run.graph.real),
        outputs=", ".join(tensor.name for tensor in outputs),
        picking=picking,
    )


def _graph_lines(manifest: Manifest, graph: GraphEntry) -> str:
    given = ", ".join(f"{letter}={value}" for letter, value in graph.parameters.items() if value)
    plans = [plan for plan in manifest.plans if plan.graph == graph.number]
    names = "".join(f"            plan {plan.number}: {plan.plan_name}\n" for plan in plans[:_MOST])
    more = f"            and {len(plans) - _MOST} more, in manifest.json\n" if len(plans) > _MOST else ""
    return f"\nGraph {graph.number:<5} {graph.pipeline}: {given}\n{names}{more}"


def _call(inputs: tuple[TensorSpec, ...]) -> str:
    if all(tensor.name.isidentifier() and tensor.name not in _TAKEN for tensor in inputs):
        return ", ".join(f"{tensor.name}=..." for tensor in inputs)
    return "{" + ", ".join(f"{tensor.uid}: ..." for tensor in inputs) + "}"


def _line(tensor: TensorSpec) -> str:
    dims, strides = "x".join(map(str, tensor.dims)), ",".join(map(str, tensor.strides))
    value = f" = {tensor.value}, filled in by itself" if tensor.value is not None else ""
    return f"    # {tensor.name}: {tensor.role}, uid {tensor.uid}, {tensor.dtype} {dims}, strides {strides}{value}\n"
