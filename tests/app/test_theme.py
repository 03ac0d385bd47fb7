"""Numbers, colours and origins as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import combinations

import numpy as np
import pytest

from app import theme
from engine.records.plan import Status
from engine.records.run import RunKind, Source
from tests.app.sample_runs import GPU, ok_plan, run_of

LIGHT, DARK = "#ffffff", "#0e1117"
# Machado, Oliveira, Fernandes 2009, severity 1.0
SIGHT = {
    "normal": np.eye(3),
    "protanope": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranope": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    bright, dark = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def oklab(rgb: np.ndarray) -> np.ndarray:
    to_lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return to_lab @ np.cbrt(np.clip(to_lms @ rgb, 0, None))


@pytest.mark.parametrize(
    "colour",
    [*theme.ENGINE_COLOURS, theme.OTHER_COLOUR, theme.FASTEST_COLOUR, theme.FIRST_PICK_COLOUR, theme.TORCH_COLOUR]
    + [style.colour for style in theme.STATUS_STYLES.values()],
)
def test_every_colour_stands_out_in_light_and_dark(colour: str) -> None:
    assert contrast(colour, LIGHT) >= 3
    assert contrast(colour, DARK) >= 3


@pytest.mark.parametrize("sight", SIGHT)
def test_engine_colours_stay_apart_for_every_sight(sight: str) -> None:
    seen = [oklab(np.clip(SIGHT[sight] @ linear(colour), 0, 1)) for colour in theme.ENGINE_COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 0.11


def test_every_status_has_its_own_word_and_a_sign() -> None:
    assert set(theme.STATUS_STYLES) == set(Status)
    words = [style.label for style in theme.STATUS_STYLES.values()]
    assert len(set(words)) == len(words)
    assert all(style.sign and style.icon.startswith(":material/") for style in theme.STATUS_STYLES.values())


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (81.6349, 3, "81.6"),
        (120600, 3, "121,000"),
        (9.996, 3, "10.0"),
        (0.0123456, 2, "0.012"),
        (1e-9, 1, "0.000000001"),
        (0, 3, "0"),
        (-2.5, 2, "-2.5"),
        (None, 3, "–"),
        (math.nan, 3, "–"),
        (math.inf, 3, "–"),
        (999.6, 3, "1,000"),
        (7, 1, "7"),
    ],
)
def test_numbers_have_the_digits_asked_for(value: float | None, digits: int, text: str) -> None:
    assert theme.fmt_number(value, digits) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [(10.24, "10.2 µs"), (999.4, "999 µs"), (999.7, "1.00 ms"), (120600.0, "121 ms"), (2.5e6, "2.50 s"), (None, "–")],
)
def test_times_choose_their_unit(us: float | None, text: str) -> None:
    assert theme.fmt_us(us) == text


def test_digits_follow_the_spread() -> None:
    assert theme.digits_for(100, 99.8, 100.2) == 3
    assert theme.digits_for(100, 90, 110) == 2
    assert theme.fmt_us(41.87, theme.digits_for(41.87, 30, 60)) == "42 µs"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (theme.fmt_bytes(0), "0 B"),
        (theme.fmt_bytes(999), "999 B"),
        (theme.fmt_bytes(1536), "1.50 KiB"),
        (theme.fmt_bytes(150_000_000_000), "140 GiB"),
        (theme.fmt_bytes(None), "–"),
        (theme.fmt_ratio(1.274), "1.27x"),
        (theme.fmt_ratio(1480.2), "1,480x"),
        (theme.fmt_percent(0.803), "80 %"),
        (theme.fmt_percent(0.0421), "4.2 %"),
        (theme.fmt_error(0.0), "0 (exact)"),
        (theme.fmt_error(0.00391), "3.9e-3"),
        (theme.fmt_error(2.0), "2.0"),
        (theme.fmt_error(1e-12), "1.0e-12"),
        (theme.fmt_flops(14_797_504_512), "14.8 GFLOP"),
        (theme.fmt_flops(12), "12 FLOP"),
        (theme.fmt_ms(553.1), "550 ms"),
    ],
)
def test_units(made: str, text: str) -> None:
    assert made == text


def test_a_recording_is_never_called_this_machines() -> None:
    run = run_of([ok_plan(1, 80.0)])
    recorded = theme.provenance(run, recorded=True)
    assert recorded.label == "recorded on NVIDIA H200, cuDNN 9.19.0, 2026-01-02"
    assert theme.provenance(run, recorded=False).label.startswith("measured here on NVIDIA H200")
    imported = theme.provenance(run, recorded=False, here=False).label
    assert "here" not in imported
    assert GPU.name in imported


def test_what_was_not_measured_says_so() -> None:
    planned = run_of([ok_plan(1, 80.0)]).model_copy(update={"kind": RunKind.PLAN})
    assert theme.provenance(planned, recorded=True).label == "planned, not measured"
    assert theme.source_label(Source.SPECIFICATION) == "public specification"
    assert theme.source_label(Source.READ_OFF) == "read off a device"
    assert theme.fmt_date(datetime(2026, 3, 4, tzinfo=UTC)) == "2026-03-04"
