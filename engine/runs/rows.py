"""Writing and reading the rows of one run, inside a transaction that the store has begun."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from sqlalchemy import Connection, case, func, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from engine.graph.errors import InvalidInput, invalid
from engine.records.constraints import Constraints
from engine.records.plan import PlanRecord
from engine.records.run import RunRecord, RunStatus
from engine.records.verdict import Verdict, verdict
from engine.runs.schema import PLANS, RUNS, STATE
from engine.runs.summary import ACTIVE, Origin, brief, brief_of_row, summarize


def unknown_run(run_id: str) -> InvalidInput:
    """The complaint about an id that no run has."""
    return invalid(
        "run", run_id, "there is no run of this id.", "`runs list` and the Runs page show the ids there are."
    )


def read_head(connection: Connection, run_id: str) -> tuple[RunRecord, Origin]:
    """A run without its plans, and where it comes from."""
    row = connection.execute(select(RUNS.c.head, RUNS.c.origin).where(RUNS.c.id == run_id)).one_or_none()
    if row is None:
        raise unknown_run(run_id)
    return RunRecord.model_validate_json(row.head), Origin(row.origin)


def save_head(connection: Connection, head: RunRecord, origin: Origin) -> None:
    """Write a run's head, and everything derived from it and from its plans' rows."""
    columns = (PLANS.c.key, PLANS.c.plan_name, PLANS.c.status, PLANS.c.modes, PLANS.c.hot_us)
    rows = connection.execute(select(*columns).where(PLANS.c.run_id == head.id).order_by(PLANS.c.position))
    summary = summarize(head, (brief_of_row(*row) for row in rows), origin, _verdict(connection, head))
    connection.execute(
        update(RUNS)
        .where(RUNS.c.id == head.id)
        .values(
            status=head.status,
            revision=tick(connection),
            head=head.model_dump_json(exclude={"plans"}),
            summary=summary.model_dump_json(),
        )
    )


def _verdict(connection: Connection, head: RunRecord) -> Verdict | None:
    """The hot verdict. While a run goes on there is none, and its plans are not parsed for one."""
    if head.status in ACTIVE:
        return None
    query = select(PLANS.c.record).where(PLANS.c.run_id == head.id, PLANS.c.hot_us.is_not(None))
    plans = map(PlanRecord.model_validate_json, connection.execute(query.order_by(PLANS.c.position)).scalars())
    return verdict(plans, constraints=Constraints.of(head.options))


def save_plans(connection: Connection, run_id: str, plans: Iterable[PlanRecord]) -> None:
    """Write plans, each in place of an earlier record of its key."""
    query = select(func.coalesce(func.max(PLANS.c.position), -1)).where(PLANS.c.run_id == run_id)
    last, now = connection.execute(query).scalar_one(), time.time()
    for position, plan in enumerate(plans, last + 1):
        row = {
            "plan_name": plan.plan_name,
            "status": plan.status,
            "modes": json.dumps(plan.modes),
            "hot_us": brief(plan).hot_us,
            "blob_sha256": plan.blob_sha256,
            "record": plan.model_dump_json(),
        }
        statement = upsert(PLANS).values(run_id=run_id, key=plan.key, position=position, blob_at=now, **row)
        same_blob = PLANS.c.blob_sha256.is_(statement.excluded.blob_sha256)
        blob_at = case((same_blob, PLANS.c.blob_at), else_=statement.excluded.blob_at)
        changed = {**row, "blob_at": blob_at}
        connection.execute(statement.on_conflict_do_update(index_elements=["run_id", "key"], set_=changed))


def interrupt(connection: Connection, why_over: Callable[[str, str | None], str | None]) -> int:
    """Mark active runs as interrupted for which ``why_over``, asked with a run's id and owner, gives a message; gives
    how many."""
    rows = connection.execute(select(RUNS.c.id, RUNS.c.owner).where(RUNS.c.status.in_(ACTIVE))).all()
    over = [(run_id, message) for run_id, owner in rows if (message := why_over(run_id, owner)) is not None]
    for run_id, message in over:
        head, origin = read_head(connection, run_id)
        save_head(connection, head.model_copy(update={"status": RunStatus.INTERRUPTED, "message": message}), origin)
        connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(owner=None))
    return len(over)


def blobs_in_use(connection: Connection) -> set[str]:
    """Serialized plans of all runs."""
    query = select(PLANS.c.blob_sha256).where(PLANS.c.blob_sha256.is_not(None)).distinct()
    return set(connection.execute(query).scalars())


def unused_blobs(connection: Connection, run_id: str) -> dict[str, float]:
    """Serialized plans of a run that no other run has, each with when it was recorded."""
    own = select(PLANS.c.blob_sha256, func.max(PLANS.c.blob_at)).where(PLANS.c.run_id == run_id)
    other = select(PLANS.c.blob_sha256).where(PLANS.c.run_id != run_id, PLANS.c.blob_sha256.is_not(None))
    rows = connection.execute(
        own.where(PLANS.c.blob_sha256.is_not(None), PLANS.c.blob_sha256.not_in(other)).group_by(PLANS.c.blob_sha256)
    )
    return {sha256: recorded_at for sha256, recorded_at in rows}


def tick(connection: Connection) -> int:
    """Count a change; gives the new count."""
    connection.execute(update(STATE).values(changes=STATE.c.changes + 1))
    return int(connection.execute(select(STATE.c.changes)).scalar_one())
