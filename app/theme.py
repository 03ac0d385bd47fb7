"""How numbers, statuses and origins look and read, everywhere the same. Pure: no streamlit, no plotly.

Every colour here stands out from both of Streamlit's backgrounds by at least 3:1 (WCAG 2.2, 1.4.11), so one palette
serves light and dark, and no meaning is carried by colour alone: each comes with a symbol and a word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal

from engine.records.plan import Status
from engine.records.run import RunKind, RunRecord, Source

ENGINE_COLOURS = ("#6088fe", "#fe6108", "#b5377d", "#07a3be", "#3664cb", "#b44609", "#dd5c77")
"""Chosen to stay apart (OKLab distance 0.11 or more) for normal, protanope and deuteranope sight."""
OTHER_COLOUR = "#858b99"
FASTEST_COLOUR = "#15945f"
FIRST_PICK_COLOUR = "#b87a06"
TORCH_COLOUR = "#9a6dd7"
WRONG_COLOUR = "#e03a2f"
INTERVAL_COLOUR = "#6f7686"
LINE_COLOUR = "rgba(133, 139, 153, 0.45)"
SELECTED_FILL = "rgba(96, 136, 254, 0.20)"

NOTHING = "–"
"""What stands where there is no value."""

CHART_CONFIG: dict[str, object] = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
    "scrollZoom": False,
}
"""For ``st.plotly_chart(config=...)``: nothing on it leads off the page or takes the page's scrolling."""


def fmt_number(value: float | None, digits: int = 3) -> str:
    """A number of so many significant digits, written out, thousands set apart: 120600 gives 121,000."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    exact = Decimal(repr(float(value)))
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_HALF_EVEN)
    if rounded.adjusted() > exact.adjusted():  # 9.996 became 10.00: one digit too many
        rounded = rounded.quantize(Decimal(1).scaleb(rounded.adjusted() - digits + 1), ROUND_HALF_EVEN)
    return f"{rounded:,f}" if rounded.as_tuple().exponent <= 0 else f"{int(rounded):,}"  # type: ignore[operator]


def digits_for(median: float, low: float, high: float) -> int:
    """Significant digits that timings spread from ``low`` to ``high`` support: two above 10 % spread, else three."""
    return 2 if median > 0 and (high - low) / median > 0.1 else 3


def fmt_us(us: float | None, digits: int = 3) -> str:
    """A time given in microseconds, in the unit that leaves one to three digits before the point."""
    if us is None or not math.isfinite(us):
        return NOTHING
    for limit, scale, unit in ((1e3, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if abs(us) < limit * (1 - 0.5 * 10**-digits):
            return f"{fmt_number(us * scale, digits)} {unit}"
    return f"{fmt_number(us * 1e-6, digits)} s"


def fmt_ms(ms: float | None, digits: int = 2) -> str:
    """A time given in milliseconds that was taken once, as a build is: two digits."""
    return fmt_us(None if ms is None else ms * 1e3, digits)


def fmt_bytes(count: float | None) -> str:
    """Bytes in binary units (1 KiB = 1024 B), three significant digits."""
    if count is None or not math.isfinite(count):
        return NOTHING
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1000:
            return f"{size:,.0f} B" if unit == "B" else f"{fmt_number(size)} {unit}"
        size /= 1024
    return f"{fmt_number(size)} TiB"


def fmt_flops(count: float | None) -> str:
    """Floating-point operations in powers of a thousand: 14.8 GFLOP."""
    if count is None or not math.isfinite(count):
        return NOTHING
    size = float(count)
    for prefix in ("", "K", "M", "G", "T"):
        if abs(size) < 999.5:
            return f"{fmt_number(size) if prefix else f'{size:.0f}'} {prefix}FLOP"
        size /= 1000
    return f"{fmt_number(size)} PFLOP"


def fmt_ratio(ratio: float | None) -> str:
    """A factor: 1.274 gives 1.27x."""
    return NOTHING if ratio is None or not math.isfinite(ratio) else f"{fmt_number(ratio)}x"


def fmt_percent(share: float | None) -> str:
    """A share of one as a whole percentage (one decimal below 10 %)."""
    if share is None or not math.isfinite(share):
        return NOTHING
    return f"{share * 100:.1f} %" if share < 0.0995 else f"{share * 100:.0f} %"


def fmt_error(value: float | None) -> str:
    """An error against the reference: two significant digits, as a power of ten, for its order is what matters."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return "0 (exact)" if value == 0 else f"{value:.1e}".replace("e-0", "e-").replace("e+00", "")


def fmt_date(when: datetime) -> str:
    """A day, as ISO 8601 writes it."""
    return f"{when:%Y-%m-%d}"


@dataclass(frozen=True)
class StatusStyle:
    """How an outcome is shown: a word, a sign for tables and texts, a Material icon, a plotly symbol and a colour."""

    label: str
    sign: str
    icon: str
    symbol: str
    colour: str

    @property
    def text(self) -> str:
        """Sign and word."""
        return f"{self.sign} {self.label}"


STATUS_STYLES: dict[Status, StatusStyle] = {
    Status.LISTED: StatusStyle("listed", "○", ":material/list:", "circle-open", OTHER_COLOUR),
    Status.OK: StatusStyle("ok", "✓", ":material/check:", "circle", FASTEST_COLOUR),
    Status.UNSUPPORTED: StatusStyle("unsupported", "⊘", ":material/block:", "circle-x-open", OTHER_COLOUR),
    Status.BUILD_FAILED: StatusStyle("build failed", "✗", ":material/build:", "x-thin", WRONG_COLOUR),
    Status.EXEC_FAILED: StatusStyle("execution failed", "✗", ":material/error:", "x-thin", WRONG_COLOUR),
    Status.WRONG_RESULT: StatusStyle("wrong result", "≠", ":material/rule:", "x", WRONG_COLOUR),
    Status.TIMEOUT: StatusStyle("timed out", "◷", ":material/timer_off:", "hourglass-open", WRONG_COLOUR),
    Status.CRASHED: StatusStyle("crashed", "↯", ":material/bolt:", "asterisk", WRONG_COLOUR),
    Status.CANCELLED: StatusStyle("cancelled", "–", ":material/cancel:", "line-ew", OTHER_COLOUR),
}


@dataclass(frozen=True)
class Provenance:
    """Where numbers come from, as it stands beside every chart: a few words, an icon, a colour name of Streamlit's."""

    label: str
    icon: str
    colour: str


PUBLIC_SPECIFICATION = Provenance("public specification", ":material/menu_book:", "gray")
"""Of a roofline, and of a target whose properties nobody read off a device."""
PLANNED = Provenance("planned, not measured", ":material/architecture:", "orange")


def provenance(run: RunRecord, *, recorded: bool, here: bool = True) -> Provenance:
    """Origin of a run's numbers.

    ``recorded``: it ships with the project; ``here``: this machine measured it (False for an imported run). A recording
    is never called this machine's.
    """
    studied = run.reuse is not None and run.reuse.on_gpu
    if (run.kind is RunKind.PLAN and not studied) or run.environment.gpu is None:
        return PLANNED
    what = f"{run.environment.gpu.name}, cuDNN {run.environment.cudnn_backend}, {fmt_date(run.started_at)}"
    if recorded:
        return Provenance(f"recorded on {what}", ":material/inventory_2:", "blue")
    if not here:
        return Provenance(f"imported, measured on {what}", ":material/file_open:", "blue")
    return Provenance(f"measured here on {what}", ":material/speed:", "green")


def source_label(source: Source) -> str:
    """Where a target's description comes from, as it stands beside the target."""
    return PUBLIC_SPECIFICATION.label if source is Source.SPECIFICATION else source.value
