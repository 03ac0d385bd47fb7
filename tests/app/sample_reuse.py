"""Studies of reuse with plainly invented numbers, for tests of what draws them. Nothing here was measured."""

from __future__ import annotations

from engine.records.plan import PlanIdentity
from engine.records.reuse import DynamicShapes, GraphUse, PlanCost, Reuse, Series, SizePlan, Times, Transplant, Way
from engine.records.run import RunKind
from tests.app.sample_runs import ok_plan, run_of, samples

SIZES = (8, 16, 24)


def times(*values):
    return Times(values_ms=values)


def cost(engine, cold, load, compiled=True, **more):
    known = {
        "cold_ms": times(cold * 0.9, cold, cold * 1.2),
        "warm_ms": times(cold / 10),
        "first_load_ms": times(load * 20),
        "again_ms": None if compiled else times(cold / 4),
        "load_ms": times(load, load * 1.1),
        "precompiled": True,
        "blob_bytes": 50_000,
    }
    identity = PlanIdentity(engine_id=engine)
    return PlanCost(identity=identity, plan_name=f"eng{engine}", modes={}, compiled=compiled, **{**known, **more})


def size(number, build_ms, us=None, **more):
    if build_ms is None:
        return SizePlan(size=number, refused="no dynamic shape here.")
    hot = samples(us) if us else None
    known = {
        "identity": PlanIdentity(engine_id=7),
        "plan_name": "eng7",
        "plans": 3,
        "list_ms": 12.0,
        "right": None if us is None else True,
    }
    return SizePlan(size=number, build_ms=build_ms, hot=hot, **{**known, **more})


def shapes(on_gpu=True):
    us = (10.0, 20.0, 30.0) if on_gpu else (None,) * 3
    wrong = {"right": False, "max_rel": 0.9, "complaint": "C is wrong"} if on_gpu else {}
    static = tuple(size(n, 300.0, u) for n, u in zip(SIZES, us, strict=True))
    cached = (size(8, 500.0, us[0] and 15.0), size(16, 3.0, us[1] and 25.0), size(24, 3.0, us[2] and 60.0))
    override = (size(8, 0.0, us[0] and 11.0), size(16, 0.0, us[1] and 5.0, **wrong), size(24, 400.0, us[2] and 30.0))
    return DynamicShapes(
        letter="n",
        sizes=SIZES,
        series=(
            Series(way=Way.STATIC, sizes=static),
            Series(way=Way.CACHE, sizes=cached, cache_bytes=40_000, reloaded_ms=0.4),
            Series(way=Way.OVERRIDE, sizes=override),
        ),
        matrix=tuple(
            Transplant(
                tuned_at=a,
                run_at=b,
                plan_name=f"eng{a}",
                builds=(a, b) != (8, 24),
                message="no" if (a, b) == (8, 24) else None,
                right=True if on_gpu and (a, b) != (8, 24) else None,
                hot=samples(b * (1.0 if a == b else 1.5)) if on_gpu and (a, b) != (8, 24) else None,
            )
            for a in SIZES
            for b in SIZES
        ),
    )


def use(engine, captured=True, **more):
    known = {"call_us": samples(25.0)}
    if captured:
        replays = {"1": samples(14.0), "10": samples(11.0), "100": samples(10.0)}
        known |= {"replays": replays, "new_data": True, "bound": True}
    else:
        known |= {"capture_message": "it cannot be captured"}
    identity = PlanIdentity(engine_id=engine)
    return GraphUse(identity=identity, plan_name=f"eng{engine}", compiled=False, captured=captured, **{**known, **more})


def study(on_gpu=True, **more):
    known = {"costs": (cost(4, 500.0, 1.0), cost(0, 0.2, 0.8, compiled=False)), "shapes": shapes(on_gpu)}
    graphs = (use(4, populated=True, updated=True, update_right=True), use(0, captured=False)) if on_gpu else ()
    return Reuse(**{"on_gpu": on_gpu, "repeats": 3, "graphs": graphs, **known, **more})


def studied_run(on_gpu=True, **more):
    run = run_of([ok_plan(4, 10.0, timings=None, blob_sha256=None, blob_bytes=None)], name="matmul")
    environment = run.environment if on_gpu else run.environment.model_copy(update={"gpu": None})
    known = {"kind": RunKind.PLAN, "baseline": None, "reuse": study(on_gpu), "environment": environment}
    return run.model_copy(update={**known, **more})
