"""Targets: what is shipped, what a person may name, and every way a properties file can be broken."""

import json

import pytest

from engine.graph.errors import InvalidInput
from engine.plans import targets
from engine.plans.properties import DeviceProperties, check_properties, complete_properties, parse_properties
from engine.plans.targets import local_target, resolve_target, shipped_targets, target_from_file, target_from_properties
from engine.records.environment import GpuInfo
from engine.records.run import Source

H200 = resolve_target("h200")
REQUIRED = [name for name, field in DeviceProperties.model_fields.items() if field.is_required()]


def properties(**changes):
    return {**H200.properties, **changes}


def refused(data):
    """The fields that are named when a file of these bytes is given, and all that is said."""
    with pytest.raises(InvalidInput) as raised:
        target_from_file(data if isinstance(data, bytes) else json.dumps(data).encode())
    assert all(error.rule and error.remedy for error in raised.value.errors)
    return [error.field for error in raised.value.errors], str(raised.value)


def test_the_five_gpus_are_shipped_and_say_where_they_come_from():
    found = {t.info.name: (t.info.sm, t.info.source) for t in shipped_targets()}
    spec = Source.SPECIFICATION
    assert found == {
        "h200": (90, Source.READ_OFF),
        "a100": (80, spec),
        "b200": (100, spec),
        "l4": (89, spec),
        "rtx5090": (120, spec),
    }
    assert shipped_targets()[0].info.name == "h200"
    assert all(not t.is_local and t.properties["deviceName"] == t.info.gpu_name for t in shipped_targets())


@pytest.mark.parametrize("text", ["h200", " H200 ", "H200\n"])
def test_a_shipped_target_is_found_however_it_is_written(text):
    assert resolve_target(text) is H200


@pytest.mark.parametrize("text", ["", "h100", "../h200", "h200.json", "/", "loca", "h200;b200", "x" * 300])
def test_a_target_that_does_not_exist_is_refused_with_the_names_there_are(text):
    with pytest.raises(InvalidInput) as raised:
        resolve_target(text)
    (error,) = raised.value.errors
    assert error.field == "target"
    assert all(name in error.remedy for name in ("h200", "a100", "l4", "b200", "rtx5090", "local"))


def test_without_a_gpu_local_says_so(monkeypatch):
    monkeypatch.setattr(targets, "list_gpus", lambda: ())
    with pytest.raises(InvalidInput, match="no GPU"):
        resolve_target("local")


def test_a_gpu_of_this_machine_is_named_by_number_or_uuid(monkeypatch):
    gpus = tuple(
        GpuInfo(name="NVIDIA H200", uuid=f"GPU-{n}", compute_capability="9.0", sm_count=132, memory_bytes=1 << 37)
        for n in range(2)
    )
    monkeypatch.setattr(targets, "list_gpus", lambda: gpus)
    assert resolve_target("local").gpu_uuid == "GPU-0"
    assert resolve_target("LOCAL:1").gpu_uuid == "GPU-1"
    assert resolve_target("local:GPU-1").info.name == "local:1"
    assert resolve_target("local").is_local and resolve_target("local").info.source is Source.DEVICE
    with pytest.raises(InvalidInput, match="no such GPU"):
        resolve_target("local:2")


@pytest.mark.parametrize(("capability", "sm"), [("9.0", 90), ("12.0", 120), ("8.9", 89), ("7.5", 75)])
def test_compute_capability_becomes_sm(capability, sm):
    gpu = GpuInfo(name="A GPU", compute_capability=capability, sm_count=1, memory_bytes=1)
    assert local_target(gpu).info.sm == sm


def test_a_file_is_a_target_under_its_own_name(tmp_path):
    file = tmp_path / "workstation.json"
    file.write_text(json.dumps(properties(deviceName="NVIDIA Something")))
    target = resolve_target(str(file))
    assert (target.info.name, target.info.gpu_name) == ("workstation", "NVIDIA Something")
    assert target.info.source is Source.FILE
    assert target.properties == properties(deviceName="NVIDIA Something")


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    for path, why in ((tmp_path / "gone.json", "No such file"), (tmp_path, "directory")):
        with pytest.raises(InvalidInput, match=why):
            resolve_target(f"{path}/" if path.is_dir() else str(path))


def test_a_file_that_is_no_properties_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # A long path is told shortened.
    file = tmp_path / "notes.json"
    for data in (b"hello", b"[]", b" " * 70_000):
        file.write_bytes(data)
        with pytest.raises(InvalidInput) as raised:
            resolve_target("./notes.json")
        assert raised.value.errors[0].value == "notes.json"


def test_a_byte_order_mark_does_not_matter(tmp_path):
    file = tmp_path / "windows.json"
    file.write_text(json.dumps(properties()), encoding="utf-8-sig")
    assert resolve_target(str(file)).properties == properties()


@pytest.mark.parametrize("key", REQUIRED)
def test_each_missing_key_is_named(key):
    fields, told = refused({k: v for k, v in properties().items() if k != key})
    assert fields == [key] and f"{key} = missing" in told


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deviceVer", "900"),
        ("deviceVer", 90),
        ("deviceVer", 905),
        ("deviceVer", True),
        ("deviceVer", 9.0),
        ("deviceVer", None),
        ("multiProcessorCount", 0),
        ("multiProcessorCount", -1),
        ("totalGlobalMem", 0),
        ("totalGlobalMem", 2**60),
        ("maxGridSize", [1, 2]),
        ("maxGridSize", 5),
        ("warpSize", 64),
        ("isTccDriver", 2),
        ("deviceName", ""),
        ("deviceName", 5),
        ("deviceName", "a\x1b[31m"),
        ("pciDeviceId", 2**40),
        ("memoryBusWidth", 0),
        ("smClockRateKHz", 2**40),
    ],
)
def test_each_wrong_value_is_named_with_its_key_and_value(key, value):
    fields, told = refused(properties(**{key: value}))
    assert fields == [key] and str(value) in told


def test_a_wrong_member_of_a_list_is_named_by_its_place():
    fields, _ = refused(properties(maxBlockSize=[1024, "x", 64]))
    assert fields == ["maxBlockSize[1]"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"[1]", "one JSON object"),
        (b"5", "one JSON object"),
        (b" " * 70_000, "at most"),
    ],
    ids=["empty", "binary", "truncated", "deep", "list", "number", "huge"],
)
def test_what_is_no_properties_file_is_refused(data, why):
    fields, told = refused(data)
    assert fields == ["target"] and why in told


def test_several_wrong_keys_are_all_named():
    fields, _ = refused(properties(deviceVer="x", warpSize=1))
    assert fields == ["deviceVer", "warpSize"]


def test_a_key_of_a_newer_version_passes_through():
    given = properties(somethingNew={"a": 1.5})
    assert check_properties(given)["somethingNew"] == {"a": 1.5}
    target = target_from_properties(given, "new")
    assert type(target).model_validate_json(target.model_dump_json()) == target


def test_the_bus_width_is_added_only_where_a_version_wants_it():
    assert complete_properties(H200.properties, 92000) == (H200.properties, ())
    assert complete_properties(H200.properties, 92800) == (properties(memoryBusWidth=6144), ())
    own = properties(memoryBusWidth=77)
    assert complete_properties(own, 92800) == (own, ())


@pytest.mark.parametrize(("gib", "bits"), [(192, 6144), (80, 5120), (24, 384), (16, 256)])
def test_an_unknown_gpu_gets_a_bus_width_by_its_memory_and_says_so(gib, bits):
    given = properties(deviceName="NVIDIA Mystery", totalGlobalMem=gib << 30)
    completed, assumptions = complete_properties(given, 92801)
    assert completed["memoryBusWidth"] == bits
    (told,) = assumptions
    assert "NVIDIA Mystery" in told and "memoryBusWidth" in told and str(bits) in told


def test_what_cudnn_writes_is_read_back():
    assert parse_properties(json.dumps(H200.properties).encode()) == H200.properties
