"""Loads the cuDNN execution plan beside this file, and runs it. Needs the cudnn Python package alone; torch is welcome.

    from load_plan import load_plan
    plan = load_plan()                      # or load_plan("bundle.zip"), load_plan("folder")
    outputs = plan(A=a, B=b)                # torch, where it is imported, makes the outputs and the workspace
    plan({1: a, 2: b, 3: c}, workspace=w)   # by uid, everything given: torch tensors, anything with data_ptr() or
                                            # __cuda_array_interface__, or device addresses as integers
    python load_plan.py [BUNDLE.zip]        # checks the bundle, loads the plan and, where a GPU and torch are, times it

A plan holds code for the GPU. The checksums tell damage, not malice: load only what comes from people you trust.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import struct
import sys
import time
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT, VERSION = "planscope-bundle", 1
SUMS = "SHA256SUMS"
SIZE_LIMIT = 1 << 30  # bytes of a whole bundle, unpacked
ALIGNMENT = 16  # bytes: what cuDNN assumes of every device address


class BundleError(Exception):
    """The bundle, the machine or the tensors do not fit; the message says what to change."""


def load_plan(where: str | Path | None = None, *, handle: Any = None, properties: str | None = None) -> Plan:
    """Load the plan of a bundle, a folder (this file's own by default) or a zip, onto the current GPU.

    ``handle``: a cudnn.Handle that several plans share; by default each has its own. ``properties``: device
    properties, as JSON, of the GPU the plan is for: with them the plan loads on a machine without any GPU, to be
    checked, not run. Raises BundleError.
    """
    return Plan(read_members(Path(__file__).parent if where is None else where), handle, properties)


def read_members(where: str | Path) -> dict[str, bytes]:
    """Every file of a bundle, a folder or a zip, by name, checked against SHA256SUMS."""
    path = Path(where)
    try:
        if path.is_dir():
            files = [file for file in path.iterdir() if file.name != "__pycache__"]
            members = {file.name: file.read_bytes() if file.is_file() else b"" for file in files}
        else:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
                if sum(entry.file_size for entry in entries) > SIZE_LIMIT:
                    raise BundleError(f"{path}: it unpacks to more than {SIZE_LIMIT:,} bytes.")
                members = {entry.filename: archive.read(entry) for entry in entries}
                if len(members) != len(entries):
                    raise BundleError(f"{path}: two of its members have one name.")
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BundleError(f"{path} cannot be read as a bundle: {error}") from None
    verify(members)
    return members


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
        raise BundleError(f"{unlisted} is in the bundle but not in {SUMS}: move it elsewhere.")
    if changed := sorted(name for name in sums if sums[name] != listed[name]):
        raise BundleError(f"{changed} is not what {SUMS} says: the bundle is damaged. Get it anew.")
    raise BundleError(f"{SUMS} is not in its canonical form, one sorted line for each member: get the bundle anew.")


def read_declarations(members: Mapping[str, bytes]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The manifest, and the tensors by name; BundleError where this is another kind of file, or of another version."""
    try:
        manifest, tensors = json.loads(members["manifest.json"]), json.loads(members["tensors.json"])
        if (manifest["format"], manifest["version"]) != (FORMAT, VERSION):
            raise BundleError(f"this loader reads {FORMAT} version {VERSION}, not version {manifest['version']}.")
        _ = [manifest[key] for key in ("plan_name", "pipeline", "cudnn_backend")], manifest["target"]["gpu_name"]
        return manifest, {tensor["name"]: tensor for tensor in tensors}
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise BundleError(f"this is no bundle of a plan: {type(error).__name__} {error} in its manifest.") from None


def import_cudnn(version: str) -> Any:
    """The cudnn module, if its cuDNN is this very version: a plan loads in the one that built it and in no other."""
    remedy = f'pip install "nvidia-cudnn-frontend>=1.32,<2" "nvidia-cudnn-cu13=={version}.*"  (-cu12 for CUDA 12)'
    try:
        import cudnn
    except ImportError as error:
        raise BundleError(f"the cudnn Python package cannot be imported ({error}). Install it: {remedy}") from None
    if (here := cudnn.backend_version_string()) != version:
        raise BundleError(f"this plan loads in cuDNN {version} alone, and here is cuDNN {here}. Install it: {remedy}")
    return cudnn


def imported_torch() -> Any:
    """torch, if this program uses it and it sees a GPU; else None. Importing it takes seconds, so nothing here does."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


class Plan:
    """A loaded plan. ``tensors``: what a call takes, by name; ``manifest``: where the plan comes from."""

    def __init__(self, members: Mapping[str, bytes], handle: Any = None, properties: str | None = None) -> None:
        self.manifest, self.tensors = read_declarations(members)
        self._cudnn, self._torch = import_cudnn(self.manifest["cudnn_backend"]), imported_torch()
        self.device = self._torch.cuda.current_device() if self._torch else None
        self._handle = handle
        began = time.perf_counter()
        self._load(members["plan.bin"], properties)
        self.load_ms = (time.perf_counter() - began) * 1e3
        self.workspace_bytes = int(self._graph.get_workspace_size())
        self._check_declarations()

    def _load(self, blob: bytes, properties: str | None) -> None:
        cudnn, made_for = self._cudnn, self.manifest["target"]["gpu_name"]
        if properties is not None and not _has_driver_library():
            raise BundleError("loading a plan without a GPU takes the driver's library, libcuda.so.1, all the same.")
        try:
            if properties is None:
                self._handle = self._handle or cudnn.create_handle()
                self._graph = cudnn.pygraph(handle=self._handle)
                self._graph.deserialize(self._handle, blob)
            else:
                described, sm = cudnn.create_device_properties(properties), json.loads(properties)["deviceVer"] // 10
                self._graph = cudnn.pygraph(device_property=described, sm_version=sm)
                self._graph.deserialize(blob)
        except (RuntimeError, ValueError, LookupError, TypeError, cudnn.cudnnGraphNotSupportedError) as error:
            raise BundleError(f"cuDNN does not load this plan, made for {made_for}, here: {error}") from None
        if self._handle is not None and self._torch and (here := self._torch.cuda.get_device_name()) != made_for:
            warnings.warn(f"this plan was made for {made_for}; on {here} another may be faster.", stacklevel=4)

    def _check_declarations(self) -> None:
        """The plan itself knows its tensors: they must be the memory that tensors.json declares. Axes may come in
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
                raise BundleError(f"the plan's tensor {name} is {facts}: tensors.json declares another one.")

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


def self_test(where: Path, properties: str | None) -> None:
    """Check, load and, where a GPU and torch are, run on random data; prints what was found. Raises BundleError."""
    members = read_members(where)
    manifest, _ = read_declarations(members)
    print(f"plan       {manifest['plan_name']} of {manifest['pipeline']}, made for {manifest['target']['gpu_name']}")
    print(f"checksums  {len(members) - 1} files, all as {SUMS} says")
    cudnn = import_cudnn(manifest["cudnn_backend"])
    print(f"cuDNN      {manifest['cudnn_backend']}, the one the plan loads in")
    if properties is None and (problem := _no_gpu(cudnn)):
        print(f"GPU        none ({problem})")
        if "device_properties.json" not in members or not _has_driver_library():
            print("loaded     no: without a GPU that takes its device properties (--properties) and libcuda.so.1")
            return
        properties = members["device_properties.json"].decode()
    if properties is None:
        with contextlib.suppress(ImportError):
            import torch  # noqa: F401 - for the plan to find
    plan = Plan(members, properties=properties)
    onto = f"device properties of {json.loads(properties)['deviceName']}" if properties else "the current GPU"
    print(f"loaded     in {plan.load_ms:.1f} ms, onto {onto}; workspace {plan.workspace_bytes:,} bytes")
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
    measured = plan.manifest["measured"]
    then = measured if isinstance(measured, str) else f"{measured['hot_us']['median']} us on {measured['gpu']}"
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
