"""What an fp32 plan multiplies in: when its error tells, when its notes do, and when neither does."""

import pytest

from engine.graph.tensors import DataType
from engine.records.arithmetic import TF32_OPERANDS, Arithmetic, arithmetic, seen_arithmetic
from engine.records.plan import OutputAccuracy, PlanIdentity, PlanRecord, Stage, Status

TF32, FLOAT32 = 1.5e-3, 3e-6
PLAIN = 4e-5
"""What float32 alone may be off by in these graphs."""


def output(max_rel, *, elements=4096, tolerance=TF32_OPERANDS + PLAIN, **more):
    values = {"max_abs": max_rel, "max_rel": max_rel, "unwritten": 0, "nonfinite": 0}
    return OutputAccuracy(name="C", elements=elements, tolerance=tolerance, **{**values, **more})


def plan(*accuracy, status=Status.OK, **more):
    built = {"blob_sha256": "0" * 64, "blob_bytes": 1} if status is not Status.LISTED else {}
    identity = PlanIdentity(engine_id=4)
    content = {"identity": identity, "plan_name": "eng4", "modes": {"A": 0}, "status": status, "stage": Stage.TIME}
    return PlanRecord(**{**content, **built, "accuracy": accuracy, **more})


@pytest.mark.parametrize(
    ("accuracy", "seen"),
    [
        ([output(TF32)], Arithmetic.TF32_SEEN),
        ([output(FLOAT32)], Arithmetic.FLOAT32_SEEN),
        ([output(FLOAT32), output(TF32)], Arithmetic.TF32_SEEN),
        ([output(0.0)], Arithmetic.FLOAT32_SEEN),
        ([], None),
        # One element may be right by chance.
        ([output(FLOAT32, elements=1)], None),
        ([output(TF32, elements=1)], Arithmetic.TF32_SEEN),
        # So many products are summed that float32 may be as far off as TF32.
        ([output(TF32, tolerance=TF32_OPERANDS + 2e-3)], None),
        # A wrong result, and a foreign file's tolerance, say nothing about the operands.
        ([output(1.0)], None),
        ([output(TF32, unwritten=1)], None),
        ([output(TF32, tolerance=2e-3)], None),
    ],
)
def test_the_error_tells_where_it_can(accuracy, seen):
    assert seen_arithmetic(DataType.FP32, accuracy) == seen
    assert seen_arithmetic(DataType.BF16, accuracy) is None


@pytest.mark.parametrize("noted", [("TENSOR_CORE",), ()])
def test_the_error_outweighs_the_notes(noted):
    assert arithmetic(DataType.FP32, plan(output(TF32), numerical_notes=noted)) is Arithmetic.TF32_SEEN
    assert arithmetic(DataType.FP32, plan(output(FLOAT32), numerical_notes=noted)) is Arithmetic.FLOAT32_SEEN
    assert arithmetic(DataType.FP16, plan(output(TF32), numerical_notes=noted)) is None


def test_without_an_error_the_notes_tell():
    assert arithmetic(DataType.FP32, plan(numerical_notes=("TENSOR_CORE",))) is Arithmetic.TF32_NOTED
    assert arithmetic(DataType.FP32, plan()) is Arithmetic.FLOAT32_NOTED


def test_notes_that_were_never_asked_for_tell_nothing():
    assert arithmetic(DataType.FP32, plan(status=Status.LISTED)) is Arithmetic.UNKNOWN
    assert arithmetic(DataType.FP32, plan(behavior_notes=("CUBLASLT_DEPENDENCY",))) is Arithmetic.UNKNOWN
    assert arithmetic(DataType.FP32, plan(message="Only its serialized form carries this plan.")) is Arithmetic.UNKNOWN


def test_a_wrong_plan_is_judged_by_its_notes():
    wrong = plan(output(0.5), status=Status.WRONG_RESULT, message="C is off", numerical_notes=("TENSOR_CORE",))
    assert arithmetic(DataType.FP32, wrong) is Arithmetic.TF32_NOTED
