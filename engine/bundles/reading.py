"""Reading a bundle that anybody may have made. Everything is checked before anything of it reaches cuDNN, nothing is
unpacked to disk, and every complaint is an InvalidInput that names the member.

What the loader checks of a file it checks here too, by the same code; this adds that the members say the same of the
graph and the plans as one another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from engine.bundles.choosing import NOT_HANDED_OVER
from engine.bundles.contents import GraphFile, Manifest, PlanEntry, PlanFile, RunFile
from engine.bundles.export import LOADER
from engine.bundles.graphs import graph_calls, tensor_entries
from engine.bundles.load_plan import FILE_LIMIT, MANIFEST, SUMS, BundleError, read_manifest, unpack
from engine.graph.errors import InvalidInput, invalid
from engine.graph.tensors import FROZEN, Role
from engine.plans.properties import parse_properties

GET_ANEW = "Get the bundle anew from where it was made."
_PROPERTIES = "device_properties.json"
_ALWAYS = frozenset({MANIFEST, SUMS, "load_plan.py", "README.txt"})
M = TypeVar("M", bound=BaseModel)


class BundledPlan(BaseModel):
    """A plan; its serialized form stands beside, by its SHA-256."""

    model_config = FROZEN

    entry: PlanEntry
    file: PlanFile


class BundledGraph(BaseModel):
    """A graph with where its plans come from, and its plans, the default first."""

    model_config = FROZEN

    number: int
    graph: GraphFile
    run: RunFile
    plans: tuple[BundledPlan, ...]


class Bundle(BaseModel):
    """A bundle's content, whole and consistent. ``properties``: the GPU's, as text, where it has them; ``files``: how
    many the checksums cover; ``remarks``: what a person should know of it."""

    model_config = FROZEN

    manifest: Manifest
    graphs: tuple[BundledGraph, ...]
    properties: str | None
    files: int
    remarks: tuple[str, ...]


def read_bundle(data: bytes) -> tuple[Bundle, dict[str, bytes]]:
    """A bundle's content, checked in full, and its serialized plans by SHA-256. Raises InvalidInput, and nothing else,
    on anything wrong."""
    if len(data) > FILE_LIMIT:
        rule = f"a bundle has at most {FILE_LIMIT:,} bytes."
        raise invalid("bundle", f"{len(data):,} bytes", rule, "Choose a file that Planscope exported.")
    try:
        members = unpack(data)
        read_manifest(members)
    except BundleError as error:
        raise invalid("bundle", f"{len(data):,} bytes", f"{str(error).rstrip('.')}.", GET_ANEW) from None
    manifest = _parse(Manifest, members, MANIFEST)
    _check_names(manifest, members)
    graphs = tuple(_graph(manifest, members, entry.number) for entry in manifest.graphs)
    properties = members.get(_PROPERTIES)
    if properties is not None:
        _check_properties(properties, manifest)
    remarks = []
    if members["load_plan.py"] != LOADER.read_bytes():
        remarks.append("Its load_plan.py is not the one of this Planscope: read it before you run it.")
    text, files = properties.decode() if properties is not None else None, len(members) - 1
    whole = Bundle(manifest=manifest, graphs=graphs, properties=text, files=files, remarks=tuple(remarks))
    blobs = [members[f"plan-{entry.number}.bin"] for entry in manifest.plans]
    return whole, {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}


def _check_names(manifest: Manifest, members: Mapping[str, bytes]) -> None:
    graphs, plans = [g.number for g in manifest.graphs], [p.number for p in manifest.plans]
    if graphs != list(range(1, len(graphs) + 1)) or plans != list(range(1, len(plans) + 1)):
        raise invalid(MANIFEST, "numbers", "graphs and plans are numbered 1, 2, 3, ...", GET_ANEW)
    dims = [graph.dims for graph in manifest.graphs]
    if any(own in dims[:at] for at, own in enumerate(dims)):
        raise invalid(MANIFEST, "dims", "two graphs have the same dims: a loader cannot tell them apart.", GET_ANEW)
    wanted = _ALWAYS | {f"{kind}-{number}.json" for number in graphs for kind in ("graph", "run")}
    wanted |= {f"plan-{number}.{kind}" for number in plans for kind in ("json", "bin")}
    if missing := sorted(wanted - set(members)):
        raise invalid(missing[0], "missing", f"{MANIFEST} speaks of it.", GET_ANEW)
    if unknown := sorted(set(members) - wanted - {_PROPERTIES}):
        raise invalid(unknown[0], "not expected", f"{MANIFEST} does not speak of it.", GET_ANEW)


def _graph(manifest: Manifest, members: Mapping[str, bytes], number: int) -> BundledGraph:
    name = f"graph-{number}.json"
    graph, entry = _parse(GraphFile, members, name), manifest.graphs[number - 1]
    spec = graph.spec
    try:
        same_id = spec.graph_id == graph.graph_id == entry.graph_id
        recorded = (graph.types, graph.calls) == graph_calls(spec) and graph.tensors == tensor_entries(spec)
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise invalid(name, type(error).__name__, f"its graph cannot be built: {error}.", GET_ANEW) from None
    taken = {tensor.name: tensor.dims for tensor in spec.real if tensor.role is not Role.SCALAR}
    if not same_id or entry.dims != taken or entry.uids != {tensor.name: tensor.uid for tensor in spec.real}:
        raise invalid(name, graph.graph_id[:40], f"is not the graph that {MANIFEST} speaks of.", GET_ANEW)
    if not recorded:
        rule = "the calls and tensors in it are not those of its graph."
        raise invalid(name, graph.graph_id, rule, "It may be of another Planscope version: check it with that one.")
    run = _parse(RunFile, members, f"run-{number}.json")
    if (run.environment.cudnn_backend, run.target) != (manifest.cudnn_backend, manifest.target):
        raise invalid(
            f"run-{number}.json", run.run_id[:40], f"speaks of another GPU or cuDNN than {MANIFEST}.", GET_ANEW
        )
    plans = tuple(_plan(manifest, members, plan, graph) for plan in manifest.plans if plan.graph == number)
    return BundledGraph(number=number, graph=graph, run=run, plans=plans)


def _plan(manifest: Manifest, members: Mapping[str, bytes], entry: PlanEntry, graph: GraphFile) -> BundledPlan:
    name = f"plan-{entry.number}.json"
    plan, blob = _parse(PlanFile, members, name), members[f"plan-{entry.number}.bin"]
    recipe, record = plan.recipe, plan.record
    told = [(recipe.plan_name, recipe.plan_key, recipe.engine_id, recipe.knobs, plan.workspace_bytes)]
    told += [(record.plan_name, record.key, record.identity.engine_id, record.identity.knobs, record.workspace_bytes)]
    digest = hashlib.sha256(blob).hexdigest()
    of_blob = {(digest, len(blob)), (plan.serialized_sha256, plan.serialized_bytes)}
    of_blob.add((record.blob_sha256 or "", record.blob_bytes or 0))
    of_graph = {(graph.graph_id, manifest.cudnn_backend), (recipe.graph_id, recipe.cudnn_backend)}
    measured = {record.timings is not None, plan.measured is not None, entry.measured}
    agreed = told[0] == told[1] and (entry.plan_name, entry.plan_key) == told[0][:2]
    if not agreed or len(of_blob) > 1 or len(of_graph) > 1 or len(measured) > 1:
        rule = f"recipe, record, serialized form and {MANIFEST} speak of different plans."
        raise invalid(name, entry.plan_key[:80], rule, GET_ANEW)
    if record.status in NOT_HANDED_OVER:
        raise invalid(name, str(record.status), "a plan that ended so is not handed over.", GET_ANEW)
    return BundledPlan(entry=entry, file=plan)


def _check_properties(data: bytes, manifest: Manifest) -> None:
    try:
        name = parse_properties(data, _PROPERTIES)["deviceName"]
    except InvalidInput as error:
        first = error.errors[0]
        raise invalid(_PROPERTIES, first.value, f"{first.field}: {first.rule}", GET_ANEW) from None
    if name != manifest.target.gpu_name:
        raise invalid(_PROPERTIES, name, f"describes another GPU than {MANIFEST}.", GET_ANEW)


def _parse(model: type[M], members: Mapping[str, bytes], name: str) -> M:
    try:
        return model.model_validate_json(members[name])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))[:80] or "the file"
        raise invalid(name, str(first["input"])[:60], f"{where}: {first['msg']}.", GET_ANEW) from None
    except (LookupError, ArithmeticError, TypeError) as error:  # an operation met dims of a rank it does not know
        raise invalid(name, type(error).__name__, f"is no graph that can be computed: {error}.", GET_ANEW) from None
