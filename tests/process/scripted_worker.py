"""A measuring process that follows a script instead of using a GPU: same requests, same answers.

Records are written by hand, for a process that imports no more than the protocol starts in no time.
"""

import base64
import os
import struct
import time
from pathlib import Path

from engine.jobs.protocol import Channel, die_with_parent
from tests.process.scripted import Script


def encode(*values):
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def samples(*values):
    return {"data": encode(*values), "executions": 1}


TIMINGS = {"hot": samples(10.0, 11.0), "cold": samples(20.0), "host": samples(5.0)}
STATE = {"sm_clock_mhz": 1980}
PARTS = 4
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


def number(key):
    """A plan's number, by its key (see scripted_builder)."""
    return int(key.split(";")[0])


class Worker:
    """A method per op. Acts are named after op and plan: ``admit eng1``, ``rounds``, ``rounds eng1`` (its turn in a
    round, when announced), ``regimes eng1``, ``repeat eng1``, ``reload eng1``."""

    def __init__(self, channel, script):
        self.channel, self.script = channel, script
        self.prepared, self.loaded = False, {}

    def environment(self, request):
        return {"environment": environment(self.script.act("environment", self.channel))}

    def prepare(self, request):
        self.loaded.clear()
        if self.script.act("prepare", self.channel) == "decline":
            raise ValueError("only 3 GiB are free")
        self.prepared = bool(request["graph"]["tensors"])
        return {"reference_dtype": "float64", "bytes": 1024}

    def load(self, request):
        blob = Path(request["blob"])
        assert self.prepared and blob.is_file() and blob.name == request["sha256"]
        key = request["key"]
        self.stage(request, "load", key)
        self.stage(request, "execute", key)
        self.loaded[key] = 10.0 * (1 + self.script.common.get("slower", {}).get(f"eng{number(key)}", 0.0))
        return key

    def admit(self, request):
        key = self.load(request)
        act = self.act("admit", key)
        if act == "decline":
            raise ValueError("the blob is damaged")
        finding = {"key": "99" if act == "other plan" else key, "deserialize_ms": 1.0}
        if act == "wrong":
            finding |= {"status": "wrong_result", "stage": "check", "message": "C is wrong", "accuracy": [WRONG]}
        else:
            screening = samples(*[self.loaded[key]] * 4)
            finding |= {"status": "ok", "stage": "time", "accuracy": [RIGHT], "screening": screening, "state": STATE}
        return {"finding": {**finding, "capturable": True}, "restart": act == "lost", "leave": act in ("lost", "leave")}

    def reload(self, request):
        self.act("reload", self.load(request))
        return {}

    def rounds(self, request):
        rule = request["rule"]
        left = {key: rule["least"] - request["before"].get(key, {"count": 0})["count"] for key in request["executions"]}
        assert set(left) <= set(self.loaded)
        for part in range(PARTS):
            act = self.script.act("rounds", self.channel)
            if act == "nonsense":
                return {"stopped": self.script.common["stopped"]}
            if isinstance(act, str) and act.startswith("hung "):
                (key,) = [key for key in left if f"eng{number(key)}" == act.split()[1]]
                raise Hung(key)
            kept, states = {}, []
            for key in left:
                if request["careful"]:
                    self.stage(request, "time", key)
                    self.act("rounds", key)
                count = left[key] // PARTS if part < PARTS - 1 else left[key] - (PARTS - 1) * (left[key] // PARTS)
                values = [self.loaded[key] + n % 2 for n in range(count)]
                states = [STATE] * max(len(states), count)
                kept[key] = {"data": encode(*values), "executions": 4, "rounds": list(range(count))}
            content = {"kept": kept, "states": states, "set_aside": {}, "fraction": (part + 1) / PARTS}
            if act == "odd":
                odd = self.script.common["odd"]
                content |= odd.get("part", {})
                next(iter(kept.values())).update(odd.get("kept", {}))
            self.channel.send(request, "part", **content)
            time.sleep(self.script.common.get("part_s", 0.0))
        return {"stopped": dict.fromkeys(left, "precise")}

    def regimes(self, request):
        for key in request["keys"]:
            self.stage(request, "time", key)
            self.act("regimes", key)
        for key in request["keys"]:
            found = {regime: samples(20.0, 21.0) for regime in request["regimes"]}
            self.channel.send(request, "part", key=key, samples=found)
        return {}

    def repeat(self, request):
        for key in request["keys"]:
            self.stage(request, "check", key)
            repeats = {"runs": 10, "differing": int(self.act("repeat", key) == "differ"), "elements": 4}
            self.channel.send(request, "part", key=key, repeats=repeats)
        return {}

    def baseline(self, request):
        self.channel.send(request, "stage", stage="time", key=None)
        self.script.act("baseline", self.channel)
        return {"baseline": {"name": "torch eager", "accuracy": [RIGHT], "timings": TIMINGS}}

    def stage(self, request, stage, key):
        self.channel.send(request, "stage", stage=stage, key=key)

    def act(self, op, key):
        return self.script.act(f"{op} eng{number(key)}", self.channel)


class Hung(Exception):
    pass


def main(make=Worker):
    die_with_parent()
    channel, script = Channel(), Script("worker")
    script.act("start", channel)
    worker = make(channel, script)
    for request in channel.requests():
        try:
            content = getattr(worker, request["op"])(request)
        except ValueError as error:
            channel.send(request, "failed", message=str(error), restart=False, key=None, hung=False)
            continue
        except Hung as hung:
            message = "a replay that should take 0.001 s never ended"
            channel.send(request, "failed", message=message, restart=True, key=hung.args[0], hung=True)
            os._exit(3)
        leave = content.pop("leave", False)
        channel.send(request, "done", **{"restart": False, **content})
        if leave:
            os._exit(3)


if __name__ == "__main__":
    main()
