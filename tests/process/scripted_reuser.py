"""A process of a study that follows a script instead of using cuDNN: same requests, same answers. Acts are named after
op and plan: ``ready``, ``imports``, ``build eng1``, ``load``, ``shapes kernel cache``, ``graphs eng1``. In the diary
each ends with ``over``."""

import base64
import json
import os
import struct
from pathlib import Path

from engine.jobs.protocol import Channel, die_with_parent
from tests.process.scripted import Script


def samples(*values):
    data = base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
    return {"data": data, "executions": 1}


def answer(request, script, channel):
    op, gpu = request["op"], bool(os.environ.get("PLANSCOPE_REUSE_GPU"))
    if op in ("ready", "imports"):
        script.act(op, channel)
        return {}
    if op == "build":
        act = script.act(f"build {request['plan_name']}", channel)
        cached = os.environ["CUDA_CACHE_DISABLE"] == "0"
        if cached:
            (Path(os.environ["CUDA_CACHE_PATH"]) / "kernel").write_bytes(b"12345")
        if act == "fail":
            raise ValueError("no kernel")
        return {
            "build_ms": 50.0 if cached else 500.0,
            "again_ms": 2.0 if request.get("again") else None,
            "blob_bytes": 100,
            "execute_ms": 0.5 if gpu else None,
        }
    if op == "load":
        script.act("load", channel)
        assert Path(request["blob"]).is_file()
        told = {"first_ms": 20.0, "load_ms": 1.0, "execute_ms": 0.2 if gpu else None}
        return {**told, "precompiled": True, "precompiled_message": None}
    if op == "shapes":
        script.act(f"shapes {request['way']}", channel)
        for size in request["sizes"]:
            plan = {"size": size, "plans": 2, "build_ms": 5.0, "plan_name": "eng0"}
            plan["identity"] = {"engine_id": 0, "knobs": {"KERNEL_CFG": 0}}
            channel.send(request, "part", plan=plan, blob_sha256=None)
        return {"cache_bytes": 9 if request["way"] == "kernel cache" else None, "cache_message": None}
    script.act(f"graphs {request['plan_name']}", channel)
    use = {"identity": json.loads(request["identity"]), "plan_name": request["plan_name"], "compiled": False}
    return {"use": {**use, "captured": True, "call_us": samples(20.0), "replays": {"1": samples(10.0)}}}


def main():
    die_with_parent()
    channel, script = Channel(), Script("reuser")
    script.note("start")
    for request in channel.requests():
        try:
            told = answer(request, script, channel)
            script.note("over")
            channel.send(request, "done", **told)
        except ValueError as error:
            script.note("over")
            channel.send(request, "failed", message=str(error))


if __name__ == "__main__":
    main()
