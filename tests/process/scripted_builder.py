"""A builder that follows a script instead of asking cuDNN: same requests, same answers.

Records are written by hand, for a process that imports no more than the protocol starts in no time.
"""

import hashlib
import json
import os
from pathlib import Path

from engine.jobs.protocol import Channel, die_with_parent
from tests.process.scripted import Script


def candidate(number, mode):
    return {
        "identity": {"engine_id": number, "knobs": {"KERNEL_CFG": number}},
        "plan_name": f"eng{number}",
        "modes": {mode: number},
        "status": "listed",
        "stage": "list",
        "workspace_bytes": 0,
    }


def unlisted(identity, origin):
    number = identity["engine_id"]
    return {**candidate(number, "A"), "identity": identity, "modes": {}, "origin": origin}


def main():
    die_with_parent()
    channel, script = Channel(), Script("builder")
    script.note("start")
    for request in channel.requests():
        op = request["op"]
        what = f"build {request['plan_name']}" if op == "build" else op
        act = script.act(what, channel)
        if act == "fail":
            status = "build_failed" if op == "build" else "unusable"
            channel.send(request, "failed", message="no kernel", status=status, stage="build")
        elif op == "environment":
            content = {"cudnn_backend": "9.28.1", "cudnn_frontend": "1.32.0", "cuda": "13.0"}
            channel.send(request, "done", **content, python="3.11", host="test", os="Linux", modules=[])
        elif op == "ready":
            channel.send(request, "done")
        elif op == "list" and act == "refuse":
            channel.send(request, "done", refused="no engine for this head dim", assumptions=[])
        elif op == "list":
            for number in range(script.common["plans"] if request["mode"] == "A" else 0):
                channel.send(request, "candidate", record=json.dumps(candidate(number, "A")))
            channel.send(request, "done", refused=None, assumptions=[])
        elif op == "build":
            blob = json.dumps([request["identity"], os.getpid()]).encode()
            digest = hashlib.sha256(blob).hexdigest()
            (Path(request["blob_dir"]) / digest).write_bytes(blob)
            content = {"blob_sha256": digest, "blob_bytes": len(blob), "remark": None}
            content["workspace_bytes"] = script.common.get("workspace", {}).get(request["plan_name"], 0)
            channel.send(request, "done", **content, behavior_notes=[], numerical_notes=[], build_ms=1.0)
        elif op == "engines":
            channel.send(request, "done", count=script.common["plans"] + script.common.get("others", 0))
        elif op == "engine":
            record = unlisted({"engine_id": request["engine_id"], "knobs": {}}, "engine list")
            knobs = [{"name": "KERNEL_CFG", "low": 0, "high": 99}]
            channel.send(request, "done", knobs=knobs, no_knobs=None, record=json.dumps(record), refused=None)
        elif op == "check":
            record = unlisted(json.loads(request["identity"]), request["origin"])
            channel.send(request, "done", record=json.dumps(record))
        elif op == "load":
            channel.send(request, "done", deserialize_ms=0.5)


if __name__ == "__main__":
    main()
