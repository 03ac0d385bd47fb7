"""Run files: the same bytes for the same run, and nothing but InvalidInput for anything that is none."""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.graph.errors import InvalidInput
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord, RunStatus
from engine.runs import archive_reading
from engine.runs.archive import export_run, import_run, pack
from engine.runs.archive_reading import read_run_file
from engine.runs.store import Store, StoreError
from engine.runs.summary import Origin

BLOBS = [b"a small plan", bytes(range(256)) * 40]


@pytest.fixture
def whole(make: SimpleNamespace) -> RunRecord:
    """A run of three plans, two of them with blobs."""
    plans = (make.plan(0, 12.0, blob=BLOBS[0]), make.plan(1, 9.0, blob=BLOBS[1]), make.plan(2, status=Status.TIMEOUT))
    return make.run("matmul_epilogue", plans=plans)


@pytest.fixture
def packed(whole: RunRecord) -> bytes:
    """Its run file."""
    return pack(whole, {hashlib.sha256(blob).hexdigest(): blob for blob in BLOBS})


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def zipped(members: dict[str, bytes], sums: bool = True) -> bytes:
    """A zip of these members, with SHA256SUMS that fit them."""
    members = dict(members)
    if sums:
        listed = {name: data for name, data in members.items() if name != "SHA256SUMS"}
        lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(listed.items())]
        members["SHA256SUMS"] = "".join(lines).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def with_run(packed: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The run file with a changed run.json and sums that fit it."""
    members = members_of(packed)
    content = json.loads(members["run.json"])
    change(content)
    return zipped({**members, "run.json": json.dumps(content).encode()})


def refused(data: bytes) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        read_run_file(data)
    for error in caught.value.errors:
        assert error.field and error.rule and error.remedy, error
    return caught.value


def test_out_and_in_again(tmp_path: Path, whole: RunRecord, packed: bytes) -> None:
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        for blob in BLOBS:
            one.put_blob(blob)
        one.create_run(whole)
        exported = export_run(one, whole.id)
        assert exported == export_run(one, whole.id) == packed
        imported = import_run(two, exported)
        assert (imported.id, imported.already, imported.original_id) == (whole.id, False, None)
        assert two.get(whole.id) == whole
        assert two.summary(whole.id).origin is Origin.IMPORTED and not two.summary(whole.id).recorded
        assert [two.get_blob(p.blob_sha256) for p in whole.plans if p.blob_sha256] == BLOBS
        assert export_run(two, whole.id) == exported
        two.delete(whole.id)
        assert list(two.blob_dir.iterdir()) == []


def test_sha256sum_reads_the_sums(tmp_path: Path, packed: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.count(": OK") == 3


def test_importing_twice_adds_nothing(store: Store, packed: bytes, whole: RunRecord) -> None:
    import_run(store, packed)
    store.rename(whole.id, "mine now")
    again = import_run(store, packed)
    assert (again.id, again.already) == (whole.id, True)
    assert len(store.summaries()) == 1 and store.summary(whole.id).title == "mine now"


def test_another_run_of_the_same_id_gets_a_new_one(store: Store, packed: bytes, whole: RunRecord) -> None:
    store.create_run(whole.model_copy(update={"plans": ()}))
    for already in (False, True):
        imported = import_run(store, packed)
        assert imported.id != whole.id and (imported.original_id, imported.already) == (whole.id, already)
    assert store.get(whole.id).plans == ()
    assert store.get(imported.id) == whole.model_copy(update={"id": imported.id})
    assert len(store.summaries()) == 2


def test_a_run_under_way_is_not_exported(store: Store, make: SimpleNamespace) -> None:
    run = make.run(status=RunStatus.RUNNING)
    store.create_run(run)
    with pytest.raises(InvalidInput, match="is running"):
        export_run(store, run.id)


def test_a_run_whose_blob_is_damaged_is_not_exported(store: Store, whole: RunRecord) -> None:
    for blob in BLOBS:
        store.put_blob(blob)
    store.create_run(whole)
    (store.blob_dir / whole.plans[0].blob_sha256).write_bytes(b"a small plam")
    with pytest.raises(StoreError, match="damaged"):
        export_run(store, whole.id)


def test_not_a_run_file(packed: bytes) -> None:
    for data in (b"", b"PK", b"{}", random.Random(0).randbytes(5000), packed[: len(packed) // 2]):
        assert refused(data).errors[0].field == "run file"
    assert refused(zipped({"word/document.xml": b"<x/>"})).errors[0].field == "word/document.xml"


@pytest.mark.parametrize(
    "name",
    ["../run.json", "/run.json", "blobs/../../x", "blobs\\x", "C:\\x", "blobs/", "RUN.JSON", "blobs/" + "A" * 64],
)
def test_names_that_are_not_its_own(packed: bytes, name: str) -> None:
    error = refused(zipped({**members_of(packed), name: b"x"})).errors[0]
    assert error.field.startswith(name[:10]) and "no other names" in error.rule


def test_control_characters_in_a_name_are_not_repeated(packed: bytes) -> None:
    assert "\x1b" not in str(refused(zipped({**members_of(packed), "\x1b[2Jx": b"x"})))


def test_a_member_twice(packed: bytes) -> None:
    file = io.BytesIO(packed)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("run.json", b"{}")
    assert "twice" in str(refused(file.getvalue()))


def test_members_missing_and_too_many(packed: bytes, whole: RunRecord) -> None:
    members = members_of(packed)
    first = f"blobs/{whole.plans[0].blob_sha256}"
    without = {name: data for name, data in members.items() if name != first}
    assert refused(zipped(without)).errors[0].field == first
    assert refused(zipped(without, sums=False)).errors[0].field == first
    for name in ("run.json", "SHA256SUMS"):
        missing = zipped({n: d for n, d in members.items() if n != name}, sums=False)
        assert refused(missing).errors[0].field == name
    extra = f"blobs/{hashlib.sha256(b'more').hexdigest()}"
    assert "no plan refers" in str(refused(zipped({**members, extra: b"more"})))
    assert "every member stands in" in str(refused(zipped({**members, extra: b"more"}, sums=False)))


def test_digests(packed: bytes, whole: RunRecord) -> None:
    members, name = members_of(packed), f"blobs/{whole.plans[0].blob_sha256}"
    assert "damaged or changed" in str(refused(zipped({**members, name: b"another plan"}, sums=False)))
    assert "named by its SHA-256" in str(refused(zipped({**members, name: b"another plan"})))
    for sums in (b"\xff\xfe", b"nonsense", members["SHA256SUMS"] * 2):
        assert refused(zipped({**members, "SHA256SUMS": sums}, sums=False)).errors[0].field == "SHA256SUMS"


def test_links_and_encryption(packed: bytes) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members_of(packed).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if name == "run.json" else 0o100644) << 16
            archive.writestr(info, data)
    assert refused(file.getvalue()).errors[0].field == "run.json"
    data = bytearray(packed)
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    assert "not encrypted" in str(refused(bytes(data)))


def test_bombs(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    members = members_of(packed)
    bomb = b"\0" * (8 << 20)
    name = f"blobs/{hashlib.sha256(bomb).hexdigest()}"
    assert "times its packed size" in str(refused(zipped({**members, name: bomb})))
    assert "may unpack to 16,777,216" in str(refused(zipped({**members, "run.json": b" " * (17 << 20)})))
    monkeypatch.setattr(archive_reading, "MAX_TOTAL_BYTES", 5000)
    assert "5,000 bytes" in str(refused(packed))
    monkeypatch.setattr(archive_reading, "MAX_MEMBERS", 3)
    assert "at most 3" in str(refused(packed))
    monkeypatch.setattr(archive_reading, "MAX_FILE_BYTES", 1000)
    assert "at most 1,000" in str(refused(packed))


def test_a_member_longer_than_it_says(packed: bytes) -> None:
    """The directory understates a size: what comes out is never more than was judged."""
    data = bytearray(packed)
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 10)
    refused(bytes(data))


def test_many_overlapping_members_cannot_multiply(packed: bytes) -> None:
    """Directory entries that all point to the same data are counted at what they unpack to."""
    file = io.BytesIO()
    blob = random.Random(1).randbytes(1000)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run.json", blob)
        for i in range(300):
            info = zipfile.ZipInfo(f"blobs/{i:064x}")
            info.header_offset = 0
            info.CRC, info.file_size, info.compress_size = archive.infolist()[0].CRC, 1 << 20, 1000
            archive.filelist.append(info)
    refused(file.getvalue())


def confirmation(winner: str, first_pick: dict[str, Any]) -> dict[str, Any]:
    """One of a plan against the one given; neither could be timed."""
    return {"winner": winner, "first_pick": str(first_pick["identity"]["engine_id"]), "message": "the GPU is gone"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda r: r.update(format_version=3), "run.json: format_version"),
        (lambda r: r.pop("graph"), "run.json: graph"),
        (lambda r: r.update(surprise=1), "run.json: surprise"),
        (lambda r: r.update(id="../x"), "run.json: id"),
        (lambda r: r.update(started_at="2026-03-01T12:00:00"), "run.json: started_at"),
        (lambda r: r.update(started_at="0001-01-01T00:00:00+14:00"), "run.json"),
        (lambda r: r.update(status="running"), "run.json: status"),
        (lambda r: r.update(pipeline="conv_transpose"), "run.json: pipeline"),
        (lambda r: r["parameters"].update(m="0"), "run.json: m"),
        (lambda r: r["parameters"].update(m="513"), "run.json: graph"),
        (lambda r: r["parameters"].update(zz="1"), "run.json: zz"),
        (lambda r: r["graph"]["tensors"][0].update(dims=[16, 512, 1023]), "run.json: graph"),
        (lambda r: r["graph"]["tensors"][0].update(dims=[16], strides=[1]), "run.json: graph"),
        (lambda r: r["graph"]["tensors"][0].update(dims=[10**4000] * 3, strides=[10**4000] * 3), "run.json"),
        (lambda r: r["plans"][0].update(status="wrong_result", message="x"), "run.json: plans.0"),
        (lambda r: r["plans"][0]["timings"]["hot"].update(data="AAAA"), "run.json: plans.0.timings.hot.data"),
        (lambda r: r["plans"][0]["timings"]["hot"].update(data="é"), "run.json: plans.0.timings.hot.data"),
        (lambda r: r["plans"][0]["timings"]["hot"].update(data="nsl/f57Jf38="), "run.json: plans.0.timings.hot.data"),
        (lambda r: r["plans"][0].update(message="x" * 70_000), "run.json: plans.0.message"),
        (lambda r: r["environment"].update(host="x" * 70_000), "run.json: environment.host"),
        (lambda r: r["plans"][0].update(blob_bytes=13), "run.json: blob_bytes"),
        (lambda r: r["plans"][0].update(workspace_bytes=2**63), "run.json: plans.0.workspace_bytes"),
        (lambda r: r["plans"][0]["modes"].update(A=-(10**400)), "run.json: plans.0.modes.A"),
        (lambda r: r["plans"][0].update(build_ms=float("inf")), "run.json: plans.0.build_ms"),
        (lambda r: r["plans"][0]["accuracy"][0].update(max_abs=float("inf")), "run.json: plans.0.accuracy"),
        (lambda r: r["plans"].append(r["plans"][0]), "run.json: plans"),
        (lambda r: r.update(kind="plan"), "run.json: plans"),
        (lambda r: r["environment"].update(gpu=None), "run.json: plans"),
        (lambda r: r.update(confirmation=confirmation("7", r["plans"][0])), "run.json: confirmation"),
        (lambda r: r.update(phases={"build_s": float("inf")}), "run.json: phases.build_s"),
        (lambda r: r.update(phases={"build_s": -1.0}), "run.json: phases.build_s"),
        (lambda r: r.update(title="x" * 201), "run.json: title"),
        (lambda r: r.update(title="\ud800"), "run.json"),
        (lambda r: r["environment"].update(host="\udfff"), "run.json"),
    ],
)
def test_a_record_that_is_none(packed: bytes, change: Callable[[dict[str, Any]], Any], field: str) -> None:
    error = refused(with_run(packed, change))
    assert error.errors[0].field.startswith(field)
    assert not re.search(r"{'|b'|Value error", str(error)), "no programmer's words"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"format_version":1,"x":' * 20_000,
        b'{"format_version":1,"format_version":' + b"9" * 10_000 + b"}",
        b'{"format_version":"1"}',
    ],
)
def test_text_that_is_no_record(packed: bytes, text: bytes) -> None:
    assert refused(zipped({**members_of(packed), "run.json": text})).errors[0].field.startswith("run.json")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The way files break: bits flip, bytes change, ends are lost, pieces are doubled, moved, zeroed or put in."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(out))
        if rng.random() < 0.5:  # where a zip's structure is
            marks = [i for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") for i in _find_all(out, mark)]
            at = min(len(out) - 1, rng.choice(marks or [at]) + rng.randrange(46))
        end = min(len(out), at + rng.randrange(1, 200))
        kind = rng.randrange(7)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at:end]
        elif kind == 4:
            out[at:at] = out[at:end]
        elif kind == 5:
            out[at:end] = bytes(end - at)
        else:
            out[at:at] = rng.randbytes(rng.randrange(1, 50))
        if not out:
            return b""
    return bytes(out)


def _find_all(data: bytearray, mark: bytes) -> list[int]:
    found, at = [], data.find(mark)
    while at >= 0:
        found.append(at)
        at = data.find(mark, at + 1)
    return found


def survives(data: bytes, original: RunRecord) -> bool:
    """Whether it reads as an equal run; anything but that or InvalidInput fails the test."""
    try:
        file = read_run_file(data)
    except InvalidInput as error:
        assert all(e.field and e.rule and e.remedy for e in error.errors)
        return False
    assert file.run == original and sorted(file.blobs.values()) == sorted(BLOBS)
    return True


def test_2000_damaged_files(packed: bytes, whole: RunRecord) -> None:
    rng = random.Random(20260301)
    same = sum(survives(mutated(packed, rng), whole) for _ in range(2000))
    assert same < 400  # damage where nothing is looked at, such as dates of members


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [path, *(leaf for key, item in items for leaf in _leaves(item, (*path, key)))]
    return [path]


STRANGE: list[Any] = [
    None, True, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, float("nan"), float("inf"), "", "0", "x", "none", "\0", "é" * 100,
    [], [[]], {}, {"a": 1}, [1], [0, 0, 0], "../../x", "2026-01-01T00:00:00Z",
]  # fmt: skip


def test_400_strange_records(packed: bytes, store: Store) -> None:
    """Valid zips with right digests around a record in which one value was exchanged: refused, or kept and readable."""
    rng = random.Random(7)
    content = json.loads(members_of(packed)["run.json"])
    paths = [path for path in _leaves(content) if path]
    kept = 0
    for _ in range(400):
        path, value = rng.choice(paths), rng.choice(STRANGE)

        def change(record: dict[str, Any], path: tuple[Any, ...] = path, value: Any = value) -> None:
            for key in path[:-1]:
                record = record[key]
            record[path[-1]] = value

        try:
            imported = import_run(store, with_run(packed, change))
        except InvalidInput:
            continue
        kept += 1
        assert isinstance(store.get(imported.id), RunRecord) and store.summary(imported.id)
    assert len(store.summaries()) <= kept < 200


def test_every_status_goes_out_and_in(tmp_path: Path, make: SimpleNamespace) -> None:
    plans: tuple[PlanRecord, ...] = tuple(make.plan(i, status=status) for i, status in enumerate(Status))
    for status in (RunStatus.DONE, RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.INTERRUPTED):
        run = make.run("sdpa", status=status, plans=plans, title="ünïcode ×")
        assert read_run_file(pack(run, {})).run == run
