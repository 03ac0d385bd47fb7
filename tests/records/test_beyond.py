"""What asking beyond the heuristics brought, told either way."""

import uuid
from datetime import UTC, datetime

import pytest

from engine.records.beyond import beyond_the_heuristics
from engine.records.options import SweepOptions
from engine.records.plan import PlanIdentity, PlanOrigin, PlanRecord, Stage, Status
from engine.records.run import RunRecord
from engine.records.samples import Samples
from engine.records.sentences import sentences
from engine.records.timings import Timings
from engine.runs.recordings import Recordings

EXPLICIT, ENGINE, KNOBS = PlanOrigin.EXPLICIT, PlanOrigin.ENGINE_LIST, PlanOrigin.KNOB_SEARCH


@pytest.fixture(scope="module")
def recorded():
    """A shipped recording, whose graph and environment do for any run."""
    recordings = Recordings()
    summary = next(summary for summary in recordings.summaries() if summary.measured and summary.pipeline == "matmul")
    return recordings.get(summary.id)


@pytest.fixture
def swept(recorded):
    def run(*plans, **options) -> RunRecord:
        content = {**dict(recorded), "plans": plans, "options": SweepOptions(**options), "id": uuid.uuid4().hex}
        return RunRecord(**{**content, "started_at": datetime.now(UTC), "confirmation": None, "phases": None})

    return run


def listed(us):
    return measured(4, us, modes={"A": 0})


def measured(engine, us, origin=PlanOrigin.HEURISTICS, modes=None, **knobs):
    samples = Samples.of([us * (1 + 0.0005 * (place % 3)) for place in range(100)])
    return PlanRecord(
        identity=PlanIdentity(engine_id=engine, knobs=knobs),
        plan_name=f"eng{engine}",
        modes=modes or {},
        origin=origin,
        status=Status.OK,
        stage=Stage.TIME,
        timings=Timings(hot=samples),
        blob_sha256="0" * 64,
        blob_bytes=1,
        workspace_bytes=0,
    )


def ended(engine, origin, status):
    identity = PlanIdentity(engine_id=engine)
    return PlanRecord(
        identity=identity, plan_name="p", modes={}, origin=origin, status=status, stage=Stage.EXECUTE, message="why"
    )


def told(run):
    return [sentence.text for sentence in sentences(run) if sentence.topic == "unlisted"]


def test_nothing_was_asked_and_nothing_is_told(swept, recorded):
    for run in (swept(listed(10.0)), recorded):
        assert beyond_the_heuristics(run) == () and told(run) == []


def test_an_unlisted_plan_that_wins(swept):
    asked, won = told(swept(listed(10.0), measured(9, 8.0, ENGINE), every_engine=True))
    assert asked == "Besides the listed plans: 1 plan of engines that no mode lists (1 measured)."
    assert "beats every listed one" in won


def test_one_that_ties_has_not_won(swept):
    _, won = told(swept(listed(10.0), measured(9, 9.99, KNOBS, KERNEL_CFG=1), knob_budget=1))
    assert "ties" in won and "beats" not in won


def test_none_that_is_faster_is_told_too(swept):
    run = swept(
        listed(10.0),
        measured(9, 12.0, ENGINE),
        measured(4, 11.0, KNOBS, KERNEL_CFG=1),
        ended(49, EXPLICIT, Status.TIMEOUT),
        ended(50, ENGINE, Status.CRASHED),
        every_engine=True,
        knob_budget=20,
        explicit=(PlanIdentity(engine_id=49),),
    )
    asked, won = told(run)
    assert "none is faster" in won and "1 explicit plan (0 measured, 1 timeout)" in asked
    by_origin = {tally.origin: tally for tally in beyond_the_heuristics(run)}
    assert (by_origin[ENGINE].plans, by_origin[ENGINE].measured, by_origin[ENGINE].failed) == (
        2,
        1,
        {Status.CRASHED: 1},
    )
    assert by_origin[EXPLICIT].failed == {Status.TIMEOUT: 1}


def test_a_plan_that_was_built_and_hung_is_not_said_to_be_unbuilt():
    recordings = Recordings()
    hung = next(s for s in recordings.summaries() if recordings.get(s.id).options.explicit)
    (tally,) = beyond_the_heuristics(recordings.get(hung.id))
    assert (tally.plans, tally.measured, tally.failed) == (1, 0, {Status.TIMEOUT: 1})
    assert tally.sentence == "1 explicit plan (0 measured, 1 timeout)"


def test_where_nothing_was_measured_nothing_is_claimed(swept):
    for run in (
        swept(listed(10.0), every_engine=True),
        swept(listed(10.0), ended(49, EXPLICIT, Status.TIMEOUT), explicit=(PlanIdentity(engine_id=49),)),
    ):
        asked, won = told(run)
        assert asked.startswith("Besides the listed plans: ") and "not known" in won
    nothing = swept(ended(49, EXPLICIT, Status.UNSUPPORTED), explicit=(PlanIdentity(engine_id=49),))
    assert told(nothing) == [], "a run without times has no verdict"
    assert beyond_the_heuristics(nothing)[0].failed == {Status.UNSUPPORTED: 1}


def test_a_graph_that_only_unlisted_plans_can_do(swept):
    _, won = told(swept(measured(9, 8.0, ENGINE), every_engine=True))
    assert won.startswith("No listed plan was measured")
