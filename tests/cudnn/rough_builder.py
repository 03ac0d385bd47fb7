"""The real builder, but for the plans that it is told to come to grief over: PLANSCOPE_TEST_ROUGH = {plan name: act} as
JSON."""

import json
import os
import sys
import time

from engine.jobs import builder as real
from engine.jobs.protocol import Channel, die_with_parent

ACTS = json.loads(os.environ["PLANSCOPE_TEST_ROUGH"])


class RoughBuilder(real.Builder):
    def build(self, request):
        act = ACTS.get(request["plan_name"])
        if act == "abort":
            sys.stderr.write("Invalid handle. Cannot load symbol cublasLtGetVersion\n")
            sys.stderr.flush()
            os.abort()
        elif act == "hang":
            time.sleep(600)
        elif act == "exit":
            os._exit(3)
        elif act == "garbage":
            channel._out.write(b"cuBLAS says hello\n")
        elif act == "chatter":
            print("a library prints", flush=True)
            os.write(1, b"to stdout\n" * 1000)
        elif act == "flood":
            os.write(2, b"x" * 300_000)
        return super().build(request)


die_with_parent()
channel = Channel()
real.serve(channel, RoughBuilder(*real.import_cudnn()))
