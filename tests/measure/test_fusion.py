"""Versions of one graph on the host: they compute the same, plans per piece are fed the right memory, and a contest
tells everybody's end. Times come from the simulated GPU and mean nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from engine.graph.cutting import Cut, cut
from engine.graph.pipelines import CATALOGUE
from engine.measure import timing as timing_module
from engine.measure.accuracy import Scale, compare, scale_of
from engine.measure.fusion import contest as contest_module
from engine.measure.fusion import lineup as lineup_module
from engine.measure.fusion.contest import Entrant, allowed, contest
from engine.measure.fusion.launches import launches
from engine.measure.fusion.lineup import FusedPlan, lineup
from engine.measure.fusion.torch_versions import compiled, constants, idiomatic, operation_by_operation, with_backend
from engine.measure.fusion.unfused import Unfused
from engine.measure.fusion_kinds import kinds_for
from engine.measure.reference import reference
from engine.measure.screening import Rule
from engine.records.fusion import VersionKind
from tests.measure.simulated_gpu import simulate

RULE = Rule(least=12, error=1.0, budget_s=5.0)


def judged(spec, outputs, values, cut_up=True):
    """The largest relative error over all outputs, and what is allowed."""
    made, wanted = cut(spec), reference(spec, values, torch.float64)
    found = []
    for tensor in spec.outputs:
        scale = scale_of(tensor, wanted[tensor.uid])
        limit = allowed(made, scale, cut_up)
        found.append(compare(tensor, outputs[tensor.uid], wanted[tensor.uid], scale, limit))
    return found


class PiecePlan:
    """What a loaded plan of a piece is: reads its pack by uid, computes in float64, writes its output."""

    def __init__(self, spec, workspace=0):
        self.spec, self.workspace, self.runs = spec, workspace, 0

    def get_workspace_size(self):
        return self.workspace

    def execute(self, pack, workspace, handle=None):
        self.runs += 1
        assert set(pack) == {tensor.uid for tensor in self.spec.tensors}
        assert workspace.numel() >= self.workspace
        values = {}
        for tensor in self.spec.tensors:
            assert tuple(pack[tensor.uid].shape) == tensor.dims
            if tensor.value is not None:
                values[tensor.uid] = float(pack[tensor.uid].flatten()[0])
            else:
                assert pack[tensor.uid].stride() == tensor.strides
                values[tensor.uid] = pack[tensor.uid].double()
        for tensor in self.spec.outputs:
            pack[tensor.uid].copy_(self.spec.walk(values, lambda o, given: o.reference(torch, given))[tensor.uid])


def refused(label):
    return label in ("amax", "softmax")


def unfused_of(spec, buffers):
    made = cut(spec)
    plans = {i: PiecePlan(piece.spec, i) for i, piece in enumerate(made.pieces) if not refused(piece.label)}
    return Unfused(made, buffers, plans, None), plans


# -- Torch


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("way", ["by operation", "idiomatic", "compiled"])
def test_every_way_of_torch_is_right(name, way, dtype, small, cpu_buffers):
    spec = small(name, dtype=dtype)
    buffers = cpu_buffers(spec, seed=5)
    made, values = cut(spec), buffers.values
    run = {
        "by operation": lambda: operation_by_operation(made, {**values, **constants(made, "cpu")}),
        "idiomatic": lambda: idiomatic(spec, values),
        "compiled": lambda: compiled(spec, values, backend="aot_eager"),
    }[way]()
    found = run()
    assert set(found) == {tensor.uid for tensor in spec.outputs}
    assert all(output.passed for output in judged(spec, found, values, way == "by operation")), judged(
        spec, found, values
    )


@pytest.mark.slow
def test_the_real_compiler_takes_the_walk(small, cpu_buffers):
    spec = small("matmul_epilogue")
    values = cpu_buffers(spec).values
    assert all(output.passed for output in judged(spec, compiled(spec, values)(), values, False))


def test_attention_by_one_backend_alone(small, cpu_buffers):
    spec = small("sdpa", hkv=4)
    values = cpu_buffers(spec).values
    assert all(output.passed for output in judged(spec, with_backend(spec, values, VersionKind.MATH)(), values))
    with pytest.raises(RuntimeError):
        with_backend(spec, values, VersionKind.EFFICIENT)()  # of GPUs alone


@pytest.mark.parametrize("scale", [0.125, 1.0])
@pytest.mark.parametrize("causal", ["on", "off"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_what_a_cut_attention_may_be_off_by(dtype, causal, scale, small, cpu_buffers):
    """Enough for right results; and a probability that is dropped is too much."""
    spec = small("sdpa", b=1, sq=256, skv=256, d=64, dtype=dtype, causal=causal, scale=scale)
    values, made = cpu_buffers(spec, seed=1).values, cut(spec)
    run = operation_by_operation(made, {**values, **constants(made, "cpu")})
    (output,) = judged(spec, run(), values)
    assert output.passed and output.max_rel > output.tolerance / 30
    hidden = {uid: v for uid, v in constants(made, "cpu").items()}
    if causal == "on":
        for value in hidden.values():
            value[..., 128:, 0] = float("-inf")
        (wrong,) = judged(spec, operation_by_operation(made, {**values, **hidden})(), values)
        assert wrong.max_rel > output.max_rel


# -- cuDNN, a plan per piece


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_plan_per_piece_computes_the_graph(name, dtype, small, cpu_buffers):
    spec = small(name, dtype=dtype)
    buffers = cpu_buffers(spec, seed=2)
    made, plans = unfused_of(spec, buffers)
    for _ in range(2):
        found = made.run()
        assert all(output.passed for output in judged(spec, found, buffers.values))
        assert {tuple(found[t.uid].shape) for t in spec.outputs} == {t.dims for t in spec.outputs}
    assert {plan.runs for plan in plans.values()} == {2}
    between = sum(tensor.nbytes for tensor in cut(spec).between)
    assert made.held_bytes >= (between if "softmax" not in [p.label for p in cut(spec).pieces] else 0)


def test_a_piece_runs_alone_on_what_it_was_given_last(small, cpu_buffers):
    spec = small("matmul_epilogue")
    made, plans = unfused_of(spec, cpu_buffers(spec))
    made.run()
    made.alone(1)()
    assert [plan.runs for plan in plans.values()] == [1, 2, 1, 1]
    made.alone(4)()  # amax, in torch


# -- A contest


@pytest.fixture
def ready(monkeypatch, small):
    """A session on the simulated GPU with two plans loaded, and the versions of a graph on it."""
    simulated = simulate(monkeypatch)
    monkeypatch.setattr(contest_module, "count_launches", lambda call: None)
    monkeypatch.setattr(timing_module, "EXECUTIONS", 2)  # what a replay holds runs on the host here

    def make(name, **parameters):
        spec = small(name, **parameters)
        session = simulated.make(spec)
        for key, us in (("slow", 40.0), ("fast", 20.0)):
            simulated.plans[key] = us
            assert session.admit(key, key.encode(), 0, None, lambda stage: None).status == "ok"
        made = cut(spec)
        pieces, _ = unfused_of(spec, session.buffers)
        return session, made, pieces

    make.simulated = simulated
    return make


FUSED = {
    VersionKind.FIRST_PICK: FusedPlan("slow", "eng1", 0),
    VersionKind.TUNED: FusedPlan("fast", "eng2", 1 << 20),
}


@pytest.mark.parametrize("pipeline", ["conv_bias_relu", "matmul_epilogue", "sdpa"])
def test_every_version_has_an_end(ready, pipeline, monkeypatch):
    session, made, pieces = ready(pipeline)
    monkeypatch.setattr(
        lineup_module, "compiled", lambda spec, values, mode: compiled(spec, values, backend="aot_eager")
    )
    asked, told = kinds_for(made.graph), []
    found = contest(session, made, lineup(session, made, asked, pieces, FUSED), RULE, 0, told.append)
    assert [version.kind for version in found] == list(asked)
    by_kind = {version.kind: version for version in found}
    assert by_kind[VersionKind.TUNED].timings.hot.median_us == pytest.approx(20.0)
    assert by_kind[VersionKind.FIRST_PICK].timings.hot.median_us == pytest.approx(40.0)
    assert by_kind[VersionKind.TUNED].plan == ("fast", "eng2")
    assert by_kind[VersionKind.COMPILED].compile_s > 0 and by_kind[VersionKind.EAGER].compile_s is None
    for version in found:
        if version.kind in (VersionKind.FLASH, VersionKind.EFFICIENT, VersionKind.CUDNN):
            continue  # on a GPU alone; each says so or runs
        assert version.message is None, version
        assert version.timings.hot.count >= 12 and version.timings.host and version.timings.cold
    assert by_kind[VersionKind.UNFUSED].bytes_moved > by_kind[VersionKind.TUNED].bytes_moved
    assert set(told) >= {version.kind.value for version in found}
    for kind in (VersionKind.EFFICIENT, VersionKind.CUDNN):
        assert kind not in by_kind or by_kind[kind].message


def test_pieces_that_do_not_fit_are_told(ready):
    session, made, _ = ready("matmul_epilogue")
    asked = (VersionKind.UNFUSED, VersionKind.TUNED)
    found = contest(session, made, lineup(session, made, asked, "too large", FUSED), RULE, 0, lambda kind: None)
    assert found[0].message == "too large" and found[0].timings is None and found[1].timings


def test_a_mask_that_does_not_fit_ends_eager_alone(ready, monkeypatch):
    session, made, pieces = ready("sdpa")

    def full(made, device):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(lineup_module, "constants", full)
    asked = (VersionKind.EAGER, VersionKind.UNFUSED, VersionKind.TUNED)
    eager, *others = contest(session, made, lineup(session, made, asked, pieces, FUSED), RULE, 0, lambda kind: None)
    assert "does not fit: CUDA out of memory" in eager.message and eager.timings is None
    assert all(version.timings for version in others)


def test_what_torch_lays_out_otherwise_is_brought_in_order_for_a_plan(small, cpu_buffers, monkeypatch):
    """A piece in torch whose result has other strides than the plan that reads it was built for."""
    spec = small("conv_bias_relu", layout="nhwc")
    buffers, made = cpu_buffers(spec), cut(spec)
    plans = {i: PiecePlan(piece.spec) for i, piece in enumerate(made.pieces) if i != 0}
    (uid,) = made.pieces[0].operation.outputs.values()
    before = Cut.step
    monkeypatch.setattr(Cut, "step", lambda *given: {u: v.contiguous() for u, v in before(*given).items()})
    unfused = Unfused(made, buffers, plans, None)
    found = unfused.run()
    assert unfused._known[uid].stride() != made.owners[uid].strides
    assert all(output.passed for output in judged(spec, found, buffers.values))


def test_a_wrong_version_is_not_timed(ready):
    session, made, _ = ready("matmul")
    (uid,) = session.buffers.outputs

    def wrong():
        return {uid: session.buffers.outputs[uid].clone().fill_(7.0)}

    def broken():
        raise RuntimeError("out of something")

    entrants = [Entrant(VersionKind.EAGER, wrong), Entrant(VersionKind.IDIOMATIC, broken)]
    eager, idiom = contest(session, made, entrants, RULE, 0, lambda kind: None)
    assert eager.timings is None and eager.message.startswith("wrong result: C: the largest relative error")
    assert idiom.timings is None and idiom.message == "out of something"


def test_one_plan_that_is_two_versions_is_sampled_once(ready):
    session, made, pieces = ready("matmul")
    same = dict.fromkeys(FUSED, FUSED[VersionKind.TUNED])
    found = contest(session, made, lineup(session, made, FUSED, pieces, same), RULE, 0, lambda kind: None)
    assert found[0].timings == found[1].timings and found[0].plan == found[1].plan


def test_the_gpu_s_events_are_told_from_the_host_s():
    def event(name, start, us, device=torch.autograd.DeviceType.CUDA, annotation=False):
        span = SimpleNamespace(start=start, elapsed_us=lambda: us)
        return SimpleNamespace(name=name, device_type=device, time_range=span, is_user_annotation=annotation)

    events = [
        event("gemm", 5.0, 3.0),
        event("Memset (Device)", 1.0, 1.0),
        event("aten::matmul", 0.0, 9.0, torch.autograd.DeviceType.CPU),
        event("Memcpy DtoD (Device -> Device)", 9.0, 2.0),
        event("a range", 0.0, 20.0, annotation=True),
    ]
    found = launches(events)
    assert [(one.name, one.kind, one.us) for one in found] == [
        ("Memset (Device)", "fill", 1.0), ("gemm", "kernel", 3.0), ("Memcpy DtoD (Device -> Device)", "copy", 2.0),
    ]  # fmt: skip


def test_a_whole_walk_is_allowed_less_than_a_cut_one(small):
    made = cut(small("sdpa"))
    assert allowed(made, Scale(1.0, 4.0), False) < allowed(made, Scale(1.0, 4.0), True)


@pytest.mark.parametrize("pipeline", CATALOGUE)
def test_backends_are_for_attention_alone(pipeline):
    kinds = kinds_for(CATALOGUE[pipeline].graph({}))
    assert (VersionKind.FLASH in kinds) == (pipeline == "sdpa")
