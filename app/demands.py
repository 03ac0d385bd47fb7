"""What is demanded of a winner, between a person's words, a link's text and constraints. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

from engine.graph.errors import InvalidInput, invalid
from engine.records.constraints import Constraints
from engine.records.wording import count_bytes

NONE = "none"
_ONE = r"(?:workspace:\d{1,18}|deterministic|capturable)"
SHAPE = re.compile(rf"{NONE}|{_ONE}(?:,{_ONE}){{0,2}}")
_UNITS = {"": 1, "b": 1, **{unit + more: 1024**i for i, unit in enumerate("kmgt", 1) for more in ("", "ib")}}
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*([a-z]{0,3})")
_BEYOND = 2**63
"""What no record of a run can hold."""
_REMEDY = "Write 0, 64 KiB, 1 MiB or 2 GiB, or leave it empty for no limit."


def read(text: str, otherwise: Constraints) -> Constraints:
    """The constraints of a link's text; ``otherwise`` where it has none."""
    if not text:
        return otherwise
    parts = dict(part.partition(":")[::2] for part in text.split(","))
    limit = parts.get("workspace")
    return Constraints(None if limit is None else int(limit), "deterministic" in parts, "capturable" in parts)


def written(constraints: Constraints) -> str:
    """The text that ``read`` understands."""
    limit = constraints.workspace_limit_bytes
    parts = [] if limit is None else [f"workspace:{limit}"]
    parts += ["deterministic"] * constraints.deterministic_only + ["capturable"] * constraints.capturable_only
    return ",".join(parts) or NONE


def read_limit(text: str) -> int | None:
    """A number of bytes as people write it, None for no limit; raises InvalidInput."""
    given = text.strip().lower()
    if not given:
        return None
    found = _SIZE.fullmatch(given)
    if found is None or found[2] not in _UNITS:
        raise invalid("workspace", text, "must be a size in bytes, KiB, MiB, GiB or TiB.", _REMEDY)
    size = Decimal(found[1]) * _UNITS[found[2]]
    if size >= _BEYOND:
        raise invalid("workspace", text, "no GPU has so much memory.", _REMEDY)
    return int(size)


def limit_text(limit: int | None) -> str:
    """What stands in the field for a limit: read again, it is the same number of bytes."""
    if limit is None:
        return ""
    short, plain = count_bytes(limit), str(limit)
    try:
        return short if read_limit(short) == limit else plain
    except InvalidInput:  # of thousands of tebibytes
        return plain
