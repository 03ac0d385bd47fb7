"""Records of a comparison, and what may be said of one. All numbers here are invented."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from engine.graph.cost import cost, piece_bytes
from engine.graph.cutting import cut
from engine.graph.pipelines import pipeline
from engine.records.attribution import Cause, steps
from engine.records.environment import Environment, GpuInfo
from engine.records.fusion import (
    FusionRecord,
    Launch,
    MeasuredCeilings,
    PieceRecord,
    Version,
    VersionKind,
)
from engine.records.fusion_sentences import ONE, WORDS, best_fused, comparisons, sentences
from engine.records.passport import OutputAccuracy
from engine.records.rates import fastest_gbps
from engine.records.run import Refusal, RunStatus, Source, TargetInfo
from engine.records.samples import Samples
from engine.records.timings import Timings
from engine.records.wording import factor, microseconds

GPU = GpuInfo(name="NVIDIA H200", uuid="GPU-0", compute_capability="9.0", sm_count=132, memory_bytes=150_000_000_000)
RIGHT = OutputAccuracy(name="Y", max_abs=0.01, max_rel=0.001, unwritten=0, nonfinite=0, elements=9, tolerance=0.01)
REFUSED = Refusal(message="cuDNN has no execution plan for this graph.")
KERNELS = {VersionKind.EAGER: 5, VersionKind.IDIOMATIC: 4, VersionKind.UNFUSED: 5}


def samples(median_us: float) -> Samples:
    """41 of them, one percent around the median."""
    return Samples.of(np.linspace(median_us * 0.99, median_us * 1.01, 41), 20)


def version(kind: VersionKind, hot_us: float | None, moved: int | None = None, **more: object) -> Version:
    """A right version; with a message in place of a time where there is none."""
    launch = Launch(name="k", kind="kernel", us=1.0)
    fields = {"launches": (launch,) * KERNELS.get(kind, 1), "bytes_moved": moved, "accuracy": (RIGHT,)}
    if hot_us is None:
        return Version(kind=kind, message="it does not run.", accuracy=(RIGHT,))
    return Version(kind=kind, timings=Timings(hot=samples(hot_us)), **{**fields, **more})


def pieces_of(graph, main_us: float | None) -> tuple[PieceRecord, ...]:
    """Pieces, all timed: those that sum products as given, the others 16 µs each. None: nothing is timed."""
    return tuple(
        PieceRecord(
            label=piece.label,
            origin=piece.origin,
            contracts=piece.operation.contracts,
            runs_on="torch" if piece.label in ("amax", "softmax") else "cudnn",
            refusal=REFUSED if piece.label in ("amax", "softmax") else None,
            bytes_moved=piece_bytes(piece),
            flops=piece.spec.flops(),
            hot=samples(main_us if piece.operation.contracts else 16.0) if main_us else None,
        )
        for piece in cut(graph).pieces
    )


def record(times: dict[VersionKind, float | None], name: str = "matmul_epilogue", main_us: float | None = 26.0, **more):
    """A comparison with these hot times."""
    graph = pipeline(name).graph({})
    found = cost(cut(graph))
    moved = {kind: found.fused_bytes for kind in (VersionKind.FIRST_PICK, VersionKind.TUNED)}
    plans = {VersionKind.FIRST_PICK: ("1", "eng1"), VersionKind.TUNED: ("2", "eng2")}
    fields = {
        "id": "0" * 32,
        "status": RunStatus.DONE,
        "pipeline": name,
        "parameters": {},
        "graph": graph,
        "target": TargetInfo(name="local", gpu_name=GPU.name, sm=90, memory_bytes=1, source=Source.DEVICE),
        "environment": Environment(
            gpu=GPU, cudnn_backend="9.19.0", cudnn_frontend="1.32.0", python="3.11", host="h", os="Linux"
        ),
        "started_at": datetime(2026, 1, 2, tzinfo=UTC),
        "pieces": pieces_of(graph, main_us),
        "versions": tuple(
            version(kind, us, moved.get(kind, found.unfused_bytes), plan=plans.get(kind)) for kind, us in times.items()
        ),
        "ceilings": MeasuredCeilings(
            copy_bytes=1 << 30, copy_us=samples(250.0), matmul_flops=1 << 40, matmul_us=samples(1400.0),
            launch_us=samples(1.5),
        ),
    }  # fmt: skip
    return FusionRecord(**{**fields, **more})


K = VersionKind
FULL = {K.EAGER: 100.0, K.IDIOMATIC: 80.0, K.COMPILED: 60.0, K.UNFUSED: 90.0, K.FIRST_PICK: 40.0, K.TUNED: 30.0}


def test_a_record_survives_json():
    made = record(FULL)
    assert FusionRecord.model_validate_json(made.model_dump_json()) == made
    assert made.version(K.EAGER).kernels == 5 and made.version(K.FLASH) is None
    assert made.ceilings.copy_gbps == pytest.approx((1 << 30) / 250e-6 / 1e9, rel=1e-4)
    assert made.ceilings.matmul_tflops == pytest.approx((1 << 40) / 1400e-6 / 1e12, rel=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timings": Timings(hot=samples(1.0))},
        {"timings": Timings(hot=samples(1.0)), "accuracy": (RIGHT.model_copy(update={"max_rel": 0.5}),)},
        {"accuracy": (RIGHT,)},
    ],
)
def test_a_version_is_timed_where_it_is_right_and_else_says_why(wrong):
    with pytest.raises(ValidationError):
        Version(kind=K.EAGER, **wrong)


def test_a_piece_runs_in_torch_where_it_is_refused_and_nowhere_else():
    fields = {"label": "amax", "origin": 0, "contracts": False, "bytes_moved": 1, "flops": 1}
    for runs_on, refusal in (("torch", None), ("cudnn", REFUSED)):
        with pytest.raises(ValidationError):
            PieceRecord(**fields, runs_on=runs_on, refusal=refusal)


def test_what_was_measured_was_measured_on_a_gpu():
    made = record(FULL)
    with pytest.raises(ValidationError):
        FusionRecord(**{**dict(made), "environment": made.environment.model_copy(update={"gpu": None})})
    with pytest.raises(ValidationError):
        FusionRecord(**{**dict(made), "versions": (*made.versions, made.versions[0])})


def test_steps_lead_from_eager_to_tuned_without_a_gap():
    made = record(FULL)
    found = steps(made)
    assert [step.cause for step in found] == [
        Cause.LIBRARY, Cause.LAUNCHES, Cause.TRAFFIC, Cause.KERNELS, Cause.ENGINE, Cause.TUNING,
    ]  # fmt: skip
    assert found[0].before_us == pytest.approx(100.0) and found[-1].after_us == pytest.approx(30.0)
    assert all(a.after_us == b.before_us for a, b in pairwise(found))
    assert np.prod([step.factor for step in found]) == pytest.approx(100.0 / 30.0)
    launches, traffic, kernels, engine = found[1:5]
    assert launches.saved_us == pytest.approx(4 * 1.5)
    saved = made.version(K.UNFUSED).bytes_moved - made.version(K.TUNED).bytes_moved
    assert traffic.saved_us == pytest.approx(saved / made.ceilings.copy_gbps * 1e-3)
    assert kernels.saved_us == pytest.approx(64.0 - launches.saved_us - traffic.saved_us)
    assert [bool(step.estimate) for step in found] == [False, True, True, True, True, False]
    assert engine.before_us == pytest.approx(26.0) and engine.saved_us < 0, "the epilogue costs the engine something"
    logs = [math.log(step.factor) / step.saved_us for step in (launches, traffic, kernels)]
    assert logs == pytest.approx([logs[0]] * 3), "a part's factor does not depend on which part comes first"


def test_launches_never_save_more_than_there_was_beside_the_main_kernel():
    found = steps(record({**FULL, K.UNFUSED: 28.0}, main_us=1000.0))
    launches = next(step for step in found if step.cause is Cause.LAUNCHES)
    assert launches.saved_us == pytest.approx(28.0 * 64 / 1064)
    assert all(step.cause is not Cause.TRAFFIC for step in found), "nothing is left for it"


def test_bytes_never_save_more_than_is_left():
    slow = record(FULL).ceilings.model_copy(update={"copy_us": samples(1e6)})
    found = steps(record(FULL, ceilings=slow))
    assert Cause.TRAFFIC in {step.cause for step in found} and Cause.KERNELS not in {step.cause for step in found}


def test_no_piece_is_charged_more_for_its_bytes_than_it_ran():
    """A piece that lives in the L2 moves its bytes faster than the memory could."""
    made = record(FULL)
    rate = made.ceilings.copy_gbps

    def charged(us: dict[str, float]) -> float:
        pieces = tuple(piece.model_copy(update={"hot": samples(us[piece.label])}) for piece in made.pieces)
        found = steps(made.model_copy(update={"pieces": pieces}))
        return next(step.saved_us for step in found if step.cause is Cause.TRAFFIC)

    took = {"matmul": 26.0, "scale": 3.0, "bias": 16.0, "gelu": 16.0, "amax": 29.0}
    assert sum(took.values()) == made.timed(K.UNFUSED).hot.median_us
    moved = {piece.label: piece.bytes_moved for piece in made.pieces if not piece.contracts}
    alone = {label: min(moved[label] / rate * 1e-3, took[label] - 1.5) for label in moved}
    assert alone["scale"] == 1.5 < moved["scale"] / rate * 1e-3
    assert charged(took) == pytest.approx(sum(alone.values()), rel=1e-4)
    assert charged({label: us / 2 for label, us in took.items()}) == pytest.approx(charged(took)), "shares, not times"


def test_what_an_attention_s_products_write_is_charged_to_them():
    made = record({**FULL, K.EAGER: 500.0, K.UNFUSED: 490.0}, name="sdpa", main_us=20.0)
    traffic = next(step for step in steps(made) if step.cause is Cause.TRAFFIC)
    saved = made.version(K.UNFUSED).bytes_moved - made.version(K.FIRST_PICK).bytes_moved
    assert traffic.saved_us == pytest.approx(saved / made.ceilings.copy_gbps * 1e-3)
    brief = tuple(p.model_copy(update={"hot": samples(1e-3)}) if p.contracts else p for p in made.pieces)
    quick = next(step for step in steps(made.model_copy(update={"pieces": brief})) if step.cause is Cause.TRAFFIC)
    moved = sum(piece.bytes_moved for piece in made.pieces if not piece.contracts)
    assert quick.saved_us == pytest.approx(moved / made.ceilings.copy_gbps * 1e-3)


def test_pieces_give_a_share_and_not_a_time():
    """Timed alone they run at clocks of their own."""
    twice = tuple(piece.model_copy(update={"hot": samples(piece.hot.median_us * 2)}) for piece in record(FULL).pieces)
    for one, other in zip(steps(record(FULL, pieces=twice)), steps(record(FULL)), strict=True):
        assert (one.before_us, one.after_us) == pytest.approx((other.before_us, other.after_us))


def test_without_ceilings_or_times_of_the_pieces_less_is_told_apart():
    causes = [step.cause for step in steps(record(FULL, ceilings=None, main_us=None))]
    assert causes == [Cause.LIBRARY, Cause.TRAFFIC, Cause.TUNING]
    causes = [step.cause for step in steps(record(FULL, main_us=None))]
    assert causes == [Cause.LIBRARY, Cause.LAUNCHES, Cause.TRAFFIC, Cause.KERNELS, Cause.TUNING]


def test_an_attention_s_products_are_no_measure_of_the_fused_engine():
    found = steps(record({**FULL, K.EAGER: 500.0, K.UNFUSED: 490.0}, name="sdpa", main_us=20.0))
    assert Cause.ENGINE not in {step.cause for step in found}
    assert all(a.after_us == b.before_us for a, b in pairwise(found))


def test_where_fusing_is_no_faster_it_has_one_step():
    found = steps(record({K.EAGER: 30.0, K.UNFUSED: 30.0, K.FIRST_PICK: 40.0}, main_us=None))
    assert [(step.cause, step.factor) for step in found[1:]] == [(Cause.ENGINE, pytest.approx(0.75))]


def test_the_fastest_rate_is_the_copy_s_or_that_of_a_piece_beyond_the_l2():
    made = record(FULL)
    assert (fastest_gbps(made).by, fastest_gbps(made).gbps) == ("copy", made.ceilings.copy_gbps)
    gpu = GPU.model_copy(update={"l2_bytes": 1 << 20})
    environment = made.environment.model_copy(update={"gpu": gpu})
    quick = tuple(piece.model_copy(update={"hot": samples(1.0)}) for piece in made.pieces)
    found = fastest_gbps(made.model_copy(update={"environment": environment, "pieces": quick}))
    largest = max(made.pieces, key=lambda piece: piece.bytes_moved)
    assert (found.by, found.gbps) == (largest.label, pytest.approx(largest.bytes_moved * 1e-3))
    roomy = made.environment.model_copy(update={"gpu": GPU.model_copy(update={"l2_bytes": largest.bytes_moved})})
    assert fastest_gbps(made.model_copy(update={"environment": roomy, "pieces": quick})).by == "copy"
    assert fastest_gbps(record(FULL, ceilings=None)) is None


def test_a_tuned_plan_that_is_the_first_pick_is_no_step():
    made = record({**FULL, K.TUNED: 40.0})
    same = tuple(v.model_copy(update={"plan": ("1", "eng1")}) if v.plan else v for v in made.versions)
    assert steps(made.model_copy(update={"versions": same}))[-1].cause is Cause.ENGINE


def test_a_win_is_said_with_its_shares():
    said = sentences(record(FULL))
    assert said[0] == "cuDNN fused, tuned is 3.33x faster than torch eager, operation by operation."
    causes, how = said[1].split(". ", 1)
    assert causes.startswith("By cause: 1.11x from cuDNN's kernels for the same operations, about ")
    assert causes.endswith("(a loss), 1.33x from tuning")
    found = [step for step in steps(record(FULL)) if step.estimate]
    assert how.startswith("What says “about” is an estimate from the same run: ") and found
    for step in found:
        assert f"about {factor(step.factor)} from {WORDS[step.cause]}" in causes and step.estimate in how
    measured = sentences(record({**FULL, K.UNFUSED: None}))[1]
    assert "By cause" in measured and "about" not in measured
    assert said[2] == "Its hardest rival is torch.compile: fused is 2.00x faster."


def test_versions_of_an_fp32_graph_that_multiply_in_something_else_are_named_before_any_gain():
    graph = pipeline("matmul_epilogue").graph({"dtype": "fp32"})
    one = RIGHT.model_copy(update={"elements": 10_000, "tolerance": 6e-3})
    plain, tf32 = ((one.model_copy(update={"max_rel": error}),) for error in (3e-6, 1.5e-3))
    made = record(FULL, graph=graph)
    torch = tuple(v.model_copy(update={"accuracy": plain if v.kind.is_torch else tf32}) for v in made.versions)
    alike = tuple(v.model_copy(update={"accuracy": tf32}) for v in made.versions)
    said = sentences(made.model_copy(update={"versions": torch}))
    assert said[0] == (
        "Not all of the difference is fusing: “cuDNN fused, tuned” multiplies fp32 in TF32 (TF32 keeps 10 bits of "
        "mantissa), “torch eager, operation by operation”, “torch eager, as one writes it” and “torch.compile” in "
        "float32."
    )
    assert "3.33x faster than torch eager" in said[1]
    for same in (made.model_copy(update={"versions": alike}), record(FULL)):
        assert not any("TF32" in text for text in sentences(same))


def test_a_loss_comes_first():
    made = record({**FULL, K.FLASH: 20.0}, name="sdpa")
    said = sentences(made)
    assert said[0] == "torch SDPA, flash is 1.50x faster than cuDNN's fused graph."
    assert "3.33x faster than torch eager" in said[1]
    assert comparisons(made)[0].other.kind is K.FLASH


def test_a_tie_comes_first_and_is_no_win():
    said = sentences(record({**FULL, K.FLASH: 30.05}, name="sdpa"))
    assert said[0] == "Fused by cuDNN it is no faster than “torch SDPA, flash”: the times are within 1 % or 0.1 µs."
    assert not any("rival" in text for text in said)


def test_torch_s_own_fused_kernel_is_named_first():
    one = (Launch(name="k", kind="kernel", us=1.0), Launch(name="m", kind="fill", us=1.0))
    begin = "Torch, as one writes it, already calls one fused kernel here; cuDNN's is "
    for us, how in ((30.1, "not faster: 30.00 µs against 30.10 µs."), (60.0, "2.00x faster"), (20.0, "slower, 1.50x")):
        made = record({**FULL, K.IDIOMATIC: us}, name="sdpa")
        plain = tuple(v.model_copy(update={"launches": one}) if v.kind is K.IDIOMATIC else v for v in made.versions)
        assert sentences(made.model_copy(update={"versions": plain}))[0].startswith(begin + how)
    assert not sentences(record(FULL))[0].startswith("Torch"), "four kernels are no fused one"


def test_a_lead_that_a_cold_l2_takes_away_is_said():
    made = record(FULL)
    said = sentences(cold(made, {K.TUNED: 50.0, K.IDIOMATIC: 40.0, K.COMPILED: 50.1, K.EAGER: 120.0}))
    begin = "That is with a warm L2: with a cold one it is "
    assert begin + "slower than “torch eager, as one writes it”." in said
    assert begin + "no faster than “torch.compile”." in said
    assert not any("warm L2" in text for text in sentences(made))


def test_tuning_that_does_not_pay_is_said():
    said = sentences(record({**FULL, K.TUNED: 45.0}))
    assert said[-1].startswith("Tuning did not pay") and said[-1].endswith("45.00 µs against 40.00 µs.")
    assert not any("Tuning" in text for text in sentences(record({**FULL, K.TUNED: 40.2})))


def test_where_eager_is_as_fast_no_gain_is_claimed():
    said = sentences(record({K.EAGER: 30.0, K.TUNED: 30.0, K.FIRST_PICK: 30.0}))
    assert said == (
        "Fused by cuDNN it is no faster than “torch eager, operation by operation”: "
        "the times are within 1 % or 0.1 µs.",
    )


def test_the_faster_fused_version_counts_and_shares_lead_to_it():
    made = record({**FULL, K.TUNED: 45.0})
    assert best_fused(made).kind is K.FIRST_PICK
    assert sentences(made)[0].startswith("cuDNN fused, first pick is 2.50x faster than")
    assert "tuning" not in sentences(made)[1]


def test_without_a_first_pick_the_steps_lead_to_the_tuned_plan():
    made = record({**FULL, K.FIRST_PICK: None})
    found = steps(made)
    assert found[-1].after_us == made.timed(K.TUNED).hot.median_us
    assert math.isclose(math.prod(step.factor for step in found), found[0].before_us / found[-1].after_us)
    assert Cause.TUNING not in {step.cause for step in found}


def test_one_operation_is_not_called_fused():
    launches = (Launch(name="k", kind="kernel", us=1.0),)
    plain = version(K.IDIOMATIC, 10.0, launches=launches)
    for name, said in (("matmul", False), ("sdpa", True)):
        made = record({K.TUNED: 8.0}, name=name)
        made = made.model_copy(update={"versions": (plain, *made.versions)})
        assert any("already calls one fused kernel" in text for text in sentences(made)) is said


def test_one_operation_has_nothing_to_fuse_in_every_sentence():
    made = record({**FULL, K.UNFUSED: 30.0}, name="matmul")
    said = sentences(made)
    assert said[0] == ONE and "nothing to fuse" in ONE
    assert all(K.UNFUSED is not one.other.kind for one in comparisons(made))
    assert [step.cause for step in steps(made)] == [Cause.LIBRARY, Cause.TUNING]
    assert not any(words in text for text in said for words in (WORDS[Cause.ENGINE], WORDS[Cause.LAUNCHES], "unfused"))
    assert ONE not in sentences(record(FULL)) and ONE not in sentences(record(FULL, name="sdpa"))


def test_where_torch_as_one_writes_it_is_slower_it_is_said():
    told = f"Torch, as one writes it, is slower here than operation by operation: {microseconds(110)} against "
    assert any(text.startswith(told) for text in sentences(record({**FULL, K.IDIOMATIC: 110.0})))
    for us in (80.0, 100.5, None):
        assert not any("is slower here than operation" in text for text in sentences(record({**FULL, K.IDIOMATIC: us})))


def test_a_version_that_failed_is_said_and_a_refused_graph_too():
    said = sentences(record({**FULL, K.AUTOTUNED: None}))
    assert said[-1] == "torch.compile, max-autotune: it does not run."
    refused = record({K.EAGER: 10.0, K.TUNED: None}, fused_refusal=REFUSED)
    none = f"cuDNN runs no fused version of this graph here: {REFUSED.message}"
    assert sentences(refused) == (none, f"{K.TUNED.words}: it does not run.")
    assert sentences(record({})) == ()


def test_where_nothing_runs_every_reason_is_given():
    made = record(dict.fromkeys(FULL))
    reasons = tuple(f"{kind.words}: it does not run." for kind in FULL)
    assert sentences(made)[1:] == reasons and sentences(made)[0].startswith("No version of this graph ran")
    some = record({**dict.fromkeys(FULL), K.EAGER: 10.0})
    assert sentences(some)[0] == "cuDNN runs no fused version of this graph here."
    assert sentences(some)[1:] == reasons[1:]


def cold(made: FusionRecord, times: dict[VersionKind, float]) -> FusionRecord:
    """With these cold times."""
    versions = tuple(
        v.model_copy(update={"timings": v.timings.model_copy(update={"cold": samples(times[v.kind])})})
        if v.kind in times and v.timings else v
        for v in made.versions
    )  # fmt: skip
    return made.model_copy(update={"versions": versions})


def test_tuning_that_a_cold_l2_undoes_is_said():
    begin = "What tuning gained is gone with a cold L2: the tuned plan is "
    for us, how in ((50.0, "slower there than"), (42.0, "no faster there than")):
        (told,) = (t for t in sentences(cold(record(FULL), {K.TUNED: us, K.FIRST_PICK: 42.1})) if "tuning gained" in t)
        assert told.startswith(begin + how) and f"{us:.2f} µs against 42.10 µs" in told
    for made in (
        cold(record(FULL), {K.TUNED: 35.0, K.FIRST_PICK: 42.0}),
        cold(record({**FULL, K.TUNED: 39.99}), {K.TUNED: 50.0, K.FIRST_PICK: 42.0}),
        record(FULL),
    ):
        assert not any("tuning gained" in text for text in sentences(made))
