"""Studies of reuse: what a record refuses, and when reuse pays."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine.records.payoff import calls_until, load_speedup, payoffs, sentences, sizes_until
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status
from engine.records.reuse import DynamicShapes, GraphUse, PlanCost, Reuse, Series, SizePlan, Times, Transplant, Way
from engine.records.run import Phases, RunKind, RunRecord
from engine.records.samples import Samples
from engine.records.timings import Timings
from engine.runs.archive_reading import read_run_file
from engine.runs.recordings import SHIPPED


def times(*values):
    return Times(values_ms=values)


def cost(engine=4, cold=500.0, load=1.0, compiled=True, **more):
    name = f"eng{engine}"
    known = {"cold_ms": times(cold), "load_ms": times(load), "first_load_ms": times(load * 10), "precompiled": True}
    return PlanCost(
        identity=PlanIdentity(engine_id=engine), plan_name=name, modes={}, compiled=compiled, **{**known, **more}
    )


def size(number, build=None, **more):
    return SizePlan(size=number, build_ms=build, refused=None if build is not None else "no dynamic shape.", **more)


def shapes(static, cached, **more):
    numbers = tuple(8 * (place + 1) for place in range(len(static)))
    made = [
        Series(way=way, sizes=tuple(size(n, b) for n, b in zip(numbers, builds, strict=True)), **kept)
        for way, builds, kept in ((Way.STATIC, static, {}), (Way.CACHE, cached, more))
    ]
    return DynamicShapes(letter="n", sizes=numbers, series=tuple(made))


def study(**more):
    return Reuse(**{"on_gpu": False, "repeats": 1, "costs": (cost(),), **more})


@pytest.fixture
def recorded() -> RunRecord:
    return read_run_file((SHIPPED / "matmul.zip").read_bytes()).run


@pytest.mark.parametrize("values", [(), (-1.0,), (0.0,), (1e-300,), (1e300,), (float("nan"),), (float("inf"),)])
def test_times_can_be_drawn_and_divided(values):
    with pytest.raises(ValidationError):
        Times(values_ms=values)


def test_a_size_has_a_plan_or_a_reason():
    with pytest.raises(ValidationError):
        SizePlan(size=8)
    with pytest.raises(ValidationError):
        SizePlan(size=8, build_ms=1.0, refused="no")


def test_a_study_has_every_size_in_every_way_once():
    good = shapes([300, 300], [500, 4])
    static, cached = good.series
    short = cached.model_copy(update={"sizes": cached.sizes[:1]})
    turned = cached.model_copy(update={"sizes": cached.sizes[::-1]})
    for changed in (
        {"series": (static, short)}, {"series": (static, turned)}, {"series": (static, static)},
        {"sizes": (8,)}, {"sizes": (8, 8)}, {"sizes": (), "series": ()},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            DynamicShapes.model_validate(good.model_dump() | changed)
    assert DynamicShapes.model_validate(good.model_dump()) == good


@pytest.mark.parametrize("count", ["", "0", "-1", "ten", "1.5"])
def test_replays_are_told_by_how_many_executions_they_have(count):
    with pytest.raises(ValidationError):
        GraphUse(
            identity=PlanIdentity(engine_id=1), plan_name="eng1", compiled=True, captured=True,
            replays={count: Samples.of([1.0])},
        )  # fmt: skip


def test_a_cost_pays_once_as_many_calls_save_as_much():
    assert calls_until(1000.0, 3.0) == 334
    assert calls_until(999.0, 3.0) == 333
    assert calls_until(1000.0, 0.0) is None and calls_until(1000.0, -1.0) is None
    assert calls_until(0.0, -1.0) == 0 and calls_until(-5.0, 1.0) == 0


def test_speedups_are_medians_over_plans_and_kinds_are_not_mixed():
    costs = [
        cost(1, 500, 1),
        cost(2, 300, 1),
        cost(3, 90, 1),
        cost(4, 99, 1, compiled=False, again_ms=times(0.2)),
        cost(5, cold_ms=None),
    ]
    assert load_speedup(costs) == 300
    assert load_speedup(costs[:2]) == 400
    assert load_speedup(costs, compiled=False) == pytest.approx(0.2)
    assert load_speedup([]) is None


def test_the_kernel_cache_pays_from_the_size_on_where_it_has_cost_less():
    assert sizes_until(shapes([300, 300, 300], [500, 4, 4])) == 2
    assert sizes_until(shapes([300, 300], [200, 4])) == 1
    assert sizes_until(shapes([1, 1], [500, 4])) is None
    assert sizes_until(shapes([300, 300, 300], [4, 900, 4])) is None, "ahead once, and not in the end"
    assert sizes_until(shapes([300, 300, 300, 900], [4, 900, 4, 4])) == 4
    assert sizes_until(shapes([300, 300], [None, None])) is None


def test_break_even_of_a_study_beside_a_sweep(recorded):
    """Every number in the sentence is in one of the two records."""
    key = recorded.first_pick.key
    timings = Timings(hot=Samples.of([20.0] * 5))
    pick = PlanRecord(
        identity=PlanIdentity(engine_id=1), plan_name="eng1", modes={"A": 0}, status=Status.OK, stage=Stage.TIME,
        workspace_bytes=0, timings=timings,
    )  # fmt: skip
    best = pick.model_copy(
        update={
            "identity": PlanIdentity(engine_id=2), "plan_name": "eng2", "modes": {"A": 1},
            "timings": Timings(hot=Samples.of([15.0] * 5)),
        }
    )  # fmt: skip
    swept = recorded.model_copy(update={"plans": (pick, best), "phases": Phases(total_s=2.0)})
    reuse = study(costs=(cost(1, cold=0.4, compiled=False), cost(2, load=5.0)))
    told = payoffs(recorded.model_copy(update={"reuse": reuse, "kind": RunKind.PLAN}), swept)
    assert [one.what for one in told] == ["Tuning", "Shipping the serialized plan"]
    assert [one.calls for one in told] == [400_000, 9_920]  # 2 s / 5 us; (50 - 0.4) ms / 5 us
    assert "has paid after about 400,000 calls: the sweep took 2.0 s" in told[0].sentence
    assert all("swept on NVIDIA H200" in one.source for one in told)
    close = best.model_copy(update={"timings": Timings(hot=Samples.of([19.95] * 5)), "workspace_bytes": 0})
    large = pick.model_copy(update={"workspace_bytes": 64})
    for plans, words in (((pick,), "its winner is the first pick"), ((large, close), "tie")):
        (tuning,) = payoffs(recorded.model_copy(update={"reuse": study()}), swept.model_copy(update={"plans": plans}))
        assert tuning.calls is None and "never pays by speed alone" in tuning.sentence and words in tuning.formula
    assert payoffs(recorded, swept) == [] == payoffs(recorded.model_copy(update={"reuse": reuse}), None)
    assert key


def test_sentences_of_a_study_without_a_gpu():
    told = list(sentences(study(shapes=shapes([300, 300], [500, 4], cache_bytes=40_000, reloaded_ms=0.5))))
    text = " ".join(told)
    assert "Loading is 500x faster than a cold build: the median of 1 plan compiled at run time." in told
    assert "enforce_precompiled accepts the 1 plan" in text
    assert "builds 2 sizes in 504.0 ms" in text and "paid from size number 2 on" in text
    assert "loaded by another process it builds the first size in 500.0 µs, new it took 500.0 ms." in text
    assert told[-1].startswith("Built and loaded without a GPU")


def test_the_kernel_cache_is_compared_where_both_ways_built_and_its_loss_is_said():
    told = list(sentences(study(shapes=shapes([300, 300, 300], [500, None, 4]))))
    assert "A shared kernel cache builds 2 sizes in 504.0 ms; each on its own takes 600.0 ms." in told
    lost = list(sentences(study(shapes=shapes([1, 1], [500, 4]))))
    assert lost[
        lost.index("A shared kernel cache builds 2 sizes in 504.0 ms; each on its own takes 2.000 ms.") + 1
    ] == ("It has not paid by the last of them.")
    assert not any("on its own" in one for one in sentences(study(shapes=shapes([300, None], [None, 4]))))
    one = list(sentences(study(shapes=shapes([300], [500]))))
    assert "A shared kernel cache builds 1 size in 500.0 ms; on its own it takes 300.0 ms." in one
    assert "It has not paid with one size." in one
    more = shapes([300], [500]).model_dump()
    more["series"][0]["sizes"][0]["plans"] = 9
    assert any(
        one.endswith("and chooses among more plans.")
        for one in sentences(study(shapes=DynamicShapes.model_validate(more)))
    )


def test_what_the_kernel_caches_plan_costs_in_speed_stands_beside_what_it_saves():
    def both(own_us, shared_us, right=True):
        ways = ((Way.STATIC, own_us, True), (Way.CACHE, shared_us, right))
        series = tuple(
            Series(
                way=way,
                sizes=tuple(size(8 * n, 5.0, right=is_right, hot=Samples.of([us])) for n, us in enumerate(times, 1)),
            )
            for way, times, is_right in ways
        )
        return list(sentences(study(shapes=DynamicShapes(letter="n", sizes=(8, 16)[: len(own_us)], series=series))))

    told = "Where both are right, running its plan takes {} the time of the best static one."
    assert told.format("1.10x to 1.25x") in both((10.0, 20.0), (11.0, 25.0))
    assert told.format("1.10x") in both((10.0,), (11.0,))
    assert not any("best static" in one for one in both((10.0,), (5.0,), right=False))


def test_a_compute_cache_that_nothing_was_put_into_is_no_warm_cache():
    said = "The driver's compute cache stayed empty, so a warm build was no other than a cold one."
    assert said in list(sentences(study(costs=(cost(cache_bytes=0),))))
    assert said not in list(sentences(study(costs=(cost(cache_bytes=0), cost(5, cache_bytes=9)))))
    assert said not in list(sentences(study(costs=(cost(compiled=False, cache_bytes=0),))))


def test_sentences_tell_refusals_wrong_results_and_recompiling():
    refused = shapes([300, 300], [None, None])
    wrong = DynamicShapes(
        letter="n",
        sizes=(8, 24),
        series=(Series(way=Way.OVERRIDE, sizes=(size(8, 1.0, right=True), size(24, 0.0, right=False, max_rel=0.9))),),
    )
    assert "No kernel cache for 2 of 2 sizes: no dynamic shape." in list(sentences(study(shapes=refused)))
    assert "Wrong with override shape at n = 24." in list(sentences(study(shapes=wrong)))
    assert any("compiles anew for 1 plan: eng4" in s for s in sentences(study(costs=(cost(precompiled=False),))))


def test_sentences_of_cuda_graphs():
    def use(engine, **more):
        known = {"identity": PlanIdentity(engine_id=engine), "plan_name": f"eng{engine}", "compiled": False}
        return GraphUse(**{**known, "captured": True, **more})

    replays = {"1": Samples.of([12.0]), "100": Samples.of([10.0])}
    good = use(1, call_us=Samples.of([25.0]), replays=replays, populated=True, updated=True, new_data=True)
    stale = use(2, captured=False, new_data=False)
    assert good.removed_us == 15.0 and stale.removed_us is None
    told = list(sentences(study(on_gpu=True, graphs=(good, stale))))
    assert "Stream capture works for 1 of 2 plans, the native calls for 1." in told
    assert "A CUDA graph of many executions removes 15.00 µs of a call's time." in told
    assert "A replay gave an old answer for eng2." in told
    slow = use(3, call_us=Samples.of([9.5]), replays=replays)
    told = list(sentences(study(on_gpu=True, graphs=(good, slow))))
    assert "A CUDA graph of many executions adds 0.5000 µs to a call of 1 plan." in told
    assert not any("without a GPU" in sentence for sentence in told)


def test_a_study_goes_through_json_inside_its_run(recorded):
    transplant = Transplant(tuned_at=8, run_at=16, plan_name="eng4", builds=False, message="no")
    dynamic = shapes([300, 300], [500, 4]).model_copy(update={"matrix": (transplant,)})
    run = recorded.model_copy(update={"reuse": study(shapes=dynamic)})
    assert RunRecord.model_validate_json(run.model_dump_json()).reuse == run.reuse
