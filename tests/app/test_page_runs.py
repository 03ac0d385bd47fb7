"""The Runs page: what is listed, and what can be done with it."""

from __future__ import annotations

import zipfile
from functools import partial
from io import BytesIO

import pytest

from app import resources
from engine.runs.home import data_home
from engine.runs.library import Library
from engine.runs.recordings import Recordings
from engine.runs.store import Store
from tests.app.pages import alerts, opened, tables, texts
from tests.app.sample_runs import ok_plan, run_of

pytestmark = [pytest.mark.app, pytest.mark.usefixtures("home")]
RECORDED = Recordings().summaries()


def own_run(**more):
    """A run of somebody's own, without serialized plans."""
    run = run_of([ok_plan(1, 10.0, blob_sha256=None, blob_bytes=None)], **more)
    with Store(data_home()) as store:
        store.create_run(run)
    return run


def upload(page, name, data):
    page.session_state["import"] = True
    page.run()
    page.file_uploader(key="run-file").set_value((name, data, "application/zip")).run()
    return page


def test_every_recording_is_listed_with_what_it_came_to():
    page = opened("runs")
    assert not page.exception
    (rows,) = tables(page)
    assert len(rows) == len(RECORDED)
    assert {row[0] for row in rows} == {"conv_bias_relu", "conv_relu", "matmul", "matmul_epilogue", "sdpa"}
    assert all(row[2] == "NVIDIA H200" and row[6] == "9.19.0" and row[8] == "recorded" for row in rows)
    assert "it stays as it is" in texts(page)


def test_filters_narrow_the_list_and_say_when_nothing_is_left():
    page = opened("runs")
    page.selectbox(key="runs-pipeline").set_value("sdpa").run()
    assert {row[0] for row in tables(page)[0]} == {"sdpa"}
    page.segmented_control(key="runs-origin").set_value("own").run()
    assert tables(page) == []
    assert "Widen the filters" in texts(page)


def test_open_leads_to_the_run_on_the_explore_page():
    page = opened("runs")
    (link,) = page.page_link
    query = dict(part.split("=") for part in link.proto.query_string.split("&"))
    assert query["run"] == RECORDED[0].id
    there = opened(**query)
    assert there.selectbox(key="source").value == RECORDED[0].id


def test_an_own_run_is_renamed_and_deleted_and_a_recording_is_not():
    run = own_run()
    page = opened("runs", session={"runs.chosen": run.id})
    page.text_input(key=f"title-{run.id}").set_value("  the   *good* one ").run()
    page.button(key=f"rename-{run.id}").click().run()
    assert not page.exception
    assert any(row[1] == "the *good* one" for row in tables(page)[0])
    page.text_input(key=f"title-{run.id}").set_value("\x07").run()
    page.button(key=f"rename-{run.id}").click().run()
    assert "a title has at most 200 printable characters" in alerts(page)[0]
    page.button(key=f"delete-{run.id}").click().run()
    assert len(tables(page)[0]) == len(RECORDED)
    assert "The run is deleted." in texts(page)
    assert not any(button.key.startswith("delete-") for button in page.button)


def test_a_second_click_on_delete_never_reaches_the_next_run():
    """The panel of one run is not the next one's: it closes with its run, and a click in it is for that run alone."""
    first, second = own_run(), own_run(id="b" * 32)
    page = opened("runs", session={"runs.chosen": first.id})
    page.segmented_control(key="runs-origin").set_value("own").run()
    page.button(key=f"delete-{first.id}").click().run()
    assert [button.key for button in page.button if button.key.startswith("delete-")] == [f"delete-{second.id}"]
    page.button(key=f"delete-{second.id}").click().run()
    assert "Widen the filters" in texts(page)
    assert "The run is deleted." in texts(page), "said also where the list is empty now"
    assert page.expander[0].label == "Import a run file"


def test_a_run_that_is_imported_is_shown_whatever_the_filters():
    run = own_run(id="a" * 32)
    exported = resources.resources().library.export(run.id)
    resources.resources().library.delete(run.id)
    page = opened("runs")
    page.selectbox(key="runs-pipeline").set_value("sdpa").run()
    page = upload(page, "run.zip", exported)
    assert not page.exception
    assert page.selectbox(key="runs-pipeline").value == ""
    assert [row for row in tables(page)[0] if row[-6] == "imported"]
    page.selectbox(key="runs-pipeline").set_value("sdpa").run()
    assert {row[0] for row in tables(page)[0]} == {"sdpa"}, "filters are the person's again"


def test_an_exported_run_is_imported_elsewhere_and_marked_as_such():
    data = resources.resources().library.export(RECORDED[0].id)
    own = own_run(id="a" * 32)
    exported = resources.resources().library.export(own.id)
    resources.resources().library.delete(own.id)
    page = upload(opened("runs"), "run.zip", exported)
    assert not page.exception
    assert alerts(page) == []
    assert [row for row in tables(page)[0] if row[-6] == "imported"]
    again = upload(opened("runs"), "recording.zip", data)
    assert len(tables(again)[0]) == len(RECORDED) + 1, "a recording that is here already is not kept twice"


def broken_zip():
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run.json", "{}")
    return file.getvalue()


@pytest.mark.parametrize("data", [b"", b"not a zip", broken_zip()], ids=["empty", "no zip", "no checksums"])
def test_a_corrupt_run_file_is_refused_with_a_reason_and_nothing_is_lost(data):
    own_run()
    page = upload(opened("runs"), "broken.zip", data)
    assert not page.exception
    assert len(alerts(page)) == 1
    assert len(tables(page)[0]) == len(RECORDED) + 1


def test_a_store_without_any_run_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "Library", partial(Library, recordings=Recordings(tmp_path)))
    page = opened("runs")
    assert not page.exception
    assert "There is no run yet." in texts(page)


def test_a_data_folder_that_cannot_be_used_is_named(home):
    home.write_text("a file stands where the folder should be")
    page = opened("runs")
    assert not page.exception
    assert "Only recordings can be shown" in texts(page)
    assert len(tables(page)[0]) == len(RECORDED)
