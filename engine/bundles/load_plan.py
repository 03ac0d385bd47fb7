"""Loads the cuDNN execution plan beside this file, and runs it. Needs the cudnn Python package alone; torch is welcome.

    from load_plan import load_plan
    plan = load_plan()                      # or load_plan("bundle.zip"), load_plan("folder")
    outputs = plan(A=a, B=b)                # torch, where it is imported, makes the outputs and the workspace
    plan({1: a, 2: b, 3: c}, workspace=w)   # by uid, everything given: torch tensors, anything with data_ptr() or
                                            # __cuda_array_interface__, or device addresses as integers
    print(plan.way, plan.why)               # "serialized"; "recipe" or "heuristics" where cuDNN did not load that, and
                                            # why. load_plan(fallback=False) takes the serialized plan or none.
    load_plan(dims={"A": (8, 256, 512)})    # of several shapes, one; without dims, each call picks by its tensors
    python load_plan.py [BUNDLE.zip]        # checks the bundle, loads the plan and, where a GPU and torch are, times it

A plan holds code for the GPU. The checksums tell damage, not malice: load only what comes from people you trust.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import io
import json
import re
import stat
import struct
import sys
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT, VERSION = "planscope-bundle", 2
SUMS, MANIFEST = "SHA256SUMS", "manifest.json"
FILE_LIMIT = 64 << 20  # bytes of a zip
SIZE_LIMIT = 256 << 20  # bytes of a whole bundle, unpacked
MEMBER_LIMIT = 4096
RATIO_LIMIT = 200  # deflate reaches 1032; kernels and records stay below 30
ALIGNMENT = 16  # bytes: what cuDNN assumes of every device address
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # no folders, so that no name leads out of one
MODES = ("A", "B", "FALLBACK")
BACKEND_ENGINES = range(10_000)  # the others are the frontend's own kernels, written in Python
_BROKEN_ZIP = (OSError, EOFError, RuntimeError, ValueError, NotImplementedError, OverflowError, struct.error,
               zipfile.BadZipFile, zlib.error)  # fmt: skip
_DESCRIPTORS: tuple[int, ...] = (12, 16, 20, 24)  # what may follow a member that was written without seeking
_REFUSALS = (RuntimeError, ValueError, LookupError, TypeError)  # what the cudnn module raises


_WAYS = {
    "serialized": "The serialized plan does not load",
    "recipe": "Its recipe does not build",
    "heuristics": "Nor do the heuristics give a plan",
}
_NOUNS = {"serialized": "its serialized form", "recipe": "its recipe", "heuristics": "the heuristics' choice"}


class BundleError(Exception):
    """The bundle, the machine or the tensors do not fit; the message says what to change."""


def load_plan(
    where: str | Path | None = None,
    *,
    dims: Mapping[str, Any] | None = None,
    plan: str | None = None,
    handle: Any = None,
    properties: str | None = None,
    fallback: bool = True,
) -> Plan | Plans:
    """Load the plan of a bundle, a folder (this file's own by default) or a zip, onto the current GPU.

    ``dims``: which of several graphs, by the dims of some or all tensors by name; without it a bundle of several gives
    Plans, which pick anew at every call. ``plan``: which of a graph's plans, by key or name; the first by default.
    ``fallback``: where cuDNN does not load the serialized plan (another version, another GPU), build it anew from its
    recipe, and where that fails, take the heuristics' choice; each is said in a warning. ``handle``: a cudnn.Handle
    that several plans share; by default each has its own. ``properties``: device properties, as JSON, of the GPU the
    plan is for: with them the plan loads on a machine without any GPU, to be checked, not run. Raises BundleError.
    """
    members = read_members(Path(__file__).parent if where is None else where)
    plans = Plans(members, plan=plan, handle=handle, properties=properties, fallback=fallback)
    if dims is not None:
        return plans.pick(dims)
    return plans if len(plans.graphs) > 1 else plans.load(plans.graphs[0])


def read_members(where: str | Path) -> dict[str, bytes]:
    """Every file of a bundle, a folder or a zip, by name, checked against SHA256SUMS."""
    path = Path(where)
    try:
        if not path.is_dir():
            with path.open("rb") as file:
                return unpack(file.read(FILE_LIMIT + 1))
        files = [file for file in path.iterdir() if file.name != "__pycache__"]
        if sum(file.stat().st_size for file in files) > SIZE_LIMIT:
            raise BundleError(f"{path}: it holds more than {SIZE_LIMIT:,} bytes.")
        members = {file.name: file.read_bytes() if file.is_file() else b"" for file in files}
    except OSError as error:
        raise BundleError(f"{path} cannot be read as a bundle: {error}") from None
    verify(members)
    return members


def unpack(data: bytes) -> dict[str, bytes]:
    """Every member of a zip by name, checked against SHA256SUMS; nothing of it is written anywhere."""
    if len(data) > FILE_LIMIT:
        raise BundleError(f"the file is larger than {FILE_LIMIT:,} bytes, which no bundle is.")
    members = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_directory(archive, data)
            for entry in archive.infolist():
                with archive.open(entry) as member:
                    members[entry.filename] = member.read(entry.file_size + 1)
                if len(members[entry.filename]) != entry.file_size:
                    raise BundleError(f"{entry.filename} is not as long as the zip says.")
    except _BROKEN_ZIP as error:
        raise BundleError(f"it cannot be read as a bundle: {error}") from None
    verify(members)
    return members


def _check_directory(archive: zipfile.ZipFile, data: bytes) -> None:
    """Judge a zip by what it says of itself, before anything is unpacked."""
    entries = archive.infolist()
    if len(entries) > MEMBER_LIMIT or sum(entry.file_size for entry in entries) > SIZE_LIMIT:
        raise BundleError(f"it unpacks to more than {SIZE_LIMIT:,} bytes, or than {MEMBER_LIMIT:,} files.")
    if MANIFEST not in {entry.filename for entry in entries}:
        raise BundleError(f"this is no bundle of a plan, or not the whole of one: {MANIFEST} is missing.")
    for entry in entries:
        name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
        if not NAME.fullmatch(name) or kind not in (0, stat.S_IFREG):
            raise BundleError(f"{name[:100]!r} is a folder, a link or a path: a bundle holds plain files alone.")
        if entry.flag_bits & 0x1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(f"{name} is encrypted, or packed in a way that bundles are not.")
        if entry.file_size > RATIO_LIMIT * max(entry.compress_size, 1024):
            raise BundleError(f"{name} unpacks to {entry.file_size:,} bytes from {entry.compress_size:,}: a zip bomb.")
    if len({entry.filename for entry in entries}) != len(entries):
        raise BundleError("two of its members have one name.")
    at: int = 0
    slack: tuple[int, ...] = (0,)
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset - at not in slack:
            raise BundleError(f"there are bytes before {entry.filename} that belong to no member.")
        at = entry.header_offset + 30 + sum(struct.unpack_from("<HH", data, entry.header_offset + 26))
        at, slack = at + entry.compress_size, _DESCRIPTORS if entry.flag_bits & 0x8 else (0,)
    if archive.comment or archive.start_dir - at not in slack or data[-22:-18] != b"PK\x05\x06":
        raise BundleError("the zip has bytes or a comment that belong to no member.")


def verify(members: Mapping[str, bytes]) -> None:
    """Compare every member with SHA256SUMS; BundleError names what is missing, not listed, or changed."""
    if SUMS not in members:
        raise BundleError(f"{SUMS} is missing: this is no bundle, or not the whole of one.")
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != SUMS}
    if members[SUMS] == "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode():
        return
    listed = {line[66:]: line[:64] for line in members[SUMS].decode(errors="replace").splitlines()}
    if missing := sorted(set(listed) - set(sums)):
        raise BundleError(f"{SUMS} lists {missing}, which the bundle does not have.")
    if unlisted := sorted(set(sums) - set(listed)):
        what = f"{unlisted} is in the bundle but not in {SUMS}"
        raise BundleError(f"{what}: move it elsewhere. A program of yours runs from its own folder, with load_plan.py.")
    if changed := sorted(name for name in sums if sums[name] != listed[name]):
        raise BundleError(f"{changed} is not what {SUMS} says: the bundle is damaged.")
    raise BundleError(f"{SUMS} is not in its canonical form, one sorted line for each member.")


def read_manifest(members: Mapping[str, bytes]) -> dict[str, Any]:
    """The index of a bundle; BundleError where this is another kind of file, or of another version."""
    try:
        manifest: dict[str, Any] = json.loads(members[MANIFEST])
        if (manifest["format"], manifest["version"]) != (FORMAT, VERSION):
            raise BundleError(f"this loader reads {FORMAT} version {VERSION}, not version {manifest['version']!r}.")
        _ = [manifest[key] for key in ("cudnn_backend", "label")], manifest["target"]["gpu_name"]
        numbers = [graph["number"] for graph in manifest["graphs"]]
        if not numbers or {plan["graph"] for plan in manifest["plans"]} != set(numbers):
            raise BundleError("the manifest's graphs and plans do not fit together.")
        return manifest
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise BundleError(f"this is no bundle of a plan: {type(error).__name__} {error} in its manifest.") from None


def import_cudnn(version: str) -> Any:
    """The cudnn module with its library. ``version``: of the cuDNN that would load the serialized plan, for the
    remedy."""
    remedy = f'pip install "nvidia-cudnn-frontend>=1.32,<2" "nvidia-cudnn-cu13=={version}.*"  (-cu12 for CUDA 12)'
    try:
        import cudnn

        cudnn.backend_version_string()  # What imports without the library has no version.
    except ImportError as error:
        raise BundleError(f"the cudnn Python package cannot be imported ({error}). Install it: {remedy}") from None
    except RuntimeError as error:
        raise BundleError(f"the cudnn Python package finds no cuDNN ({_line(error)}) Install it: {remedy}") from None
    return cudnn


def imported_torch() -> Any:
    """torch, if this program uses it and it sees a GPU; else None. Importing it takes seconds, so nothing here does."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


class Plans:
    """The plans of a bundle, one for each of its ``graphs``, loaded when first used. Called like a Plan, it takes the
    one whose tensors have the dims of those given."""

    def __init__(
        self,
        members: Mapping[str, bytes],
        plan: str | None = None,
        handle: Any = None,
        properties: str | None = None,
        fallback: bool = True,
    ) -> None:
        self.manifest = read_manifest(members)
        self.graphs: list[dict[str, Any]] = self.manifest["graphs"]
        self._members, self._plan, self._options = members, plan, (handle, properties, fallback)
        self._loaded: dict[int, Plan] = {}

    def pick(self, dims: Mapping[str, Any]) -> Plan:
        """The plan of the graph whose tensors have these dims; some of them are enough where they tell it."""
        wanted = {name: list(sizes) for name, sizes in dims.items()}
        found = [graph for graph in self.graphs if wanted == {name: graph["dims"].get(name) for name in wanted}]
        if len(found) != 1:
            has = "; ".join(f"{graph['number']}: {graph['dims']}" for graph in self.graphs)
            raise BundleError(f"{len(found)} graphs of this bundle have tensors of dims {wanted}. It holds {has}.")
        return self.load(found[0])

    def load(self, graph: Mapping[str, Any]) -> Plan:
        """The plan of one of ``graphs``."""
        number = graph["number"]
        if number not in self._loaded:
            own = [plan for plan in self.manifest["plans"] if plan["graph"] == number]
            if self._plan is not None:
                own = [plan for plan in own if self._plan in (plan["plan_key"], plan["plan_name"])]
            if not own:
                raise BundleError(f"graph {number} has no plan {self._plan!r}: manifest.json lists what there is.")
            self._loaded[number] = Plan(self._members, self.manifest, graph, own[0], *self._options)
        return self._loaded[number]

    def __call__(self, given: Mapping[Any, Any] | None = None, **named: Any) -> dict[str, Any]:
        """Run the plan that the tensors' dims pick. They go by name, or by uid as in the first graph."""
        names = {uid: name for name, uid in self.graphs[0]["uids"].items()}
        tensors = {names.get(key, key): tensor for key, tensor in (given or {}).items()}
        told = {name: _describe(tensor, str(name))[1].get("dims") for name, tensor in {**tensors, **named}.items()
                if name in self.graphs[0]["dims"] and not isinstance(tensor, float)}  # fmt: skip
        return self.pick({name: dims for name, dims in told.items() if dims is not None})(tensors, **named)


class Plan:
    """A loaded plan. ``tensors``: what a call takes, by name; ``manifest``: where the plan comes from; ``way``: how it
    was loaded ("serialized", "recipe" or "heuristics") and ``why`` not in a way before that; ``plan_name``: which plan
    it is, by the names of the cuDNN at hand."""

    def __init__(
        self,
        members: Mapping[str, bytes],
        manifest: dict[str, Any],
        graph: Mapping[str, Any],
        entry: Mapping[str, Any],
        handle: Any = None,
        properties: str | None = None,
        fallback: bool = True,
    ) -> None:
        self.manifest, self._handle = manifest, handle
        try:
            self._graph_file = json.loads(members[f"graph-{graph['number']}.json"])
            self.file: dict[str, Any] = json.loads(members[f"plan-{entry['number']}.json"])
            blob, self._recipe = members[f"plan-{entry['number']}.bin"], self.file["recipe"]
            self.tensors = {tensor["name"]: tensor for tensor in self._graph_file["tensors"]}
            self.plan_name: str = self._recipe["plan_name"]
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise BundleError(f"this is no bundle of a plan: {type(error).__name__} {error}.") from None
        self._cudnn, self._torch = import_cudnn(manifest["cudnn_backend"]), imported_torch()
        self.device = self._torch.cuda.current_device() if self._torch else None
        began = time.perf_counter()
        self._open(properties)
        self.way, self.why, self._graph = self._obtain(blob, fallback)
        self.load_ms = (time.perf_counter() - began) * 1e3
        self.workspace_bytes = int(self._graph.get_workspace_size())
        self._check_declarations()

    def _open(self, properties: str | None) -> None:
        """What new graphs are made with: a handle, or the properties of a GPU that is elsewhere."""
        self._made_with: dict[str, Any] = {}
        try:
            if properties is None:
                self._handle = self._handle or self._cudnn.create_handle()
                self._made_with["handle"] = self._handle
            elif not _has_driver_library():
                raise BundleError("loading a plan without a GPU takes the driver's library, libcuda.so.1, too.")
            else:
                self._made_with["device_property"] = self._cudnn.create_device_properties(properties)
                self._made_with["sm_version"] = json.loads(properties)["deviceVer"] // 10
        except _REFUSALS as error:
            raise BundleError(f"cuDNN cannot be used here: {_line(error)}") from None
        made_for = self.manifest["target"]["gpu_name"]
        if properties is None and self._torch and (here := self._torch.cuda.get_device_name()) != made_for:
            warnings.warn(f"this plan was made for {made_for}; on {here} another may be faster.", stacklevel=5)

    def _obtain(self, blob: bytes, fallback: bool) -> tuple[str, str, Any]:
        """The first way that works, why not one before it, and the graph that holds the plan."""
        ways: list[tuple[str, Callable[[], Any]]] = [("serialized", lambda: self._deserialized(blob))]
        if fallback:
            ways += [("recipe", self._rebuilt), ("heuristics", self._chosen)]
        reasons, wanted = [], self.plan_name
        for way, act in ways:
            try:
                graph = act()
            except (*_REFUSALS, ImportError, self._cudnn.cudnnGraphNotSupportedError) as error:
                reasons.append(f"{_WAYS[way]}: {_line(error)}")
                continue
            if reasons:
                warnings.warn(f"{wanted} is taken from {_NOUNS[way]}. {' '.join(reasons)}", stacklevel=5)
            return way, " ".join(reasons), graph
        made_for = f"made for {self.manifest['target']['gpu_name']}"
        raise BundleError(f"cuDNN does not load this plan, {made_for}, here. {' '.join(reasons)}")

    def _deserialized(self, blob: bytes) -> Any:
        made_by, here = self.manifest["cudnn_backend"], self._cudnn.backend_version_string()
        if made_by != here:
            raise ValueError(f"cuDNN {made_by} serialized it, and cuDNN {here} loads what it serialized itself alone")
        return self._load(blob)

    def _load(self, blob: bytes) -> Any:
        graph = self._cudnn.pygraph(**self._made_with)
        graph.deserialize(*(() if self._handle is None else (self._handle,)), blob)
        return graph

    def _rebuilt(self) -> Any:
        """Built anew from engine id and knobs; or, where these cannot be set, found by its name in what the heuristics
        list."""
        names = self._cudnn.knob_type.__members__
        unknown = [name for name in self._recipe["knobs"] if name not in names]
        made = "its knobs cannot be set"
        if not unknown:
            graph = self._lowered()
            knobs = {names[name]: value for name, value in self._recipe["knobs"].items()}
            graph.create_execution_plan(self._recipe["engine_id"], knobs)
            made = graph.get_plan_name_at_index(0)
            if made == self.plan_name:
                return self._built(graph, 0)
        for mode in MODES:
            for graph, index in self._listed(mode):
                if graph.get_plan_name_at_index(index) == self.plan_name:
                    return self._built(graph, index)
        raise ValueError(f"engine {self._recipe['engine_id']} gives {made}, and no heuristics mode lists the plan")

    def _chosen(self) -> Any:
        """The first plan of the heuristics that can be built."""
        last: Exception = ValueError("the heuristics list no plan")
        for mode in MODES:
            for graph, index in self._listed(mode):
                name = graph.get_plan_name_at_index(index)
                try:
                    loaded = self._built(graph, index)
                except (*_REFUSALS, self._cudnn.cudnnGraphNotSupportedError) as error:
                    last = error
                    continue
                self.plan_name = name
                return loaded
        raise last

    def _listed(self, mode: str) -> Iterator[tuple[Any, int]]:
        graph = self._lowered()
        try:
            graph.create_execution_plans([getattr(self._cudnn.heur_mode, mode)])
        except (*_REFUSALS, self._cudnn.cudnnGraphNotSupportedError):
            return  # this mode has nothing for such a graph
        for index in range(graph.get_execution_plan_count()):
            if graph.get_engine_and_knobs_at_index(index)[0] in BACKEND_ENGINES:
                yield graph, index

    def _built(self, graph: Any, index: int) -> Any:
        """Built, and loaded from its serialized form like any other, so that every plan is run in one way."""
        graph.build_plan_at_index(index)
        self.serialized = bytes(graph.serialize(as_bytes=True))
        return self._load(self.serialized)

    def _lowered(self) -> Any:
        """The graph itself, made by the calls that the bundle lists."""
        graph = self._cudnn.pygraph(**self._made_with, **self._values(self._graph_file["types"], []))
        made: list[Any] = []
        for call in self._graph_file["calls"]:
            if not NAME.fullmatch(call["method"]):
                raise ValueError(f"{call['method']!r} is no operation")
            given = getattr(graph, call["method"])(**self._values(call["arguments"], made))
            results = given if isinstance(given, list | tuple) else [given]
            for tensor, settings in zip(results, call["results"], strict=True):
                made.append(tensor)
                for setting, value in self._values(settings, made).items():
                    getattr(tensor, f"set_{setting}")(value)
        graph.validate()
        graph.build_operation_graph()
        return graph

    def _values(self, written: Any, made: list[Any]) -> Any:
        """Values as the bundle writes them: enums and tensors by name and number, all else as it is."""
        if isinstance(written, list):
            return [self._values(one, made) for one in written]
        if not isinstance(written, dict):
            return written
        if set(written) == {"tensor"}:
            return made[written["tensor"]]
        if set(written) == {"enum"}:
            enum, _, member = written["enum"].partition(".")
            return getattr(self._cudnn, enum).__members__[member]
        return {name: self._values(value, made) for name, value in written.items()}

    def _check_declarations(self) -> None:
        """The plan itself knows its tensors: they must be the memory that the bundle declares. Axes may come in
        another order: cuDNN up to 9.20 keeps an attention's K as its transpose."""
        for name, tensor in self.tensors.items():
            try:
                held = self._graph.query_tensor_attributes_of_uid(tensor["uid"])
            except RuntimeError as error:
                raise BundleError(f"the plan has no tensor {name} (uid {tensor['uid']}): {error}") from None
            axes = sorted(zip(held.get_dim(), held.get_stride(), strict=True))
            facts = (axes, held.get_data_type().name, held.get_is_pass_by_value())
            declared = sorted(zip(tensor["dims"], tensor["strides"], strict=True))
            if facts != (declared, tensor["cudnn_dtype"], tensor["role"] == "scalar"):
                raise BundleError(f"the plan's tensor {name} is {facts}: the bundle declares another one.")

    def __call__(
        self, given: Mapping[Any, Any] | None = None, *, workspace: Any = None, stream: Any = None, **named: Any
    ) -> dict[str, Any]:
        """Run the plan on ``stream`` (torch's current one, else the default stream); gives its outputs by name.

        Tensors go by name or uid. Scalars may be left out, or given as numbers; outputs and the workspace may be left
        out where torch was imported before the plan was loaded. Does not wait for the GPU, which must be the one the
        plan was loaded on.
        """
        if self._handle is None:
            raise BundleError("this plan was loaded with device properties, without a GPU: it cannot run.")
        tensors = self._by_name({**(given or {}), **named})
        with self._on(stream) as address:
            pointers, scalars = {}, []
            for name, declared in self.tensors.items():
                if declared["role"] == "scalar":
                    scalars.append(_scalar(declared, tensors.get(name, declared["value"])))
                    pointers[declared["uid"]] = ctypes.addressof(scalars[-1])
                    continue
                if name not in tensors:
                    tensors[name] = self.empty(name)
                pointers[declared["uid"]] = _address(tensors[name], declared, self.device)
            if workspace is None and self.workspace_bytes:
                workspace = self._allocate("a workspace", (self.workspace_bytes,), (1,), "uint8")
            self._cudnn.set_stream(self._handle, address)
            self._graph.execute(pointers, _workspace_address(workspace, self.workspace_bytes), handle=self._handle)
        return {name: tensors[name] for name, declared in self.tensors.items() if declared["role"] == "output"}

    def empty(self, name: str) -> Any:
        """An uninitialized torch tensor as declared."""
        declared = self.tensors[name]
        return self._allocate(f"the tensor {name}", declared["dims"], declared["strides"], declared["torch_dtype"])

    def _allocate(self, what: str, dims: Any, strides: Any, dtype: str) -> Any:
        if self._torch is None:
            raise BundleError(f"{what} must be given: torch is not imported, or sees no GPU.")
        return self._torch.empty_strided(dims, strides, dtype=getattr(self._torch, dtype), device=f"cuda:{self.device}")

    @contextlib.contextmanager
    def _on(self, stream: Any) -> Iterator[int]:
        """The stream's address, with torch's allocations bound to that stream."""
        current = self._torch.cuda.current_stream(self.device) if self._torch else None
        if stream is None:
            stream = current if current is not None else 0
        address = int(getattr(stream, "cuda_stream", getattr(stream, "ptr", stream)))
        with contextlib.ExitStack() as stack:
            if current is not None and address != current.cuda_stream:
                external = self._torch.cuda.ExternalStream(address, device=f"cuda:{self.device}")
                stack.enter_context(self._torch.cuda.stream(external))
            yield address

    def _by_name(self, given: Mapping[Any, Any]) -> dict[str, Any]:
        names = {tensor["uid"]: name for name, tensor in self.tensors.items()}
        tensors: dict[str, Any] = {}
        for key, tensor in given.items():
            name = names.get(key, key)
            if name not in self.tensors or name in tensors:
                what = "given twice" if name in tensors else "no tensor of this plan"
                declared = ", ".join(f"{n} (uid {t['uid']}, {t['role']})" for n, t in self.tensors.items())
                raise BundleError(f"{key!r} is {what}. It has {declared}.")
            tensors[name] = tensor
        if missing := [n for n, t in self.tensors.items() if t["role"] == "input" and n not in tensors]:
            raise BundleError(f"inputs are missing: {', '.join(missing)}.")
        return tensors


def _scalar(declared: Mapping[str, Any], value: Any) -> ctypes.Array[ctypes.c_char]:
    """A scalar in host memory, in its own type: cuDNN takes its value from there when the plan is run."""
    data = struct.pack({"float32": "<f", "float16": "<e"}[declared["torch_dtype"]], float(value))
    return ctypes.create_string_buffer(data, len(data))


def _address(tensor: Any, declared: Mapping[str, Any], device: int | None) -> int:
    """The tensor's device address, once all that it says about itself agrees with the declaration."""
    address, facts = _describe(tensor, declared["name"])
    wanted = {"dims": tuple(declared["dims"]), "strides": tuple(declared["strides"]), "type": declared["torch_dtype"]}
    if device is not None:
        wanted["device"] = f"cuda:{device}"
    if facts.get("dims") == wanted["dims"]:  # the stride of a single element is never multiplied with anything
        steps = zip(facts["dims"], facts["strides"], wanted["strides"], strict=True)
        facts["strides"] = tuple(wants if dim == 1 else has for dim, has, wants in steps)
    if wrong := [
        f"{what} {facts[what]}, not {wants}" for what, wants in wanted.items() if facts.get(what, wants) != wants
    ]:
        declaration = ", ".join(f"{what} {value}" for what, value in wanted.items())
        raise BundleError(f"{declared['name']} has {'; '.join(wrong)}. The plan takes it with {declaration}.")
    if not address or address % ALIGNMENT:
        raise BundleError(f"{declared['name']}: its address {address:#x} is not a multiple of {ALIGNMENT} bytes.")
    return address


def _describe(tensor: Any, name: str) -> tuple[int, dict[str, Any]]:
    """A tensor's address and what it says about itself; strides in elements."""
    if isinstance(tensor, int):
        return tensor, {}
    if hasattr(tensor, "data_ptr"):
        if not hasattr(tensor, "stride"):
            return int(tensor.data_ptr()), {}
        facts = {"dims": tuple(tensor.shape), "strides": tuple(tensor.stride()), "device": str(tensor.device)}
        return int(tensor.data_ptr()), {**facts, "type": str(tensor.dtype).rpartition(".")[2]}
    if not hasattr(tensor, "__cuda_array_interface__"):
        raise BundleError(f"{name}: a {type(tensor).__name__} is neither a tensor on a GPU nor an address.")
    interface = tensor.__cuda_array_interface__
    dims, size = tuple(interface["shape"]), int(interface["typestr"][2:])
    strides = [1]
    for dim in reversed(dims[1:]):
        strides.insert(0, strides[0] * dim)
    if interface.get("strides"):
        strides = [step // size for step in interface["strides"]]
    facts = {"dims": dims, "strides": tuple(strides)}
    if kind := {"<f2": "float16", "<f4": "float32"}.get(interface["typestr"]):  # it has no word for bfloat16
        facts["type"] = kind
    return int(interface["data"][0]), facts


def _workspace_address(workspace: Any, needed: int) -> int:
    if workspace is None or isinstance(workspace, int):
        address, size = workspace or 0, needed
    elif hasattr(workspace, "data_ptr"):
        address = int(workspace.data_ptr())
        size = workspace.numel() * workspace.element_size() if hasattr(workspace, "numel") else needed
    else:
        address, size = int(workspace.__cuda_array_interface__["data"][0]), int(workspace.nbytes)
    if size < needed or (needed and not address):
        raise BundleError(f"the workspace has {size if address else 0:,} bytes; the plan needs {needed:,}.")
    return address


def _line(error: BaseException) -> str:
    """An error on one line; cuDNN's go on for pages."""
    return " ".join(str(error).split())[:300].rstrip(". ") + "."


def self_test(where: Path, properties: str | None) -> None:
    """Check, load and, where a GPU and torch are, run on random data; prints what was found. Raises BundleError."""
    members = read_members(where)
    manifest = read_manifest(members)
    print(f"checksums  {len(members) - 1} files, all as {SUMS} says")
    print(f"bundle     {manifest['label']}")
    cudnn = import_cudnn(manifest["cudnn_backend"])
    here = cudnn.backend_version_string()
    print(f"cuDNN      {here}" + ("" if here == manifest["cudnn_backend"] else f", not {manifest['cudnn_backend']}"))
    if properties is None and (problem := _no_gpu(cudnn)):
        print(f"GPU        none ({problem})")
        if "device_properties.json" not in members or not _has_driver_library():
            print("loaded     no: without a GPU that takes its device properties (--properties) and libcuda.so.1")
            return
        properties = members["device_properties.json"].decode()
    if properties is None:
        with contextlib.suppress(ImportError):
            import torch  # noqa: F401 - for the plan to find
    plans = Plans(members, properties=properties)
    for graph in plans.graphs:
        with warnings.catch_warnings(action="ignore"):  # what they say is printed
            plan = plans.load(graph)
        _test_one(plan, graph, properties)


def _test_one(plan: Plan, graph: Mapping[str, Any], properties: str | None) -> None:
    print(f"plan       {plan.plan_name} of {graph['pipeline']}, graph {graph['number']}")
    onto = f"device properties of {json.loads(properties)['deviceName']}" if properties else "the current GPU"
    print(f"loaded     from {_NOUNS[plan.way]} in {plan.load_ms:.1f} ms, onto {onto}; "
          f"workspace {plan.workspace_bytes:,} bytes")  # fmt: skip
    if plan.why:
        print(f"because    {plan.why}")
    for name, tensor in plan.tensors.items():
        value = f", {tensor['value']}" if tensor["role"] == "scalar" else ""
        dims, strides = "x".join(map(str, tensor["dims"])), ",".join(map(str, tensor["strides"]))
        facts = f"{tensor['role']}, uid {tensor['uid']}, {tensor['dtype']} {dims}, strides {strides}{value}"
        print(f"tensor     {name}: {facts}")
    if properties or plan.device is None:
        print(f"ran        no: {'this is a check without a GPU' if properties else 'torch with CUDA is not installed'}")
    else:
        _run(imported_torch(), plan)


def _no_gpu(cudnn: Any) -> str | None:
    try:
        cudnn.destroy_handle(cudnn.create_handle())
    except RuntimeError as error:
        return str(error)
    return None


def _has_driver_library() -> bool:
    with contextlib.suppress(OSError):
        return bool(ctypes.CDLL("libcuda.so.1"))
    return False


def _run(torch: Any, plan: Plan, executions: int = 20, samples: int = 20) -> None:
    """Random inputs, outputs poisoned with NaN; GPU time from replays of a CUDA graph of ``executions`` executions."""
    stream, graph, times = torch.cuda.Stream(), torch.cuda.CUDAGraph(), []
    with torch.cuda.stream(stream):
        tensors = {name: plan.empty(name) for name, declared in plan.tensors.items() if declared["role"] != "scalar"}
        for name, tensor in tensors.items():
            tensor.fill_(float("nan")) if plan.tensors[name]["role"] == "output" else tensor.normal_()
        outputs = plan(tensors)
        if bad := {n: count for n, t in outputs.items() if (count := int((~torch.isfinite(t)).sum()))}:
            raise BundleError(f"elements of the outputs that are not finite or were never written: {bad}")
        print(f"ran        every element of {', '.join(outputs)} was written and is finite")
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(executions):
                plan(tensors)
        for _ in range(samples):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop) * 1e3 / executions)
    measured = plan.file["measured"]
    then = "not measured" if measured is None else f"{measured['hot_us']['median']} us on {measured['gpu']}"
    print(f"time       {sorted(times)[samples // 2]:.2f} us on the GPU (when it was chosen: {then})")


def main(arguments: list[str] | None = None) -> int:
    """Self-test. 0: everything that can be checked here is right; 1: something is not; 2: bad arguments."""
    parser = argparse.ArgumentParser(description="Check a bundle, load its plan and run it where there is a GPU.")
    parser.add_argument("bundle", nargs="?", type=Path, default=Path(__file__).parent, help="folder or zip")
    parser.add_argument("--properties", type=Path, help="JSON of device properties, to load without a GPU")
    options = parser.parse_args(arguments)
    try:
        properties = options.properties.read_text() if options.properties else None
    except (OSError, ValueError) as error:
        parser.error(f"--properties: {error}")
    try:
        self_test(options.bundle, properties)
    except BundleError as error:
        print(f"load_plan: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
