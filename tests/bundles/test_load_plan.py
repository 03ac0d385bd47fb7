"""The loader that goes out with a bundle: its checks, and a real plan loaded by it alone, far from this repository."""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest
import torch

from engine.bundles import load_plan as loader
from engine.bundles.export import bundle, bundle_of
from engine.machine.driver import fetched_library
from engine.plans.properties import complete_properties
from engine.plans.targets import resolve_target
from engine.runs.recordings import SHIPPED
from tests.bundles.mutations import packed, sealed, unpacked

pytestmark = pytest.mark.cudnn


@pytest.fixture(scope="module")
def members(made):
    m = made("matmul_epilogue")
    with zipfile.ZipFile(io.BytesIO(bundle(m.run, m.plan, m.blob))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def folder(members, tmp_path):
    unpacked = tmp_path / "bundle"
    unpacked.mkdir()
    for name, data in members.items():
        (unpacked / name).write_bytes(data)
    return unpacked


def start(folder, *arguments, code=None, driver=True):
    """Run the bundle's own loader, where neither the working folder nor the module path knows this repository."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    if driver and fetched_library().exists():
        environment["LD_LIBRARY_PATH"] = str(fetched_library().parent)
    command = [sys.executable, *(["-c", code] if code else ["load_plan.py"]), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def without_gpu():
    return not torch.cuda.is_available()


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
def test_self_test_without_a_gpu_checks_and_loads(folder, made):
    done = start(folder)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(None, 1) for line in reversed(done.stdout.splitlines()))
    assert lines["checksums"] == "8 files, all as SHA256SUMS says"
    assert lines["cuDNN"].startswith(made("matmul_epilogue").run.environment.cudnn_backend)
    assert lines["loaded"].startswith("from its serialized form in")
    assert "onto device properties of NVIDIA H200" in lines["loaded"]
    assert lines["ran"].startswith("no")
    assert done.stdout.count("\ntensor ") == 6


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
@pytest.mark.parametrize("pipeline", ["conv_relu", "matmul", "sdpa"])
def test_every_pipeline_loads_by_its_own_loader(made, tmp_path, pipeline):
    """cuDNN up to 9.20 keeps attention's K as its transpose: the same memory, and no reason to refuse it."""
    m = made(pipeline)
    with zipfile.ZipFile(io.BytesIO(bundle(m.run, m.plan, m.blob))) as archive:
        archive.extractall(tmp_path)
    done = start(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "onto device properties of NVIDIA H200" in done.stdout


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
def test_self_test_takes_a_zip_and_properties(made, tmp_path):
    m = made("conv_bias_relu")
    (tmp_path / "b.zip").write_bytes(bundle(m.run, m.plan, m.blob))
    shutil.copy(loader.__file__, tmp_path / "load_plan.py")
    target = resolve_target("a100")
    (tmp_path / "a100.json").write_text(json.dumps(complete_properties(target.properties, 99999)[0]))
    assert start(tmp_path, "b.zip").returncode == 0
    wrong = start(tmp_path, "b.zip", "--properties", "a100.json")
    assert wrong.returncode == 0, wrong.stderr
    assert "from the heuristics' choice" in wrong.stdout or "from its recipe" in wrong.stdout
    assert "ARCH_MISMATCH" in wrong.stdout
    assert start(tmp_path, "b.zip", "--properties", "missing.json").returncode == 2
    broken = start(tmp_path, "load_plan.py")
    assert broken.returncode == 1 and "cannot be read as a bundle" in broken.stderr
    assert "Traceback" not in broken.stderr


def test_a_program_of_ones_own_loads_it(folder):
    code = """
import json
from load_plan import BundleError, load_plan
plan = load_plan(properties=open("device_properties.json").read())
assert plan.workspace_bytes == plan.file["workspace_bytes"]
assert (plan.way, plan.why) == ("serialized", "")
assert [t["uid"] for t in plan.tensors.values()] == [1, 2, 3, 4, 5, 6]
try:
    plan(A=1 << 20, B=1 << 20, bias=1 << 20)
except BundleError as error:
    print(error)
"""
    done = start(folder, code=code)
    assert done.returncode == 0, done.stderr
    assert "cannot run" in done.stdout
    assert start(folder, code=code).returncode == 0, "the loader's own __pycache__ is no damage"


@pytest.mark.skipif("not without_gpu()", reason="a GPU brings its driver library")
def test_without_the_driver_library_it_says_so(folder):
    done = start(folder, driver=False)
    if "loaded     in" not in done.stdout:  # the system may have one of its own
        assert done.returncode == 0, done.stderr
        assert "libcuda.so.1" in done.stdout
        assert "libcuda.so.1" in start(folder, "--properties", "device_properties.json", driver=False).stderr


def load_here(folder, code, members, path="b.zip"):
    """Run a program of one's own beside a bundle that is written there as a zip."""
    (folder / path).write_bytes(packed(members))
    shutil.copy(loader.__file__, folder / "load_plan.py")
    (folder / "properties.json").write_text(
        json.dumps(complete_properties(resolve_target("h200").properties, 99999)[0])
    )
    done = start(
        folder, code="import json, warnings\nfrom load_plan import *\nP = open('properties.json').read()\n" + code
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WAY = """
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    plan = load_plan("b.zip", properties=P, plan=None)
print(json.dumps([plan.way, plan.why, plan.plan_name, plan.workspace_bytes, [str(one.message) for one in said]]))
"""


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
def test_a_plan_of_another_cudnn_is_built_anew_from_its_recipe_and_it_says_why(members, made, tmp_path):
    """As if this version were another one: what it serialized is not even tried."""
    manifest = {**json.loads(members["manifest.json"]), "cudnn_backend": "9.1.0"}
    other = sealed({**members, "manifest.json": json.dumps(manifest).encode()})
    way, why, name, workspace, said = load_here(tmp_path, WAY, other)
    plan = made("matmul_epilogue").plan
    assert (way, name, workspace) == ("recipe", plan.plan_name, plan.workspace_bytes)
    assert "cuDNN 9.1.0 serialized it" in why and why in said[0] and "taken from its recipe" in said[0]


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
def test_where_the_recipe_fails_too_the_heuristics_choose(members, tmp_path):
    plan = json.loads(members["plan-1.json"])
    plan["recipe"] |= {"engine_id": 9999, "plan_name": "eng9999", "knobs": {"NO_SUCH_KNOB": 1}}
    other = sealed({**members, "plan-1.json": json.dumps(plan).encode(), "plan-1.bin": b"junk"})
    way, why, name, _, said = load_here(tmp_path, WAY, other)
    assert way == "heuristics" and name.startswith("eng") and name != "eng9999"
    assert "The serialized plan does not load" in why and "Its recipe does not build" in why
    assert "eng9999 is taken from the heuristics' choice" in said[0]
    strict = """
try:
    load_plan("b.zip", properties=P, fallback=False)
except BundleError as error:
    print(json.dumps(str(error)))
"""
    assert "does not load this plan" in load_here(tmp_path, strict, other)


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
@pytest.mark.parametrize("pipeline", ["conv_bias_relu", "sdpa"])
def test_the_calls_of_every_kind_of_graph_build_its_plan(made, tmp_path, pipeline):
    m = made(pipeline)
    members = unpacked(bundle(m.run, m.plan, m.blob))
    way, _, name, workspace, _ = load_here(tmp_path, WAY, sealed({**members, "plan-1.bin": b"junk"}))
    assert (way, name, workspace) == ("recipe", m.plan.plan_name, m.plan.workspace_bytes)


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
def test_of_several_shapes_a_call_picks_by_dims(planned, tmp_path):
    parts = [planned("matmul", n=n) for n in (8, 16)]
    members = unpacked(bundle_of(parts))
    code = """
class Array:
    def __init__(self, *shape):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<V2", "strides": None, "data": (1 << 20, False)}
plans = load_plan("b.zip", properties=P)
told = []
for given in ({"A": Array(8, 256, 512), "B": Array(8, 512, 16)}, {1: Array(8, 256, 512), 2: Array(8, 512, 8)},
              {"B": Array(8, 512, 99)}, {"A": Array(8, 256, 512)}, {"A": 1 << 20}):
    try:
        plans(given)
    except BundleError as error:
        told.append(str(error))
one = load_plan("b.zip", properties=P, dims={"B": (8, 512, 16)})
other = load_plan("b.zip", properties=P, dims={"B": (8, 512, 16)}, plan=LAST)
print(json.dumps([told, one.tensors["B"]["dims"], one.plan_name, other.plan_name, len(plans._loaded)]))
"""
    last = parts[1].plans[-1]
    told, dims, name, other, loaded = load_here(tmp_path, code.replace("LAST", repr(last.key)), members)
    assert "without a GPU: it cannot run" in told[0] and "without a GPU: it cannot run" in told[1]
    assert told[2].startswith("0 graphs") and told[3].startswith("2 graphs") and told[4].startswith("2 graphs")
    assert (dims, name, other, loaded) == ([8, 512, 16], parts[1].plans[0].plan_name, last.plan_name, 2)


def test_without_the_cudnn_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cudnn", None)
    with pytest.raises(loader.BundleError, match=r"pip install .*==1\.2\.3"):
        loader.import_cudnn("1.2.3")


def test_where_the_cudnn_package_finds_no_library_it_says_what_to_install(monkeypatch):
    def backend_version_string():
        raise RuntimeError("Unable to find symbol cudnnGetVersion")

    monkeypatch.setitem(sys.modules, "cudnn", SimpleNamespace(backend_version_string=backend_version_string))
    with pytest.raises(loader.BundleError, match=r"finds no cuDNN \(Unable .* pip install .*==1\.2\.3"):
        loader.import_cudnn("1.2.3")


@pytest.mark.skipif("not without_gpu()", reason="says what it does without a GPU")
def test_a_cudnn_package_without_what_its_own_heuristics_import_is_a_reason(members, tmp_path):
    """As after ``pip install --no-deps``: the frontend's heuristics then end in an ImportError."""
    code = """
import cudnn
def lacking(self, modes):
    raise ModuleNotFoundError("No module named 'cuda'")
cudnn.pygraph.create_execution_plans = lacking
try:
    load_plan("b.zip", properties=P)
except BundleError as error:
    print(json.dumps(str(error)))
"""
    plan = json.loads(members["plan-1.json"])
    plan["recipe"] |= {"engine_id": 9999, "plan_name": "eng9999", "knobs": {"NO_SUCH_KNOB": 1}}
    other = sealed({**members, "plan-1.json": json.dumps(plan).encode(), "plan-1.bin": b"junk"})
    assert "Nor do the heuristics give a plan: No module named 'cuda'." in load_here(tmp_path, code, other)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"5", b"\xff", b"[" * 50_000, b'{"format": 1, "version": 1}']
)
def test_what_is_whole_but_no_bundle_is_named_as_that(members, tmp_path, data):
    for name in ("manifest.json", "graph-1.json", "plan-1.json"):
        for other in ({**members, name: data}, {k: v for k, v in members.items() if k != name}):
            other["SHA256SUMS"] = "".join(
                f"{hashlib.sha256(other[member]).hexdigest()}  {member}\n"
                for member in sorted(other)
                if member != "SHA256SUMS"
            ).encode()
            path = tmp_path / "other.zip"
            with zipfile.ZipFile(path, "w") as archive:
                for member, content in other.items():
                    archive.writestr(member, content)
            with pytest.raises(loader.BundleError, match=r"no bundle of a plan|this loader reads"):
                loader.load_plan(path)


def test_a_run_file_is_no_bundle(capsys):
    recording = min(SHIPPED.glob("*.zip"))
    assert loader.main([str(recording)]) == 1
    assert "no bundle of a plan" in capsys.readouterr().err


def test_every_mutation_of_a_member_is_noticed(members):
    """400 mutations: flipped bits, cut ends, inserted bytes, swapped members, in every member."""
    loader.verify(members)
    rng = random.Random(20260301)
    names = sorted(members)
    for trial in range(400):
        name = names[trial % len(names)]
        data = bytearray(members[name])
        at = rng.randrange(len(data))
        kind = trial // len(names) % 4
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data.insert(at, rng.randrange(256))
        else:
            data = bytearray(members[rng.choice([other for other in names if other != name])])
        with pytest.raises(loader.BundleError):
            loader.verify({**members, name: bytes(data)})


@pytest.mark.parametrize("name", ["plan-1.bin", "SHA256SUMS", "load_plan.py"])
def test_a_missing_member_is_noticed(members, folder, name):
    (folder / name).unlink()
    with pytest.raises(loader.BundleError, match=name):
        loader.read_members(folder)


def test_an_unlisted_member_is_noticed(folder):
    (folder / "evil.py").write_text("")
    with pytest.raises(loader.BundleError, match=r"evil\.py"):
        loader.read_members(folder)
    (folder / "evil.py").unlink()
    (folder / "more").mkdir()
    with pytest.raises(loader.BundleError, match="more"):
        loader.read_members(folder)


def test_sums_in_another_form_are_refused(members):
    lines = members["SHA256SUMS"].decode().splitlines(keepends=True)
    for other in (reversed(lines), [*lines, lines[0]], [line.upper() for line in lines], [*lines, "\n"]):
        with pytest.raises(loader.BundleError):
            loader.verify({**members, "SHA256SUMS": "".join(other).encode()})


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_with_a_name_twice_is_refused(members, tmp_path):
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        for name, data in [*members.items(), ("plan-1.bin", members["plan-1.bin"])]:
            archive.writestr(name, data)
    with pytest.raises(loader.BundleError, match="one name"):
        loader.read_members(tmp_path / "twice.zip")


def test_a_zip_that_unpacks_to_too_much_is_refused_unread(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(name, bytes(400_000))
    monkeypatch.setattr(loader, "SIZE_LIMIT", 1_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(loader.BundleError, match="unpacks to more than 1,000,000 bytes"):
        loader.read_members(tmp_path / "bomb.zip")


DECLARED = {
    "name": "A", "uid": 1, "dims": [2, 1, 8], "strides": [8, 8, 1], "torch_dtype": "bfloat16", "role": "input",
}  # fmt: skip


def told(tensor, device=None):
    with pytest.raises(loader.BundleError) as caught:
        loader._address(tensor, DECLARED, device)
    return str(caught.value)


def test_a_tensor_that_is_as_declared_gives_its_address():
    tensor = torch.zeros(2, 1, 8, dtype=torch.bfloat16)
    assert loader._address(tensor, DECLARED, None) == tensor.data_ptr()
    odd = tensor.as_strided((2, 1, 8), (8, 999, 1))  # the stride of a single element does not matter
    assert loader._address(odd, DECLARED, None) == tensor.data_ptr()
    assert loader._address(4096, DECLARED, 0) == 4096


def test_a_tensor_that_is_not_says_what_is_wrong():
    assert "device cpu, not cuda:0" in told(torch.zeros(2, 1, 8, dtype=torch.bfloat16), 0)
    assert "dims (2, 8), not (2, 1, 8)" in told(torch.zeros(2, 8, dtype=torch.bfloat16))
    assert "type float16, not bfloat16" in told(torch.zeros(2, 1, 8, dtype=torch.float16))
    told_strides = told(torch.zeros(8, 1, 2, dtype=torch.bfloat16).transpose(0, 2))
    assert "strides (1, 8, 2), not (8, 8, 1)" in told_strides
    assert "The plan takes it with dims (2, 1, 8), strides (8, 8, 1), type bfloat16" in told_strides
    assert "not a multiple of 16" in told(torch.zeros(32, dtype=torch.bfloat16)[1:17].view(2, 1, 8))
    assert "0x0" in told(0)
    assert "a list is neither" in told([1, 2])


class Array:
    """What cupy or numba give."""

    def __init__(self, shape, typestr, strides=None, address=1 << 20):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "strides": strides,
            "data": (address, False),
        }


def test_arrays_by_the_cuda_array_interface():
    declared = {**DECLARED, "torch_dtype": "float16"}
    assert loader._address(Array((2, 1, 8), "<f2"), declared, 0) == 1 << 20
    assert loader._address(Array((2, 1, 8), "<f2", (16, 16, 2)), declared, 0) == 1 << 20
    assert loader._address(Array((2, 1, 8), "<V2"), DECLARED, 0) == 1 << 20
    for wrong in (Array((2, 1, 8), "<f4"), Array((2, 8), "<f2"), Array((2, 1, 8), "<f2", (32, 16, 2))):
        with pytest.raises(loader.BundleError):
            loader._address(wrong, declared, 0)


def test_a_workspace_that_is_too_small_is_refused():
    assert loader._workspace_address(None, 0) == 0
    assert loader._workspace_address(4096, 100) == 4096
    enough = torch.empty(100, dtype=torch.uint8)
    assert loader._workspace_address(enough, 100) == enough.data_ptr()
    for workspace in (torch.empty(99, dtype=torch.uint8), 0, None):
        with pytest.raises(loader.BundleError, match="the plan needs 100"):
            loader._workspace_address(workspace, 100)


def test_scalars_are_written_in_their_own_type():
    assert bytes(loader._scalar({"torch_dtype": "float32"}, 0.125)) == b"\x00\x00\x00\x3e"
    assert bytes(loader._scalar({"torch_dtype": "float16"}, 0.125)) == b"\x00\x30"


def test_tensors_go_by_name_or_uid(members):
    plan = object.__new__(loader.Plan)
    plan.tensors = {t["name"]: t for t in json.loads(members["graph-1.json"])["tensors"]}
    assert plan._by_name({1: "a", "B": "b", 3: "c"}) == {"A": "a", "B": "b", "bias": "c"}
    for given, told in (({"A": 1}, "B, bias"), ({"A": 1, 1: 1, 2: 1, 3: 1}, "given twice"), ({"Z": 1}, "no tensor")):
        with pytest.raises(loader.BundleError, match=told):
            plan._by_name(given)


class Graph:
    """Stands for the loaded graph where there is no GPU: keeps what it is executed with, and reads scalars as cuDNN
    does, from the host while it is called."""

    def __init__(self):
        self.calls = []

    def execute(self, pointers, workspace, handle):
        alpha = struct.unpack("<f", ctypes.string_at(pointers[4], 4))[0]
        self.calls.append(({uid: pointer for uid, pointer in pointers.items() if uid != 4}, alpha, workspace, handle))


class Cudnn:
    """Keeps the streams that were set."""

    def __init__(self):
        self.streams = []

    def set_stream(self, handle, stream):
        self.streams.append(stream)


@pytest.fixture
def loaded(members):
    plan = object.__new__(loader.Plan)
    plan.manifest = json.loads(members["manifest.json"])
    plan.tensors = {t["name"]: t for t in json.loads(members["graph-1.json"])["tensors"]}
    plan._cudnn, plan._graph, plan._handle, plan._torch, plan.device = Cudnn(), Graph(), "handle", None, None
    plan.workspace_bytes = 64
    return plan


def tensors_of(plan):
    return {
        name: torch.empty_strided(t["dims"], t["strides"], dtype=getattr(torch, t["torch_dtype"]))
        for name, t in plan.tensors.items()
        if t["role"] != "scalar"
    }


def test_a_call_passes_every_address_once_and_fills_in_scalars(loaded):
    tensors, workspace = tensors_of(loaded), torch.empty(64, dtype=torch.uint8)
    outputs = loaded(tensors, workspace=workspace, stream=4711)
    assert outputs == {"C": tensors["C"], "amax": tensors["amax"]}
    addresses = {loaded.tensors[name]["uid"]: tensor.data_ptr() for name, tensor in tensors.items()}
    assert loaded._graph.calls == [(addresses, 0.125, workspace.data_ptr(), "handle")]
    by_uid = {loaded.tensors[name]["uid"]: tensor for name, tensor in tensors.items()}
    loaded(by_uid, workspace=workspace.data_ptr(), alpha=0.5)
    assert loaded._graph.calls[1] == (addresses, 0.5, workspace.data_ptr(), "handle")
    assert loaded._cudnn.streams == [4711, 0]


def test_what_torch_would_make_must_be_given_without_it(loaded):
    tensors = tensors_of(loaded)
    with pytest.raises(loader.BundleError, match="a workspace must be given"):
        loaded(tensors)
    del tensors["amax"]
    with pytest.raises(loader.BundleError, match="the tensor amax must be given"):
        loaded(tensors, workspace=4096)
    assert loaded._graph.calls == []
