"""A measuring process of a comparison that follows a script: what ``scripted_worker`` answers, and versions by kind.

Acts: ``version KIND`` at each one's turn, ``piece N`` while its plan is loaded, ``ceilings``. Times are invented.
"""

from pathlib import Path

from tests.process import scripted_worker
from tests.process.scripted_worker import RIGHT, TIMINGS, samples

LAUNCH = {"name": "kernel", "kind": "kernel", "us": 1.0}
HOT = {"eager": 100.0, "idiomatic": 80.0, "unfused": 90.0, "first_pick": 40.0, "tuned": 30.0}


class Worker(scripted_worker.Worker):
    def pieces(self, request):
        assert self.prepared
        failed = {}
        for place, plan in request["plans"].items():
            self.stage(request, "load", f"piece {place}")
            assert plan["sha256"] in plan["blob"]
            if self.script.act(f"piece {place}", self.channel) == "refuse":
                failed[place] = "it does not load here."
        self.cut = True
        return {"failed": failed}

    def versions(self, request):
        assert self.cut and {plan["key"] for plan in request["fused"].values()} <= set(self.loaded)
        assert list(Path(request["scratch"]).iterdir()) == []
        for kind in request["kinds"]:
            self.stage(request, "version", kind)
            act = self.script.act(f"version {kind}", self.channel)
            if isinstance(act, str) and act == "hung":
                raise scripted_worker.Hung(kind)
            version = {"kind": kind, "accuracy": [RIGHT], "launches": [LAUNCH] * 3}
            if act == "wrong":
                version["message"] = "wrong result: C is off."
            else:
                hot = HOT.get(kind, 60.0)
                version["timings"] = {**TIMINGS, "hot": samples(hot, hot * 1.001)}
            if kind in request["fused"]:
                version["plan"] = [request["fused"][kind]["key"], request["fused"][kind]["name"]]
            self.channel.send(request, "part", version=version)
        return {}

    def alone(self, request):
        self.channel.send(request, "part", place=0, hot=samples(25.0))
        self.channel.send(request, "part", place=1, message="it cannot be captured.")
        return {}

    def ceilings(self, request):
        self.stage(request, "version", "ceilings")
        self.script.act("ceilings", self.channel)
        times = {"copy_us": samples(2.0), "matmul_us": samples(3.0), "launch_us": samples(1.5)}
        return {"ceilings": {"copy_bytes": 8000, "matmul_flops": 9_000_000, **times}}


if __name__ == "__main__":
    scripted_worker.main(Worker)
