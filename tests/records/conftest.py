"""Noise to make samples of."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def noisy():
    """Makes samples around a time: seeded, with a relative spread."""
    random = np.random.default_rng(20260301)

    def make(us: float, spread: float = 0.004, count: int = 100) -> np.ndarray:
        return us * np.exp(spread * random.standard_normal(count))

    return make
