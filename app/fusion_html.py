"""A comparison as one HTML file that opens anywhere, offline: the drawings, the charts with their pointers' texts, the
numbers and the method. Pure.

plotly's own script goes into the file, for nobody at the other end may have a connection. Every foreign text is escaped
or written by a serializer.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from app.fusion_charts import Chart, charts
from app.fusion_drawing import after_svg, before_svg
from app.fusion_tables import launches_table, versions_table
from app.fusion_words import METHOD, bytes_sentence, environment_facts, provenance_of, refusal_lines
from app.graph_nodes import cleaned
from app.table_view import Table
from app.theme import CHART_CONFIG, LINE_COLOUR
from engine.graph.cost import cost
from engine.graph.cutting import cut
from engine.graph.spec import GraphSpec
from engine.records.fusion import FusionRecord, VersionKind
from engine.records.fusion_caveats import caveats
from engine.records.fusion_sentences import best_fused, sentences
from engine.records.wording import several

_HERE = Path(__file__).parent
KEY = (
    '<div class="key"><span><i class="kernel"></i>operation</span><span><i></i>tensor in memory</span>'
    '<span><i class="chip"></i>tensor that never reaches memory</span>'
    '<span><i class="torch"></i>runs in torch: cuDNN refuses it alone</span></div>'
)
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""Whatever a script in the file were to ask for, the browser sends nothing."""


def pair_html(record: FusionRecord) -> str:
    """The drawings before and after, side by side, with a legend."""
    torch = frozenset(i for i, piece in enumerate(record.pieces) if piece.runs_on == "torch")
    best, unfused = best_fused(record), record.version(VersionKind.UNFUSED)
    kernels = (unfused.kernels if unfused else None, best.kernels if best else None)
    return drawings_html(record.graph, torch, kernels, bool(record.fused_refusal))


def drawings_html(
    spec: GraphSpec,
    in_torch: frozenset[int] = frozenset(),
    kernels: tuple[int | None, int | None] = (None, None),
    refused: bool = False,
) -> str:
    """The graph unfused and fused beside each other; one operation is drawn once. ``in_torch``: places of pieces that
    cuDNN refuses alone. ``kernels``: as the profiler counted them, unfused and fused. ``refused``: cuDNN has no plan
    for the whole graph, so that there is no after."""
    counted = [f": {several(count, 'kernel')}" if count is not None else "" for count in kernels]
    before = before_svg(spec, in_torch)
    if len(cut(spec).pieces) == 1:
        single = f"<div><h4>One operation{counted[1]}</h4>{before}</div>"
        return f'<div class="drawing"><div class="pair">{single}</div></div>'
    second = "<p>cuDNN has no plan for the whole graph.</p>" if refused else after_svg(spec, kernels[1])
    return (
        f'<div class="drawing"><div class="pair"><div><h4>Unfused{counted[0]}</h4>{before}</div>'
        f"<div><h4>Fused{counted[1]}</h4>{second}</div></div>{KEY}</div>"
    )


def table_html(table: Table) -> str:
    """A table in plain HTML."""
    head = "".join(f'<th title="{escape(column.meaning)}">{escape(column.title)}</th>' for column in table.columns)
    rows = []
    for row in table.rows:
        cells = zip(row.cells, table.columns, strict=True)
        texts = (f"<td{_number(column.number)}>{escape(cleaned(cell.text))}</td>" for cell, column in cells)
        rows.append(f"<tr>{''.join(texts)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def saved_html(record: FusionRecord, recorded: bool) -> bytes:
    """The file."""
    total, origin = cost(cut(record.graph)), provenance_of(record, recorded, here=False)
    title = f"Fusion: {escape(cleaned(record.label))}"
    sections = [("What is fused", f"<p>{escape(bytes_sentence(total))}</p>{pair_html(record)}")]
    said = "".join(f"<p>{escape(cleaned(text))}</p>" for text in sentences(record))
    sections += [(chart.title, _chart(chart)) for chart in charts(record)]
    if record.versions:
        odd = "".join(f"<li>{escape(cleaned(text))}</li>" for text in caveats(record))
        table = table_html(versions_table(record))
        sections.append(("Every version", f'<div class="scroll">{table}</div><ul>{odd}</ul>'))
    method = "".join(f"<p>{escape(text)}</p>" for text in (*METHOD, *refusal_lines(record.pieces)))
    counted = f'<div class="scroll">{table_html(launches_table(record))}</div>'
    sections.append(("How it was measured", method + _environment(record) + counted))
    slides = "".join(f"<section><h2>{escape(name)}</h2>{body}</section>" for name, body in sections)
    style = (_HERE / "fusion_view.css").read_text(encoding="utf-8") + (_HERE / "fusion_file.css").read_text("utf-8")
    script = (_HERE / "fusion_file.js").read_text(encoding="utf-8")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{title}</title><style>{style}</style>'
        f"<script>{get_plotlyjs()}</script></head><body><header><h1>{title}</h1><p>{escape(cleaned(origin.label))}. "
        '<span class="hint">P presents one figure at a time; arrow keys turn the page, Escape ends it.</span></p>'
        f"{said}</header>{slides}<footer>{escape(cleaned(f'{record.what} · {origin.label}'))}</footer>"
        f"<script>{script}</script></body></html>"
    )
    return page.encode()


def _chart(chart: Chart) -> str:
    below = f'<p class="caption">{escape(chart.caption)}</p>'
    if chart.table is not None:
        table = f'<div class="scroll">{table_html(chart.table)}</div>'
        below += f"<details><summary>As a table</summary>{table}</details>"
    return _figure(chart.figure) + below


def _figure(figure: go.Figure) -> str:
    plain = go.Figure(figure)
    plain.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", autosize=True)
    plain.update_xaxes(gridcolor=LINE_COLOUR, automargin=True)
    plain.update_yaxes(gridcolor=LINE_COLOUR)
    config = {**CHART_CONFIG, "responsive": True, "displayModeBar": False}
    return str(plain.to_html(full_html=False, include_plotlyjs=False, config=config))


def _environment(record: FusionRecord) -> str:
    facts = environment_facts(record)
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(cleaned(value))}</td></tr>" for name, value in facts)
    return f"<table>{rows}</table>"


def _number(is_number: bool) -> str:
    return ' class="n"' if is_number else ""
