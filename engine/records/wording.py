"""Numbers in sentences: no more digits than the data supports, in the unit that suits."""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST_DIGITS = 4


def microseconds(value_us: float, doubt_us: float = 0.0) -> str:
    """A time given in microseconds. ``doubt_us``: how far off it may be; digits below a tenth of that are left out, but
    two always stand."""
    limits = ((1e3, 1.0, "µs"), (1e6, 1e-3, "ms"), (math.inf, 1e-6, "s"))
    scale, unit = next((scale, unit) for limit, scale, unit in limits if value_us < limit * 0.99995)
    return f"{_rounded(value_us * scale, doubt_us * scale)} {unit}"


def span(low_us: float, high_us: float) -> str:
    """Two times with one unit, rounded alike."""
    low, high = (microseconds(value, (high_us - low_us) / 2) for value in (low_us, high_us))
    if low == high:
        return low
    return f"{low.split()[0] if low.split()[1] == high.split()[1] else low} to {high}"


def percent(share: float) -> str:
    """A share of one."""
    return f"{share * 100:.1f} %" if abs(share) < 0.0995 else f"{share * 100:.0f} %"


def factor(ratio: float) -> str:
    """How many times, three significant digits: 1.2634 gives 1.26x."""
    return f"{_rounded(ratio, 0.0, 3)}x"


def count_bytes(count: int | None) -> str:
    """Bytes in binary units."""
    if count is None:
        return "an unknown amount"
    size, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB")
    power = min(int(math.log(size, 1024)) if size >= 1 else 0, len(units) - 1)
    return f"{size / 1024**power:.4g} {units[power]}"


def several(count: int, noun: str) -> str:
    """A count with its noun: 1 plan, 2 plans."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listing(names: Sequence[str], most: int = 4) -> str:
    """Names as people list them; many are cut."""
    shown = [*names[:most], f"{len(names) - most:,} more"] if len(names) > most + 1 else list(names)
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _rounded(value: float, doubt: float, most: int = MOST_DIGITS) -> str:
    first = math.floor(math.log10(value)) if value > 0 else 0
    supported = math.floor(math.log10(doubt)) - 1 if doubt > 0 else first - most + 1
    decimals = -min(max(supported, first - most + 1), first - 1)
    if round(value, decimals) >= 10.0 ** (first + 1):  # 9.9996 became 10.000: one digit too many
        decimals -= 1
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"
