"""What a builder's reply means for the plan's record: how it was built, or how it ended."""

from __future__ import annotations

from typing import Any

from engine.jobs.builder import UNUSABLE
from engine.jobs.replies import End, Reply
from engine.records.plan import Stage, Status

_STATUSES = {End.CRASHED: Status.CRASHED, End.TIMEOUT: Status.TIMEOUT, End.CANCELLED: Status.CANCELLED}


def built(reply: Reply) -> dict[str, Any]:
    """Fields of the record after a build that was done."""
    content = reply.content
    return {
        "stage": Stage.BUILD,
        "message": content.get("remark"),
        "workspace_bytes": content["workspace_bytes"],
        "behavior_notes": tuple(content["behavior_notes"]),
        "numerical_notes": tuple(content["numerical_notes"]),
        "engine_name": content.get("engine_name"),
        "build_ms": content["build_ms"],
        "build_contended": reply.contended,
        "blob_sha256": content["blob_sha256"],
        "blob_bytes": content["blob_bytes"],
    }


def failure(reply: Reply, stage: Stage) -> dict[str, Any]:
    """Fields of the record whose task was not done."""
    if reply.end is End.FAILED:
        told = reply.content["status"]
        status = Status.BUILD_FAILED if told == UNUSABLE else Status(told)
    else:
        status = _STATUSES[reply.end]
    return {"status": status, "stage": stage, "message": reply.message}
