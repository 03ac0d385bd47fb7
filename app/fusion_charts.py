"""The fusion page's charts, the words below them and their numbers as tables: one list for the page and the file."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from app.fusion_figures import growth_figure, waterfall_figure
from app.fusion_roofline import roofline_figure
from app.fusion_tables import growth_table, steps_table
from app.table_view import Table
from engine.records.fusion import FusionRecord, VersionKind
from engine.records.wording import listing, several


@dataclass(frozen=True)
class Chart:
    """A figure. ``caption``: how to read it; ``table``: what the pointer tells, unless another table has it."""

    title: str
    figure: go.Figure
    caption: str
    table: Table | None = None


def charts(record: FusionRecord) -> tuple[Chart, ...]:
    """Those that there is something to draw for, in order."""
    found = []
    if (figure := waterfall_figure(record)) is not None:
        caption = (
            "Each bar is what one step saves, or costs; the last is what is left, with the whole factor. Steps that "
            "are called estimated split a measured difference."
        )
        found.append(Chart("From eager to fused", figure, caption, steps_table(record)))
    if (figure := growth_figure(record)) is not None:
        caption = " ".join(
            (
                "The graph grown by one operation at a time. At the right what each adds, fused (the faster of first "
                "pick and tuned) / as a piece of its own.",
                *(f"The piece “{piece}” runs in torch{how}: cuDNN refuses it alone." for piece, how in _torch(record)),
                "Every stage is measured for itself, at its own clock.",
            )
        )
        found.append(Chart("One operation more", figure, caption, growth_table(record)))
    if (figure := roofline_figure(record)) is not None:
        caption = (
            "Rate over intensity, hot; the thick line is the fastest copy or piece too large for the L2, and a large "
            "matmul, of this run, the dotted one the public specification. Where operations fuse, an arrow leads "
            "from unfused to fused. What stays in the L2 between kernels may stand above the slanted line. The dots' "
            "numbers stand under “Every version”."
        )
        if unplaced := [v.kind.words for v in record.versions if v.timings and not v.bytes_moved]:
            caption += f" What moves in {listing([f'“{words}”' for words in unplaced])} is not known: no dot."
        found.append(Chart("Roofline", figure, caption))
    return tuple(found)


def _torch(record: FusionRecord) -> list[tuple[str, str]]:
    """Stages whose new piece runs in torch, and in how many kernels, as the profiler counted."""
    found, before = [], None
    for stage in record.growth:
        unfused = stage.version(VersionKind.UNFUSED)
        kernels = unfused.kernels if unfused else None
        if stage.pieces and stage.pieces[-1].runs_on == "torch":
            more = 0 if kernels is None or before is None else kernels - before
            found.append((stage.added, f" ({several(more, 'kernel')})" if more > 0 else ""))
        before = kernels
    return found
