"""The fusion page and its figures: every number is the record's, losses come first, nothing is drawn that was not
measured."""

from __future__ import annotations

import json
import re
from html import escape
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from app.chart_view import drawing
from app.fusion_charts import charts
from app.fusion_drawing import after_svg, before_svg
from app.fusion_figures import growth_figure, waterfall_figure
from app.fusion_html import pair_html, saved_html, table_html
from app.fusion_roofline import roofline_figure
from app.fusion_tables import environment_table, growth_table, steps_table, versions_table
from app.fusion_words import bytes_sentence, provenance_of
from app.theme import fmt_bytes, fmt_number, fmt_us
from engine.graph.cost import cost
from engine.graph.cutting import cut
from engine.graph.errors import InvalidInput
from engine.graph.pipelines import CATALOGUE
from engine.records.attribution import Cause, steps
from engine.records.fusion import VersionKind
from engine.records.fusion_sentences import sentences
from engine.runs.comparisons import Comparisons, from_bytes, keep, to_bytes
from tests.app.pages import components, fill, opened, tables, texts
from tests.app.sample_fusions import HOT, K, comparison, planned
from tests.app.test_graph_view import foreign_graph

SVG = "{http://www.w3.org/2000/svg}"


def groups(svg: str, kind: str) -> list[ET.Element]:
    return [g for g in ET.fromstring(svg).iter(f"{SVG}g") if g.attrib.get("class") == kind]


def said(svg: str) -> str:
    return " ".join(element.text or "" for element in ET.fromstring(svg).iter())


# -- Drawings


@pytest.mark.parametrize("name", CATALOGUE)
def test_before_every_piece_is_a_kernel_and_after_one_holds_them_all(name):
    spec = CATALOGUE[name].graph({})
    made, total = cut(spec), cost(cut(spec))
    before, after = before_svg(spec), after_svg(spec)
    assert len(groups(before, "kernel")) == len(groups(after, "kernel")) == len(made.pieces)
    assert groups(before, "chip") == [] and groups(before, "region") == []
    assert len(groups(after, "chip")) == len(made.between)
    (region,) = groups(after, "region")
    assert len(region.findall(f"{SVG}rect")) == len(made.pieces) + len(made.between)
    for one in total.saved:
        if one.stays_on_chip and one.uid in {tensor.uid for tensor in made.between}:
            assert f"saves {fmt_bytes(one.saved_bytes)}" in said(after)
            assert f"{one.touches} × {fmt_bytes(one.nbytes)} moved" in said(before)


def test_a_tensor_has_the_dims_of_the_graph_it_is_drawn_in():
    """The unfused bias is added to one matrix of all rows."""
    spec = CATALOGUE["matmul_epilogue"].graph({"b": 3, "m": 5, "n": 7, "k": 2})
    assert "1×15×7" in before_svg(spec) and "1×15×7" not in after_svg(spec)


def test_a_piece_that_runs_in_torch_is_drawn_so():
    spec = CATALOGUE["matmul_epilogue"].graph({})
    before = before_svg(spec, frozenset({4}))
    (torch,) = groups(before, "torch")
    assert "amax, torch: cuDNN refuses it alone" in (torch.find(f"{SVG}title").text or "")
    assert len(groups(before, "kernel")) == 4


def test_foreign_names_stay_text_in_both_drawings():
    for svg in (before_svg(foreign_graph()), after_svg(foreign_graph())):
        tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}
        assert tags <= {"svg", "g", "path", "title", "rect", "text"}
        assert "<script" not in svg and "<img" not in svg


def test_what_must_move_in_a_sentence():
    text = bytes_sentence(cost(cut(CATALOGUE["matmul_epilogue"].graph({}))))
    assert text == (
        "Fused, 40.0 MiB must move, for 3 tensors need not reach memory; unfused, 5 pieces must move 96.0 MiB, "
        "2.40x as much."
    )
    assert "nothing to fuse" in bytes_sentence(cost(cut(CATALOGUE["matmul"].graph({}))))


# -- Figures


def bars(figure) -> dict[str, list[tuple[float, float]]]:
    """Thick lines by name, as pairs of ends."""
    return {
        trace.name: [(trace.x[i], trace.x[i + 1]) for i in range(0, len(trace.x), 3)]
        for trace in figure.data
        if trace.mode == "lines" and trace.line.width == 15
    }


def test_the_waterfall_has_the_record_s_steps():
    record = comparison()
    figure, found = waterfall_figure(record), steps(record)
    drawn = bars(figure)
    assert drawn["measured version"] == [(0.0, found[0].before_us), (0.0, found[-1].after_us)]
    for step in found:
        assert (step.after_us, step.before_us) in drawn[step.cause.value]
    assert figure.layout.yaxis.ticktext[0] == K.EAGER.words
    assert "fused engine: a loss, estimated" in figure.layout.yaxis.ticktext
    assert "tuning" in figure.layout.yaxis.ticktext
    hover = " ".join(figure.data[[trace.mode for trace in figure.data].index("markers")].hovertext)
    assert all(step.estimate in hover for step in found)
    assert (figure.layout.yaxis2.ticktext[0], figure.layout.yaxis2.ticktext[-1]) == ("100 µs", "30.0 µs  3.33x")
    assert any(t.name and t.name.startswith("torch.compile, max-autotune 58") for t in figure.data)
    json.dumps(drawing(figure), allow_nan=False)


def test_growth_has_a_row_per_operation_and_what_it_adds():
    record = comparison()
    figure = growth_figure(record)
    assert list(figure.layout.yaxis.ticktext) == ["matmul", "+ scale", "+ bias", "+ gelu", "+ amax"]
    by_name = {trace.name: trace for trace in figure.data if trace.mode == "markers"}
    wanted = [stage.version(K.TUNED).timings.hot.median_us for stage in record.growth]
    np.testing.assert_allclose(by_name["fused"].x, wanted)
    assert figure.layout.yaxis2.ticktext[1] == "+1.0 µs / +16 µs"
    json.dumps(drawing(figure), allow_nan=False)


def test_a_stage_that_was_not_measured_keeps_its_row_and_what_follows_adds_nothing_known():
    record = comparison()
    growth = list(record.growth)
    growth[1] = growth[1].model_copy(update={"versions": ()})
    growth[3] = growth[3].model_copy(update={"versions": growth[3].versions[:1]})
    figure = growth_figure(record.model_copy(update={"growth": tuple(growth)}))
    assert list(figure.layout.yaxis.ticktext) == ["matmul", "+ scale", "+ bias", "+ gelu", "+ amax"]
    assert list(figure.layout.yaxis2.ticktext)[1:] == ["– / –", "– / –", "– / +16 µs", "– / +16 µs"]
    bare = [stage.model_copy(update={"versions": ()}) for stage in growth]
    assert growth_figure(record.model_copy(update={"growth": tuple(bare)})) is None


def test_the_waterfall_calls_nothing_fused_that_is_not():
    unfused = waterfall_figure(comparison(hot={K.FIRST_PICK: None, K.TUNED: None}))
    assert list(unfused.layout.yaxis.ticktext)[-1] == K.UNFUSED.words
    tuned = waterfall_figure(comparison(hot={K.FIRST_PICK: None}))
    assert list(tuned.layout.yaxis.ticktext)[-1] == K.TUNED.words
    assert tuned.layout.yaxis2.ticktext[-1] == "30.0 µs  3.33x"


def test_one_operation_is_not_drawn_as_fused():
    record = comparison("matmul")
    drawn = pair_html(record)
    assert drawn.count("<svg") == 1 and "One operation" in drawn and "Unfused" not in drawn and "Fused" not in drawn
    assert "nothing to fuse" in bytes_sentence(cost(cut(record.graph))) and "nothing to fuse" in sentences(record)[0]
    assert [step.cause for step in steps(record)] == [Cause.LIBRARY, Cause.TUNING]
    assert waterfall_figure(record).layout.yaxis.ticktext[-1] == K.TUNED.words
    alone = comparison("matmul", {K.TUNED: None})
    assert waterfall_figure(alone).layout.yaxis.ticktext[-1] == "cuDNN"
    assert all(trace.name != "fusing" for trace in roofline_figure(record).data)


def test_the_roofline_stands_on_what_was_measured():
    record = comparison()
    figure = roofline_figure(record)
    by_name = {trace.name: trace for trace in figure.data}
    measured = next(trace for name, trace in by_name.items() if name.startswith("fastest in this run (copy, matmul): "))
    assert 10 ** measured.y[4] == pytest.approx(record.ceilings.matmul_tflops, rel=1e-6)
    assert any(name.startswith("public specification: 4,800 GB/s") for name in by_name)
    tuned = record.version(K.TUNED)
    assert by_name[K.TUNED.words].x[0] == pytest.approx(record.graph.flops() / tuned.bytes_moved)
    assert 10 ** by_name[K.TUNED.words].y[0] == pytest.approx(record.graph.flops() / 30.0 * 1e-6, rel=1e-3)
    assert K.COMPILED.words not in by_name, "what its kernels move is not known"
    arrow, unfused = by_name["fusing"], by_name[K.UNFUSED.words]
    assert (arrow.x[:2], arrow.y[:2]) == (unfused.x + by_name[K.TUNED.words].x, unfused.y + by_name[K.TUNED.words].y)
    (drawn,) = (trace for trace in drawing(figure)["traces"] if trace["arrow"])
    assert drawn["lines"] and drawn["name"] == "fusing"
    json.dumps(drawing(figure), allow_nan=False)


def test_there_is_no_figure_without_measurements():
    record = planned()
    assert waterfall_figure(record) is None and growth_figure(record) is None and roofline_figure(record) is None
    assert provenance_of(record, recorded=True).label == "planned, not measured"
    failed = provenance_of(comparison(hot=dict.fromkeys(HOT)), recorded=False)
    assert failed.label.startswith("no version ran on NVIDIA H200")
    attention = comparison("sdpa")
    assert growth_figure(attention) is None and waterfall_figure(attention) is not None


def test_the_table_has_every_version_with_its_numbers():
    record = comparison(hot={K.AUTOTUNED: None})
    table = versions_table(record)
    assert [row.key for row in table.rows] == [version.kind.value for version in record.versions]
    by_key = {row.key: [cell.text for cell in row.cells] for row in table.rows}
    assert by_key["tuned"][:5] == ["cuDNN fused, tuned", "30.0 µs", "36.0 µs", "20.0 µs", "1"]
    assert by_key["compiled"][5] == "–" and by_key["compiled"][11] == "12.5 s"
    tuned = record.version(K.TUNED)
    assert by_key["tuned"][8] == fmt_number(record.graph.flops() / tuned.bytes_moved) and by_key["compiled"][8] == "–"
    assert by_key["autotuned"][1] == "–" and by_key["autotuned"][-1] == "it does not run here."


def test_what_the_waterfall_tells_under_the_pointer_stands_in_a_table_too():
    record = comparison()
    table, found = steps_table(record), steps(record)
    assert f"from “{K.EAGER.words}” to “{K.TUNED.words}”" in table.label
    for row, step in zip(table.rows, found, strict=True):
        texts_ = [cell.text for cell in row.cells]
        assert texts_[:3] == [step.cause.value, fmt_us(step.before_us), fmt_us(step.after_us)]
        assert row.cells[3].order == step.saved_us and texts_[6] == step.detail
        assert texts_[5] == (f"estimated: {step.estimate}" if step.estimate else "measured")
    assert {row.cells[5].text == "measured" for row in table.rows} == {True, False}


def test_the_growing_graph_stands_in_a_table_too():
    record = comparison()
    growth = list(record.growth)
    growth[1] = growth[1].model_copy(update={"versions": ()})
    rows = growth_table(record.model_copy(update={"growth": tuple(growth)})).rows
    texts_ = [[cell.text for cell in row.cells] for row in rows]
    assert [cells[0] for cells in texts_] == [stage.added for stage in growth]
    assert texts_[1][1:3] == ["–", "–"] and rows[2].cells[2].order is None
    fused = growth[0].version(K.TUNED).timings.hot.median_us
    assert texts_[0][1:4] == [fmt_us(fused), fmt_us(fused), fmt_bytes(growth[0].fused_bytes)]


def test_a_piece_that_runs_in_torch_is_not_called_a_kernel_of_its_own():
    record = comparison()
    kernel = record.version(K.UNFUSED).launches[:1]
    counts = (1, 2, 3, 4, 6)
    growth = tuple(
        stage.model_copy(
            update={"versions": (stage.version(K.UNFUSED).model_copy(update={"launches": kernel * count}),)}
        )
        for stage, count in zip(record.growth, counts, strict=True)
    )
    (chart,) = (c for c in charts(record.model_copy(update={"growth": growth})) if c.title == "One operation more")
    assert "The piece “amax” runs in torch (2 kernels): cuDNN refuses it alone." in chart.caption
    assert "kernel of its own" not in chart.caption and chart.caption.count("runs in torch") == 1


# -- The file


def test_the_file_is_whole_and_asks_nobody_for_anything():
    record = comparison()
    page = saved_html(record, recorded=True).decode()
    own = page.split("<body>", 1)[1]
    assert "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-01-02" in own
    assert own.count("<section>") == 6 and own.count("Plotly.newPlot") == 3
    assert not re.findall(r'(?:src|href)="(?!data:)', own)
    assert "default-src 'none'" in page
    for version in record.versions:
        assert version.kind.words in own
    for chart in charts(record):
        assert f'<p class="caption">{escape(chart.caption)}</p>' in own
        assert chart.table is None or table_html(chart.table) in own
    assert own.count("<details>") == 2
    assert "How it was measured" in own and "cuDNN has no execution plan" in own


def test_the_file_does_not_say_that_it_is_kept_where_it_is_read():
    own = saved_html(comparison(), recorded=False).decode().split("<body>", 1)[1]
    assert "<p>measured on NVIDIA H200, cuDNN 9.19.0, 2026-01-02. " in own and "kept here" not in own


def test_foreign_texts_stay_text_in_the_file():
    evil = "</script><script>alert(1)</script>"
    record = comparison(graph=foreign_graph(), pipeline=evil, parameters={"x": evil}, pieces=(), growth=())
    own = saved_html(record, recorded=False).decode().split("<body>", 1)[1]
    assert "<script>alert" not in own


# -- The page


def test_a_graph_that_nobody_compared_is_drawn_and_the_page_says_how_to_record(home):
    app = opened("fusion")
    app.selectbox(key="fusion-choice").select("").run()
    app.selectbox(key="fusion-pipeline").select("matmul_epilogue").run()
    fill(app, activation="swish")
    assert not app.exception
    (pair,) = components(app, "fusion")
    assert "one graph" in pair["html"] and "saves 16.0 MiB" in pair["html"]
    assert "Fused, 40.0 MiB must move" in texts(app)
    assert app.code[0].value == "python -m engine fusion matmul_epilogue -p activation=swish"
    assert components(app, "chart") == []
    app.selectbox(key="fusion-pipeline").select("sdpa").run()
    assert not app.exception and "softmax" in components(app, "fusion")[0]["html"]
    fill(app, sq="256")
    assert app.code[0].value == "python -m engine fusion sdpa -p sq=256"
    fill(app, hkv="3")
    assert not app.exception and components(app, "fusion") == []


def test_a_kept_comparison_is_shown_with_its_losses_first(home):
    record = comparison("sdpa", {K.FLASH: 20.0})
    keep(record, home)
    app = opened("fusion")
    assert not app.exception
    written = texts(app)
    assert written.index("torch SDPA, flash is 1.50x faster") < written.index("3.33x faster than torch eager")
    assert "kept here, measured on NVIDIA H200" in str([element.proto for element in app.main])
    causes, table, facts, launches = tables(app)
    assert [row[0] for row in causes] == [step.cause.value for step in steps(record)]
    assert ["seed", "0"] in facts
    assert len(table) == len(record.versions)
    assert len(launches) == sum(len(version.launches) for version in record.versions)
    assert len(components(app, "chart")) == 2  # no growth: one operation


def test_a_comparison_of_which_nothing_ran_gives_the_reasons(home):
    record = comparison(hot=dict.fromkeys(HOT), growth=(), ceilings=None)
    keep(record, home)
    app = opened("fusion")
    assert not app.exception and "No version of this graph ran" in texts(app) and "planned" not in texts(app)
    assert all(f"{kind.words}: it does not run here." in texts(app) for kind in HOT)


def test_a_link_in_an_open_session_is_followed(home):
    keep(comparison(), home)
    keep(comparison("sdpa", id="b" * 32), home)
    app = opened("fusion")
    app.query_params["comparison"] = "b" * 32
    app.run()
    assert app.selectbox(key="fusion-choice").value == "b" * 32
    app.selectbox(key="fusion-choice").select("a" * 32).run()
    assert app.selectbox(key="fusion-choice").value == "a" * 32 and app.query_params["comparison"] == "a" * 32


def test_several_kernels_are_not_called_one(home):
    record = comparison()
    launch = record.version(K.TUNED).launches * 2
    several = tuple(v.model_copy(update={"launches": launch}) if v.kind is K.TUNED else v for v in record.versions)
    assert "one kernel" in pair_html(record) and "Fused: 1 kernel<" in pair_html(record)
    twice = record.model_copy(update={"versions": several})
    assert "one kernel" not in pair_html(twice) and "Fused: 2 kernels<" in pair_html(twice)
    assert "The fused graph is not one kernel here: 2 were counted." in sentences(twice)


def test_a_graph_of_one_s_own_leads_to_its_comparison(home):
    keep(comparison(), home)
    app = opened("fusion")
    app.selectbox(key="fusion-choice").select("").run()
    assert not app.exception and len(components(app, "chart")) == 0 and len(app.code) == 0
    app.button(key="fusion-open").click().run()
    assert not app.exception and len(components(app, "chart")) == 3
    assert app.query_params["comparison"] == "a" * 32


def test_presenting_shows_one_figure_at_a_time_and_keys_turn_the_page(home):
    keep(comparison(), home)
    app = opened("fusion")
    app.button(key="fusion-present").click().run()
    assert app.query_params["present"] == "1"
    seen = []
    for number in range(1, 6):
        app.query_params["slide"] = str(number)
        app.run()
        assert not app.exception and len(app.button) == 0
        seen.append((len(components(app, "chart")), components(app, "fusion")[-1]))
    assert [charts for charts, _ in seen] == [0, 1, 1, 1, 0]
    assert all(keys["listens"] for _, keys in seen) and "2 / 5" in seen[1][1]["html"]
    made = comparison()
    for _, keys in seen:  # Each slide stands by itself: which graph, on what.
        assert made.what in keys["html"] and provenance_of(made, recorded=False).label in keys["html"]
    for nonsense in ("0", "99", "x", "-1", ""):
        app.query_params["slide"] = nonsense
        app.run()
        assert not app.exception


def test_an_address_without_a_comparison_presents_what_the_page_shows(home):
    shown = opened("fusion").query_params["comparison"]
    app = opened("fusion", present="1")
    record = next(kept.record for kept in Comparisons(None).listed() if kept.record.id == shown)
    assert record.what in components(app, "fusion")[-1]["html"]


def test_what_was_measured_on_what_is_said_on_the_page_too(home):
    record = comparison(parameters={"m": "512"})
    environment = record.environment.model_copy(update={"torch": "2.11.0+cu130"})
    record = record.model_copy(update={"environment": environment})
    facts = {row.cells[0].text: row.cells[1].text for row in environment_table(record).rows}
    assert facts["torch"] == "2.11.0+cu130" and facts["parameters"] == "m=512" and facts["seed"] == "0"
    own = saved_html(record, recorded=False).decode()
    assert all(f"<tr><th>{name}</th><td>{value}</td></tr>" in own for name, value in facts.items())
    keep(record, home)
    assert any(["torch", "2.11.0+cu130"] in rows for rows in tables(opened("fusion")))


def test_what_has_no_dot_in_the_roofline_is_named():
    captions = {chart.title: chart.caption for chart in charts(comparison("sdpa"))}
    none = f"What moves in “{K.COMPILED.words}” and “{K.AUTOTUNED.words}” is not known: no dot."
    assert captions["Roofline"].endswith(none)
    known = comparison(hot={K.COMPILED: None, K.AUTOTUNED: None})
    assert "not known" not in {chart.title: chart.caption for chart in charts(known)}["Roofline"]


def test_a_broken_file_and_a_nonsense_address_are_told(home):
    keep(comparison(), home)
    (home / "fusion" / "broken.json").write_text("{}")
    app = opened("fusion")
    assert not app.exception and any("broken" in warning.value for warning in app.warning)
    app.query_params.update({"comparison": "zzz", "present": "1"})  # Nothing else is presented in its place.
    app.run()
    assert not app.exception and "present" not in app.query_params
    assert any("no comparison zzz" in warning.value for warning in app.warning)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("versions", 0, "bytes_moved"), 10**400),
        (("pieces", 0, "bytes_moved"), 10**400),
        (("growth", 0, "unfused_bytes"), 10**400),
        (("ceilings", "copy_bytes"), 0),
        (("graph", "tensors", 0, "strides"), [10**400] * 3),
        (("versions", 0, "timings", "gpu"), {"sm_clock_mhz": 10**400}),
    ],
)
def test_numbers_that_nothing_can_be_reckoned_with_are_refused(where, value):
    content = comparison().model_dump(mode="json")
    at = content
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    with pytest.raises(InvalidInput, match="this is no comparison"):
        from_bytes(json.dumps(content).encode(), "x.json")


def test_a_convolution_of_another_rank_and_a_huge_file_are_told(home):
    keep(comparison("conv_bias_relu"), home)
    (path,) = (home / "fusion").glob("*.json")
    for number, stride in enumerate(([1], [0, 0], [1, 1, 1])):
        content = json.loads(path.read_bytes())
        content["graph"]["operations"][0]["stride"] = stride
        (home / "fusion" / f"odd{number}.json").write_text(json.dumps(content))
    with (home / "fusion" / "huge.json").open("wb") as file:
        file.truncate(1 << 40)  # Takes no room, and would take all memory to read.
    app = opened("fusion")
    assert not app.exception
    told = " ".join(warning.value for warning in app.warning)
    assert all(name in told for name in ("odd0", "odd1", "odd2", "huge")) and "at most" in told


def test_comparisons_are_kept_whole_and_read_back(tmp_path):
    record = comparison()
    path = keep(record, tmp_path)
    assert from_bytes(path.read_bytes(), path.name) == record
    assert [kept.record for kept in Comparisons(tmp_path, tmp_path / "none").listed()] == [record]
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "one.json").write_bytes(to_bytes(record))
    (found,) = Comparisons(tmp_path, shipped).listed()
    assert found.recorded, "what ships wins over a copy of it"
    with pytest.raises(ValueError, match="this is no comparison"):
        from_bytes(b"[]", "x.json")
    assert VersionKind.TUNED in {version.kind for version in found.record.versions}


def test_a_link_to_no_pipeline_is_told(home):
    app = opened("fusion", session={"fusion-choice": ""})
    app.query_params["pipeline"] = "nope"
    app.run()
    assert not app.exception
    (warning,) = app.warning
    assert warning.value.startswith("There is no pipeline nope. There are conv_bias_relu")
