"""FE 1086: a small matmul whose calls cost the host more than the GPU."""

from __future__ import annotations


def sampled(told):
    """Plans that screening did not leave behind: only these are called often enough to know."""
    assert all(plan["dominates"] is None for plan in told["plans"] if plan["host_us"] is None)
    return [plan for plan in told["plans"] if plan["host_us"] is not None]


def test_fe_1086_a_small_matmuls_host_cost_is_its_own_number_and_said_to_dominate(show):
    told, text = show("matmul", m="256", n="256", k="256", b="1")
    assert told["parameters"]["dtype"] == "bf16" and len(sampled(told)) > 3
    for plan in sampled(told):
        assert plan["host_us"]["samples"] >= 50 and plan["hot_us"]["samples"] >= 50
        assert plan["host_us"]["median"] > 2 * plan["hot_us"]["median"]
        assert plan["dominates"] == "host"
    best = next(plan for plan in told["plans"] if plan["key"] == told["best"])
    host, hot = f"{best['host_us']['median']:.4g} us of the host", f"{best['hot_us']['median']:.4g} us of the GPU"
    (line,) = [line for line in text.splitlines() if line.startswith("per call")]
    assert "the host dominates" in line and host in line and hot in line


def test_fe_1086_of_a_large_one_the_gpu_dominates(show):
    told, text = show("matmul_epilogue", m="4096")
    assert {plan["dominates"] for plan in sampled(told)} == {"gpu"}
    assert "the GPU dominates" in text
