"""The shipped comparisons: what stands on the page is what was recorded. Everything is computed anew here from the raw
samples in the files, without the code that the page uses."""

from __future__ import annotations

import base64
import json
import math
import re
from itertools import pairwise

import numpy as np
import pytest

from app.fusion_figures import growth_figure, waterfall_figure
from app.fusion_html import saved_html
from app.fusion_roofline import roofline_figure
from app.fusion_tables import launches_table, versions_table
from app.theme import fmt_number, fmt_us
from engine.records.attribution import steps
from engine.records.fusion import VersionKind
from engine.records.fusion_caveats import caveats
from engine.records.fusion_sentences import sentences
from engine.runs.comparisons import FOLDER, Comparisons, from_bytes
from engine.runs.recordings import SHIPPED
from tests.app.pages import components, opened, tables, texts

FILES = sorted((SHIPPED / FOLDER).glob("*.json"))
CASES = ("conv_bias_relu", "matmul_epilogue-gelu", "matmul_epilogue-relu", "sdpa-causal-off", "sdpa-causal-on")
FUSED = ("tuned", "first_pick")
ALL = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])


def median(samples: dict) -> float:
    return float(np.median(np.frombuffer(base64.b64decode(samples["data"]), "<f4")))


class Raw:
    """A file as JSON has it."""

    def __init__(self, file) -> None:
        self.data = json.loads(file.read_bytes())
        self.versions = {version["kind"]: version for version in self.data["versions"]}
        self.hot = {kind: median(version["timings"]["hot"]) for kind, version in self.versions.items()}
        self.best = min(FUSED, key=lambda kind: self.hot[kind])

    def kernels(self, kind: str) -> int:
        return sum(launch["kind"] == "kernel" for launch in self.versions[kind]["launches"])


def test_every_case_is_there_in_three_sizes():
    assert sorted(file.stem for file in FILES) == sorted(
        f"{case}{size}" for case in CASES for size in ("", "-large", "-small")
    )
    found = Comparisons(None)
    assert len(found.listed()) == len(FILES) and found.problems == {}
    every = [file for file in SHIPPED.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in every) < 5_000_000


@ALL
def test_every_version_is_there_right_and_counted_by_the_profiler(file):
    raw = Raw(file)
    wanted = {"eager", "idiomatic", "compiled", "autotuned", "unfused", "first_pick", "tuned"}
    if raw.data["pipeline"] == "sdpa":
        wanted |= {"sdpa_flash", "sdpa_efficient", "sdpa_cudnn", "sdpa_math"}
    assert set(raw.versions) == wanted and raw.data["status"] == "done"
    for version in raw.versions.values():
        assert version["message"] is None and version["launches"]
        assert all(output["max_rel"] <= output["tolerance"] for output in version["accuracy"])
        assert all(version["timings"][regime] for regime in ("hot", "cold", "host"))
    assert raw.kernels("tuned") == raw.kernels("first_pick") == 1
    assert raw.kernels("unfused") == raw.kernels("eager") >= len(raw.data["pieces"])


@ALL
def test_nothing_is_faster_than_the_hardware(file):
    raw, record = Raw(file), from_bytes(file.read_bytes(), file.name)
    for hot in raw.hot.values():
        assert record.graph.flops() / hot * 1e-6 < 989, "TFLOP/s, of the public specification"
    for piece in raw.data["pieces"]:
        beyond = piece["bytes_moved"] > 4 * raw.data["environment"]["gpu"]["l2_bytes"]
        assert not beyond or piece["bytes_moved"] / median(piece["hot"]) * 1e-3 < 4800, "GB/s"


@ALL
def test_the_table_has_the_record_s_numbers(file):
    raw, record = Raw(file), from_bytes(file.read_bytes(), file.name)
    rows = {row.key: [cell.text for cell in row.cells] for row in versions_table(record).rows}
    assert list(rows) == list(raw.versions)
    for kind, texts_ in rows.items():
        version = raw.versions[kind]
        timed = [fmt_us(median(version["timings"][regime])) for regime in ("hot", "cold", "host")]
        assert texts_[1:4] == timed
        assert re.match(r"\d+", texts_[4]).group() == str(raw.kernels(kind))
        fills = sum(launch["kind"] == "fill" for launch in version["launches"])
        assert ("memset" in texts_[4]) == bool(fills)
        moved = version["bytes_moved"]
        assert texts_[6] == (fmt_number(moved / raw.hot[kind] * 1e-3) if moved is not None else "–")
        assert texts_[7] == fmt_number(record.graph.flops() / raw.hot[kind] * 1e-6)
        assert texts_[8] == (fmt_number(record.graph.flops() / moved) if moved is not None else "–")
    assert len(launches_table(record).rows) == sum(len(version["launches"]) for version in raw.versions.values())


@ALL
def test_the_attribution_adds_up_to_what_was_measured(file):
    raw, record = Raw(file), from_bytes(file.read_bytes(), file.name)
    found = steps(record)
    assert found[0].before_us == raw.hot["eager"] and found[-1].after_us in (raw.hot["tuned"], raw.hot["first_pick"])
    assert all(one.after_us == other.before_us for one, other in pairwise(found))
    saved = sum(step.saved_us for step in found)
    assert saved == pytest.approx(raw.hot["eager"] - found[-1].after_us)
    assert math.prod(step.factor for step in found) == pytest.approx(raw.hot["eager"] / found[-1].after_us)
    by_cause = {step.cause.name: step for step in found}
    assert (by_cause["LIBRARY"].before_us, by_cause["LIBRARY"].after_us) == (raw.hot["eager"], raw.hot["unfused"])
    removed = raw.kernels("unfused") - raw.kernels("first_pick")
    launches = removed * median(raw.data["ceilings"]["launch_us"])
    assert by_cause["LAUNCHES"].saved_us == pytest.approx(launches)
    less = raw.versions["unfused"]["bytes_moved"] - raw.versions["first_pick"]["bytes_moved"]
    gbps = by_cause["TRAFFIC"].saved_us and less / by_cause["TRAFFIC"].saved_us * 1e-3
    copy = raw.data["ceilings"]["copy_bytes"] / median(raw.data["ceilings"]["copy_us"]) * 1e-3
    assert gbps >= copy * 0.999, "bytes save no more than moving them takes"
    if by_cause.get("ENGINE"):
        pieces = [(piece["contracts"], median(piece["hot"])) for piece in raw.data["pieces"]]
        share = sum(us for contracts, us in pieces if contracts) / sum(us for _, us in pieces)
        assert by_cause["ENGINE"].before_us == pytest.approx(raw.hot["unfused"] * share)
        assert by_cause["ENGINE"].after_us == raw.hot["first_pick"]


@ALL
def test_the_figures_stand_on_the_record_s_numbers(file):
    raw, record = Raw(file), from_bytes(file.read_bytes(), file.name)
    bars = {trace.name: trace.x for trace in waterfall_figure(record).data if trace.mode == "lines"}
    assert bars["measured version"][1] == raw.hot["eager"]
    assert bars["measured version"][4] in (raw.hot["tuned"], raw.hot["first_pick"])

    by_name = {trace.name: trace for trace in roofline_figure(record).data}
    for version in record.versions:
        moved = raw.versions[version.kind.value]["bytes_moved"]
        assert (version.kind.words in by_name) == bool(moved)
        if moved:
            dot, hot = by_name[version.kind.words], raw.hot[version.kind.value]
            assert dot.x[0] == pytest.approx(record.graph.flops() / moved)
            assert 10 ** dot.y[0] == pytest.approx(record.graph.flops() / hot * 1e-6)
    ends = [by_name[VersionKind(kind).words] for kind in ("unfused", raw.best)]
    assert list(by_name["fusing"].x[:2]) == [end.x[0] for end in ends]
    assert list(by_name["fusing"].y[:2]) == [end.y[0] for end in ends]

    growth = growth_figure(record)
    assert (growth is None) == (raw.data["pipeline"] == "sdpa")
    if growth is not None:
        dots = {trace.name: trace.x for trace in growth.data if trace.mode == "markers"}
        for i, stage in enumerate(raw.data["growth"]):
            hot = {version["kind"]: median(version["timings"]["hot"]) for version in stage["versions"]}
            assert dots["fused"][i] == min(hot[kind] for kind in FUSED) and dots["unfused"][i] == hot["unfused"]


@ALL
def test_the_headline_is_the_record_s_and_losses_come_first(file):
    raw, record = Raw(file), from_bytes(file.read_bytes(), file.name)
    said, best = sentences(record), raw.hot[raw.best]
    gain = next(i for i, text in enumerate(said) if "faster than torch eager, operation by operation" in text)
    (ratio,) = re.findall(r"is ([\d.]+)x faster than torch eager, operation by operation", said[gain])
    assert float(ratio) == pytest.approx(raw.hot["eager"] / best, rel=0.005)
    rivals = {kind: us for kind, us in raw.hot.items() if kind not in FUSED}
    near = [kind for kind, us in rivals.items() if us < best * 1.01]
    for kind in near:
        words = VersionKind(kind).words
        assert any(words in text for text in said[:gain]), f"{kind} is as fast, and that is said before any gain"
    if raw.data["pipeline"] == "sdpa":
        assert raw.kernels("idiomatic") == 1
        assert said[0].startswith("Torch, as one writes it, already calls one fused kernel here; cuDNN's is ")
    if not near and raw.data["pipeline"] != "sdpa":
        assert gain == 0
    slower = raw.hot["tuned"] > raw.hot["first_pick"] * 1.01
    assert slower == any(text.startswith("Tuning did not pay") for text in said)
    hot_longer = any(raw.hot[kind] > 1.02 * median(v["timings"]["cold"]) for kind, v in raw.versions.items())
    assert hot_longer == any(text.startswith("Hot times are longer") for text in caveats(record))


@ALL
def test_the_saved_file_has_them_too(file):
    raw, record = Raw(file), from_bytes(file.read_bytes(), file.name)
    own = saved_html(record, recorded=True).decode().split("<body>", 1)[1]
    assert "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-12-01" in own
    for kind in raw.versions:
        assert f">{fmt_us(raw.hot[kind])}</td>" in own


@pytest.mark.parametrize("name", ["conv_bias_relu", "sdpa-causal-off-large"])
def test_the_page_shows_it(home, name):
    raw = Raw(SHIPPED / FOLDER / f"{name}.json")
    app = opened("fusion", comparison=raw.data["id"])
    assert not app.exception
    assert "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-12-01" in str([element.proto for element in app.main])
    record = from_bytes((SHIPPED / FOLDER / f"{name}.json").read_bytes(), name)
    headings = [line for line in texts(app).splitlines() if line.startswith("#### ")]
    assert headings == [f"#### {sentences(record)[0]}"]
    table = tables(app)[-3]
    assert [row[1] for row in table] == [fmt_us(us) for us in raw.hot.values()]
    assert len(components(app, "chart")) == (2 if "sdpa" in name else 3)


def test_without_one_s_own_the_page_opens_with_a_recording(home):
    app = opened("fusion")
    shown = app.query_params["comparison"]
    chosen = shown[0] if isinstance(shown, list) else shown
    assert chosen == Raw(SHIPPED / FOLDER / "conv_bias_relu.json").data["id"]
