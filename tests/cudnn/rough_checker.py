"""The real builder, but for the checks that it is told to come to grief over: PLANSCOPE_TEST_ROUGH = {what: act} as
JSON. ``what``: "engine 3", or a plan's key."""

import json
import os
import time

from engine.jobs import builder as real
from engine.jobs.protocol import Channel, die_with_parent
from engine.records.plan import PlanIdentity

ACTS = json.loads(os.environ["PLANSCOPE_TEST_ROUGH"])


def come_to_grief(what):
    act = ACTS.get(what)
    if act == "abort":
        os.abort()
    elif act == "hang":
        time.sleep(600)


class RoughBuilder(real.Builder):
    def engine(self, request):
        come_to_grief(f"engine {request['engine_id']}")
        return super().engine(request)

    def check(self, request):
        come_to_grief(PlanIdentity.model_validate_json(request["identity"]).key)
        return super().check(request)


if __name__ == "__main__":
    die_with_parent()
    channel = Channel()
    real.serve(channel, RoughBuilder(*real.import_cudnn()))
