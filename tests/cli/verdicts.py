"""What holds of the best plan in the JSON of a run without constraints: of sweeps on a GPU, and of runs kept."""

from __future__ import annotations

from typing import Any

import pytest

from engine.records.verdict import SAME_SHARE, SAME_US


def check_best(told: dict[str, Any]) -> None:
    """The best is the verdict's winner: one of those that tie with the smallest median, and none of these has a smaller
    workspace."""
    verdict, plans = told["verdict"], {plan["key"]: plan for plan in told["plans"]}
    tied, spans = verdict["tie_set"], verdict["intervals"]
    assert set(spans) == {key for key, plan in plans.items() if plan["status"] == "ok"}
    for key, span in spans.items():
        assert span["low"] <= span["median"] <= span["high"]
        assert span["median"] == pytest.approx(plans[key]["hot_us"]["median"], rel=1e-6)
    in_time = [key for key in spans if plans[key]["stopped"] != "screened"] or list(spans)
    least = min((spans[key] for key in in_time), key=lambda span: span["median"])

    def ties(span: dict[str, float]) -> bool:
        within = span["median"] - least["median"] <= max(SAME_SHARE * least["median"], SAME_US)
        return within or (span["low"] <= least["high"] and least["low"] <= span["high"])

    assert set(tied) == {key for key in in_time if ties(spans[key])}
    assert [spans[key]["median"] for key in tied] == sorted(spans[key]["median"] for key in tied)
    assert told["best"] == verdict["winner"] and told["best"] in tied
    sizes = [plans[key]["workspace_bytes"] for key in tied]
    assert plans[told["best"]]["workspace_bytes"] == min(sizes)
