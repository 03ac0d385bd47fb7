"""A measuring process that follows a script instead of using a GPU: same requests, same answers.

Records are written by hand, for a process that imports no more than the protocol starts in no time.
"""

import base64
import os
import struct
from pathlib import Path

from engine.jobs.protocol import Channel, die_with_parent
from tests.process.scripted import Script


def samples(*values):
    return {"data": base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode(), "executions": 1}


TIMINGS = {"hot": samples(10.0, 11.0), "cold": samples(20.0), "host": samples(5.0)}
RIGHT = {"name": "C", "max_abs": 0.0, "max_rel": 0.0, "unwritten": 0, "nonfinite": 0, "elements": 4, "tolerance": 0.01}
WRONG = {**RIGHT, "max_abs": 9.0, "max_rel": 2.0}
GPU = {
    "name": "Test GPU",
    "uuid": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "compute_capability": "9.0",
    "sm_count": 132,
    "memory_bytes": 1 << 37,
    "l2_bytes": None,
    "driver": "580",
}


def environment(act):
    versions = {"cudnn_backend": "9.20.0" if act == "other cudnn" else "9.28.1", "cudnn_frontend": "1.32.0"}
    content = {**versions, "cuda": "13.0", "torch": "2.13.0", "python": "3.11", "host": "test", "os": "Linux"}
    return {"gpu": None if act == "no gpu" else GPU, **content}


def measured(plan, act):
    if act == "wrong":
        ending = {"status": "wrong_result", "stage": "check", "message": "C is wrong", "accuracy": [WRONG]}
    else:
        ending = {"status": "ok", "stage": "time", "accuracy": [RIGHT], "timings": TIMINGS}
    return {**plan, **ending, "deserialize_ms": 1.0}


def main():
    die_with_parent()
    channel, script = Channel(), Script("worker")
    script.act("start", channel)
    prepared = None
    for request in channel.requests():
        op = request["op"]
        if op == "environment":
            channel.send(request, "done", environment=environment(script.act("environment", channel)))
        elif op == "prepare":
            act = script.act("prepare", channel)
            if act == "decline":
                channel.send(request, "failed", message="only 3 GiB are free", restart=False)
                continue
            prepared = request["graph"]["tensors"]
            channel.send(request, "done", reference_dtype="float64", bytes=1024)
        elif op == "baseline":
            channel.send(request, "stage", stage="time")
            script.act("baseline", channel)
            baseline = {"name": "torch eager", "accuracy": [RIGHT], "timings": TIMINGS}
            channel.send(request, "done", baseline=baseline, restart=False)
        elif op == "measure":
            plan, blob = request["plan"], Path(request["blob"])
            assert prepared and blob.is_file() and blob.name == plan["blob_sha256"]
            channel.send(request, "stage", stage="load")
            channel.send(request, "stage", stage="execute")
            act = script.act(f"measure {plan['plan_name']}", channel)
            if act == "decline":
                channel.send(request, "failed", message="the blob is damaged", restart=False)
                continue
            if act == "other plan":
                plan = {**plan, "identity": {"engine_id": 99, "knobs": {}}}
            channel.send(request, "done", plan=measured(plan, act), restart=act == "lost")
            if act in ("lost", "leave"):
                os._exit(3)


if __name__ == "__main__":
    main()
