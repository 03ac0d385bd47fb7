"""Reading a bundle that anybody may have made: what is whole is read, and nothing else."""

from __future__ import annotations

import json
import random
import time
import zipfile

import pytest

from engine.bundles import load_plan as loader
from engine.bundles.export import Part, bundle, bundle_of, default_plan
from engine.bundles.reading import read_bundle
from engine.graph.errors import InvalidInput
from engine.runs.recordings import SHIPPED
from tests.bundles.mutations import KINDS, mutant, packed, sealed, unpacked

pytestmark = pytest.mark.cudnn
SEED, COUNT = 20260301, 10_000


@pytest.fixture(scope="module")
def whole(made):
    m = made("conv_bias_relu")
    return bundle(m.run, m.plan, m.blob)


def refused(data, match="."):
    with pytest.raises(InvalidInput, match=match) as caught:
        read_bundle(data)
    return caught.value


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("*.zip")))
def test_bundles_of_every_recording_are_read_back(recorded, name):
    run, blobs = recorded(name)
    plan, why = default_plan(run)
    told, forms = read_bundle(bundle_of([Part(run, (plan,), blobs, why)]))
    (graph,) = told.graphs
    assert graph.graph.spec == run.graph and graph.run.chosen == why
    assert graph.plans[0].file.record == plan
    assert forms == {plan.blob_sha256: blobs[plan.blob_sha256]}
    assert told.remarks == ()


def test_several_plans_and_graphs_are_read_back(planned):
    parts = [planned("matmul", n=n) for n in (8, 16)]
    told, forms = read_bundle(bundle_of(parts))
    assert [graph.number for graph in told.graphs] == [1, 2]
    for graph, part in zip(told.graphs, parts, strict=True):
        assert [plan.file.record for plan in graph.plans] == list(part.plans)
        assert {plan.blob_sha256 for plan in part.plans} <= set(forms)


def test_graphs_that_a_loader_cannot_tell_apart_are_refused(planned, monkeypatch):
    monkeypatch.setattr("engine.bundles.export._check_together", lambda parts: None)
    data = bundle_of([planned("matmul", n=8, dtype=dtype) for dtype in ("bf16", "fp16")])
    refused(data, "two graphs have the same dims")


@pytest.mark.slow
def test_ten_thousand_mutants_and_none_passes_that_holds_anything_else(whole):
    """Refused with a reason, or every member came out as it went in (a zip has bytes that mean nothing)."""
    rng, members = random.Random(SEED), unpacked(whole)
    passed: dict[str, int] = {}
    tried = dict.fromkeys(KINDS, 0)
    began = time.process_time()
    for _ in range(COUNT):
        kind, data = mutant(whole, members, rng)
        tried[kind] += 1
        try:
            read_bundle(data)
        except InvalidInput as error:
            assert str(error)
            continue
        assert unpacked(data) == members, kind
        passed[kind] = passed.get(kind, 0) + 1
    assert min(tried.values()) > COUNT / len(KINDS) / 2
    assert set(passed) <= {"flipped bits", "a spoilt directory", "torn"}, passed
    assert sum(passed.values()) < COUNT / 20, passed
    assert time.process_time() - began < 60


def test_a_file_that_was_packed_again_passes_for_its_members_are_the_same(whole):
    members = unpacked(whole)
    for data in (packed(members, zipfile.ZIP_DEFLATED), packed(dict(reversed(members.items())))):
        assert read_bundle(data)[0] == read_bundle(whole)[0]


def test_too_large_a_file_is_refused_unread(monkeypatch):
    monkeypatch.setattr(zipfile.ZipFile, "__init__", lambda *_: pytest.fail("it was opened"))
    refused(bytes(100 << 20), "at most 67,108,864 bytes")


def test_what_a_zip_says_of_itself_is_judged_before_anything_is_unpacked(whole, monkeypatch):
    members = unpacked(whole)
    bomb = packed(sealed({**members, "plan-1.bin": bytes(5 << 20)}), zipfile.ZIP_DEFLATED)
    path = packed(sealed({**members, "../plan-2.bin": b"x"}))
    link = zipfile.ZipInfo("plan-1.bin")
    link.external_attr = 0o120777 << 16
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    refused(bomb, "zip bomb")
    refused(path, "plain files alone")


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("plan-1.json", lambda c: c["recipe"]["knobs"].update(TILE_M=3), "different plans"),
        ("plan-1.json", lambda c: c["recipe"].update(engine_id=7), "different plans"),
        ("plan-1.json", lambda c: c.update(workspace_bytes=1), "different plans"),
        ("plan-1.json", lambda c: c.update(serialized_bytes=1), "different plans"),
        ("plan-1.json", lambda c: c["record"].update(surprise=1), "surprise"),
        ("plan-1.json", lambda c: c["record"].update(status="build_failed", message="no"), "not handed over"),
        ("graph-1.json", lambda c: c["spec"]["tensors"][0].update(dims=[1, 128, 56, 56]), "graph"),
        ("graph-1.json", lambda c: c["calls"][3].update(method="execute"), "calls and tensors"),
        ("graph-1.json", lambda c: c["tensors"][0].update(uid=9), "calls and tensors"),
        ("run-1.json", lambda c: c["environment"].update(cudnn_backend="1.2.3"), "another GPU or cuDNN"),
        ("run-1.json", lambda c: c.pop("started_at"), "started_at"),
        ("manifest.json", lambda c: c["plans"][0].update(plan_name="eng1"), "different plans"),
        ("manifest.json", lambda c: c["graphs"][0]["dims"].update(X=[1, 2, 3, 4]), "not the graph"),
        ("manifest.json", lambda c: c.update(version=1), "version 2, not version 1"),
        ("manifest.json", lambda c: c.update(version="2"), "version 2, not version '2'"),
        ("manifest.json", lambda c: c["plans"].clear(), "do not fit together"),
        ("device_properties.json", lambda c: c.update(deviceName="NVIDIA A100"), "another GPU"),
        ("device_properties.json", lambda c: c.update(warpSize=0), "warpSize"),
    ],
)
def test_members_that_contradict_one_another_are_refused_though_the_checksums_fit(whole, name, change, told):
    members = unpacked(whole)
    content = json.loads(members[name])
    change(content)
    refused(packed(sealed({**members, name: json.dumps(content).encode()})), told)


def test_another_serialized_plan_is_refused_though_the_checksums_fit(whole, made):
    refused(packed(sealed({**unpacked(whole), "plan-1.bin": made("matmul").blob})), "different plans")


def test_another_loader_is_remarked(whole):
    members = unpacked(whole)
    told, _ = read_bundle(packed(sealed({**members, "load_plan.py": b"print('hello')\n"})))
    assert "is not the one of this Planscope" in told.remarks[0]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"5", b"\xff", b"[" * 50_000, b'{"a": NaN}'])
def test_members_that_are_nothing_are_refused(whole, content):
    members = unpacked(whole)
    for name in sorted(members):
        if name.endswith(".json"):
            refused(packed(sealed({**members, name: content})))


def test_the_loader_refuses_what_the_reader_refuses(whole):
    """Of the file itself; what its members say of one another is the reader's to judge."""
    rng, members = random.Random(7), unpacked(whole)
    kinds = set()
    for _ in range(300):
        kind, data = mutant(whole, members, rng)
        if kind.endswith("checksums to fit") or kind == "a zip bomb":
            continue
        try:
            assert loader.unpack(data) == members, kind
        except loader.BundleError:
            kinds.add(kind)
    assert len(kinds) > 10
