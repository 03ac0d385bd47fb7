"""The Reuse page: empty, with studies of either kind, and the doctor's drop zone."""

from __future__ import annotations

import statistics
import time

import pytest
from streamlit.testing.v1 import AppTest

from app.clinic import clinic
from app.own_graph import ONLY_A_GRAPH
from app.theme import fmt_ms
from engine.bundles.checkups import Examination
from engine.bundles.export import Part, bundle_of, default_plan
from engine.records.wording import factor
from engine.runs.archive_reading import read_run_file
from engine.runs.home import data_home
from engine.runs.recordings import SHIPPED, Recordings
from engine.runs.store import Store
from tests.app.pages import components, opened, tables, texts
from tests.app.sample_reuse import studied_run

pytestmark = [pytest.mark.app, pytest.mark.usefixtures("home")]


def keep(run):
    with Store(data_home()) as store:
        store.create_run(run)
    return run


@pytest.fixture(scope="module")
def bundle_bytes():
    file = read_run_file((SHIPPED / "matmul.zip").read_bytes())
    plan, why = default_plan(file.run)
    return bundle_of([Part(file.run, (plan,), file.blobs, why)])


def examined(page: AppTest, data: bytes, trust: bool = False) -> AppTest:
    page.file_uploader(key="bundle-file").set_value(("b.zip", data, "application/zip")).run()
    if trust:
        page.checkbox(key="bundle-trust").set_value(True).run()
    page.button(key="examine").click().run()
    end = time.monotonic() + 120
    while "opening, then loading" in texts(page):
        assert time.monotonic() < end
        time.sleep(0.2)
        page.run()
    assert not page.exception
    return page


@pytest.fixture
def no_recordings(monkeypatch, tmp_path):
    monkeypatch.setattr("engine.runs.library.Recordings", lambda: Recordings(tmp_path / "none"))


@pytest.mark.usefixtures("no_recordings")
def test_without_a_study_it_offers_to_make_one():
    page = opened("reuse")
    assert not page.exception
    assert page.selectbox(key="reuse-choice").options == [ONLY_A_GRAPH]
    assert not page.button(key="study").disabled and "Takes minutes" in texts(page)
    command = "python -m engine reuse matmul_epilogue --target h200 --sizes b=8,16,24,32,48"
    assert page.code[0].value == command


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("reuse/*.zip")), ids=lambda file: file.stem)
def test_a_recorded_study_is_drawn_as_it_was_recorded(file):
    run = read_run_file(file.read_bytes()).run
    page = opened("reuse")
    page.selectbox(key="reuse-choice").set_value(run.id).run()
    assert not page.exception
    assert f"recorded on NVIDIA H200, cuDNN 9.19.0, {run.started_at:%Y-%m-%d}" in texts(page)
    costs, *others = tables(page)
    assert len(costs) == len(run.reuse.costs) >= 4 and len(components(page, "chart")) == len(others) + 1
    for row, cost in zip(costs, run.reuse.costs, strict=True):
        assert row[0] == cost.plan_name
        assert row[2] == fmt_ms(statistics.median(cost.cold_ms.values_ms), 3)
        assert row[6] == fmt_ms(statistics.median(cost.load_ms.values_ms), 3)
    ratios = [
        statistics.median(cost.cold_ms.values_ms) / statistics.median(cost.load_ms.values_ms)
        for cost in run.reuse.costs
        if cost.compiled
    ]
    assert statistics.median(ratios) >= 40, "loading a plan compiled at run time is far cheaper than building it"
    assert f"Loading is {factor(statistics.median(ratios))} faster than a cold build" in texts(page)
    assert all(use.captured and use.new_data and use.bound for use in run.reuse.graphs)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_a_study_is_drawn_and_says_where_it_was_made(on_gpu):
    study = keep(studied_run(on_gpu))
    page = opened("reuse")
    page.selectbox(key="reuse-choice").set_value(study.id).run()
    assert not page.exception
    read = texts(page)
    assert "476x faster than a cold build" in read
    assert ("nothing was executed" in read) is not on_gpu
    assert ("override shape gives wrong results at n = 16" in read.lower()) is on_gpu
    assert len(components(page, "chart")) == (4 if on_gpu else 2)
    assert len(tables(page)) == (4 if on_gpu else 3)
    assert ("measured on a GPU; this study was made without one" in read) is not on_gpu


def test_of_several_studies_one_is_chosen():
    first = keep(studied_run(False, id="1" * 32, title="the first"))
    keep(studied_run(True, id="2" * 32, title="the second"))
    page = opened("reuse")
    page.selectbox(key="reuse-choice").set_value(first.id).run()
    assert not page.exception and "nothing was executed" in texts(page)


def test_the_doctor_checks_integrity_alone_without_trust(bundle_bytes):
    page = opened("reuse")
    assert "not where it comes from" in texts(page)
    assert page.checkbox(key="bundle-trust").value is False
    assert page.button(key="examine").disabled
    read = texts(examined(page, bundle_bytes))
    assert "Only its integrity was checked" in read and "8 files" in read


def test_what_the_doctor_said_of_one_file_is_not_said_of_the_next(bundle_bytes):
    page = examined(opened("reuse"), bundle_bytes)
    assert "**b.zip**" in texts(page)
    page.file_uploader(key="bundle-file").set_value(("other.zip", b"junk", "application/zip")).run()
    assert "Only its integrity was checked" not in texts(page)


@pytest.mark.parametrize(("pipeline", "shared"), [("matmul", True), ("matmul_epilogue", False)])
def test_ratios_are_promised_where_a_kernel_cache_gave_plans(pipeline, shared):
    page = opened("reuse")
    run = read_run_file((SHIPPED / "reuse" / f"{pipeline}.zip").read_bytes()).run
    page.selectbox(key="reuse-choice").set_value(run.id).run()
    assert ("at the right the kernel cache" in str(components(page, "chart"))) is shared


def test_the_doctor_refuses_a_damaged_file(bundle_bytes):
    data = bytearray(bundle_bytes)
    data[len(data) // 2] ^= 4
    read = texts(examined(opened("reuse"), bytes(data)))
    assert "Refused: nothing of it was given to cuDNN." in read


@pytest.mark.cudnn
def test_with_trust_the_doctor_says_what_is_left_of_a_plan_of_another_cudnn(bundle_bytes):
    read = texts(examined(opened("reuse"), bundle_bytes, trust=True))
    assert "cuDNN 9.19.0 serialized it" in read or "The serialized plan loads" in read
    assert "recipe" in read


def test_two_examinations_wait_for_one_another(bundle_bytes):
    found = [clinic().submit(data, False) for data in (bundle_bytes, b"junk")]
    whole, junk = (future.result(60) for future in found)
    assert isinstance(whole, Examination) and whole.exit_status == 0
    assert junk.refused and junk.exit_status == 2
