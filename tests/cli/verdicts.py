"""What holds of the best plan in the JSON of a run without constraints: of sweeps on a GPU, and of runs kept."""

from __future__ import annotations

from typing import Any

from engine.records.verdict import SAME_SHARE, SAME_US


def check_best(told: dict[str, Any]) -> None:
    """The best is the verdict's winner, one of those that tie with the smallest median,
    and of these none has a smaller workspace."""
    verdict, plans = told["verdict"], {plan["key"]: plan for plan in told["plans"]}
    measured = {key: plan["hot_us"]["median"] for key, plan in plans.items() if plan["status"] == "ok"}
    unscreened = {key: us for key, us in measured.items() if plans[key]["stopped"] != "screened"} or measured
    tied, spans = verdict["tie_set"], verdict["intervals"]
    least = min(unscreened.values())
    assert told["best"] == verdict["winner"] and told["best"] in tied
    assert set(spans) == set(measured)
    assert unscreened[tied[0]] == least

    def ties(key: str) -> bool:
        within = unscreened[key] - least <= max(SAME_SHARE * least, SAME_US)
        return within or spans[key]["low"] <= spans[tied[0]]["high"]

    assert {key for key in unscreened if ties(key)} == set(tied)
    sizes = {key: plans[key]["workspace_bytes"] for key in tied}
    if None not in sizes.values():
        assert sizes[told["best"]] == min(sizes.values())
