"""Tables of the run database. A run's record is kept as the JSON of its model, its plans one row each so that they can
stream in; beside them stand the few columns that lists, look-ups and blob removal ask for."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, MetaData, String, Table

SCHEMA_VERSION = 2
"""Written to ``PRAGMA user_version``; a database with a higher one was made by a newer Planscope."""

UPGRADABLE = (1,)
"""Versions with the same tables, whose records have nothing that this one does not read: such a database becomes one of
this version when it is opened, so that an older Planscope, which cannot read new records, leaves it alone."""

APPLICATION_ID = 0x504C5343
"""Written to ``PRAGMA application_id`` ("PLSC"), so that another program's SQLite file is never taken for ours."""

METADATA = MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("id", String, primary_key=True),
    Column("origin", String, nullable=False),
    Column("status", String, nullable=False),
    Column("graph_id", String, nullable=False, index=True),
    Column("started_at", String, nullable=False, index=True),  # UTC, ISO 8601 with microseconds: sorts as text
    Column("owner", String),  # the lock of the process that runs it (see owners.py); NULL once it has ended
    Column("revision", Integer, nullable=False),  # value of state.changes at its last change
    Column("head", String, nullable=False),  # RunRecord without plans
    Column("summary", String, nullable=False),  # RunSummary, derived anew on every change
)

PLANS = Table(
    "plans",
    METADATA,
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("key", String, primary_key=True),
    Column("position", Integer, nullable=False),  # in the order first seen
    Column("plan_name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("modes", String, nullable=False),
    Column("hot_us", Float),  # median, where the plan is right and timed
    Column("blob_sha256", String, index=True),
    Column("blob_at", Float),  # when the blob was first recorded, seconds since 1970
    Column("record", String, nullable=False),  # PlanRecord
    Index("plans_in_order", "run_id", "position"),
)

STATE = Table("state", METADATA, Column("changes", Integer, nullable=False))
