"""What `sweep` makes of the options that say how it measures."""

from __future__ import annotations

import pytest

from engine.cli.measuring import parse_bytes, parse_measuring
from engine.graph.errors import InvalidInput
from engine.records.options import DataKind, Preset, SweepOptions


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("0", 0), ("131", 131), ("64M", 64 << 20), ("64 MiB", 64 << 20), ("2g", 2 << 30)],
)
def test_sizes(text, bytes_):
    assert parse_bytes(text) == bytes_


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must be a whole number"),
        ("-1", "must be a whole number"),
        ("plenty", "must be a whole number"),
        ("1.5G", "must be a whole number"),
        ("M", "must be a whole number"),
        ("9223372036854775808", "no GPU has so much memory"),
        ("99999999999G", "no GPU has so much memory"),
        ("9" * 5000, "no GPU has so much memory"),
    ],
)
def test_what_is_no_size(text, rule):
    with pytest.raises(InvalidInput, match=rule):
        parse_bytes(text)


def test_every_option_reaches_the_sweep():
    fields = parse_measuring("thorough", "positive", -40.0, "1G", True, True)
    options = SweepOptions(**fields)
    assert options.preset is Preset.THOROUGH and options.data is DataKind.POSITIVE and options.score_shift == -40.0
    assert options.workspace_limit_bytes == 1 << 30 and options.deterministic_only and options.capturable_only


def test_nothing_said_is_the_default():
    assert SweepOptions(**parse_measuring("standard", "normal", 0.0, None, False, False)) == SweepOptions()
