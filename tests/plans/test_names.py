"""Names of the kernels behind engine ids, read out of the plans that were serialized on an H200 and are shipped."""

import pytest

from engine.plans.names import LONGEST, engine_label, kernel_name, kernel_names, short_name
from engine.records.plan import PlanIdentity, PlanRecord, Stage, Status
from engine.runs.recordings import Recordings

COMPILED = "RUNTIME_COMPILATION"


@pytest.fixture(scope="module")
def recorded():
    """(plan, serialized form) of every built plan of the recordings."""
    recordings = Recordings()
    runs = [recordings.get(summary.id) for summary in recordings.summaries()]
    return [
        (plan, recordings.blob(run.id, plan.blob_sha256))
        for run in runs
        for plan in run.plans
        if plan.blob_sha256 is not None
    ]


def test_every_compiled_plan_names_its_kernel_and_no_other_does(recorded):
    assert len(recorded) > 100
    for plan, blob in recorded:
        names = kernel_names(blob)
        assert bool(names) == (COMPILED in plan.behavior_notes), plan.plan_name
        assert kernel_name(blob) == (names[0] if names else None)


def test_a_name_agrees_with_the_plan_that_it_is_of(recorded):
    """What can be checked of it: the knob that it repeats."""
    checked = 0
    for plan, blob in recorded:
        configuration, name = plan.identity.knobs.get("KERNEL_CFG"), kernel_name(blob)
        if name and configuration is not None:
            assert f"_knob_{configuration}_" in name
            checked += 1
    assert checked > 80


def test_short_names_of_what_was_recorded(recorded):
    found = {engine_label(plan.model_copy(update={"engine_name": kernel_name(blob)})) for plan, blob in recorded}
    assert {None, "cuBLASLt", "fort_native_sm90 128x128x64", "fort_native_sm80 128x128x32"} <= found
    assert all(name is None or len(name) < 80 for name in found)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (
            "cudnn_generated_fort_native_sm90_matMul_pointwise_reduction_knob_23_128x128x32_10_0",
            "fort_native_sm90 128x128x32",
        ),
        (
            "cudnn_generated_convFwd_pointwise_xmma_sm90_knob_33_256x64x32_64x64x32_1_kernel0_0",
            "xmma_sm90 256x64x32",
        ),
        ("cudnn_generated_convFwd_pointwise_fort_ffma_grouped_sm50_kernel0_0", "fort_ffma_grouped_sm50"),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0",
            "fort_native_sdpa_sm90_flash_fprop_wgmma_f16 64x128x64",
        ),
        ("something_else", "something_else"),
        ("matMul", "matMul"),
    ],
)
def test_short_names(kernel, expected):
    assert short_name(kernel) == expected


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"junk",
        b'{"cudnnVersion"',
        b'{"cudnnVersion":1,"engine":[]}',
        b'{"cudnnVersion":1,"engine":{"payload":7}}',
        b'{"cudnnVersion":1,"engine":{"payload":{"kernels":[7,{"kernelName":5},{}]}}}',
        b'{"cudnnVersion":' + b"[" * 100_000,
    ],
)
def test_what_is_no_plan_names_nothing(blob):
    assert kernel_names(blob) == ()


def test_a_tensor_that_is_called_like_a_kernel_is_none():
    blob = b'{"cudnnVersion":1,"operationGraph":{"tensors":[{"kernelName":"mine"}]},"engine":{"engineId":4}}'
    assert kernel_name(blob) is None


def test_a_name_is_cut_to_what_a_record_holds():
    name = kernel_name(b'{"cudnnVersion":1,"engine":{"payload":{"kernels":[{"kernelName":"' + b"x" * 500 + b'"}]}}}')
    assert len(name) == LONGEST
    PlanRecord(
        identity=PlanIdentity(engine_id=4),
        plan_name="eng4",
        modes={},
        status=Status.LISTED,
        stage=Stage.LIST,
        engine_name=name,
    )
