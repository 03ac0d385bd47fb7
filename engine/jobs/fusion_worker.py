"""The measuring process of a comparison: ``python -m engine.jobs.fusion_worker``. It answers all that
``engine.jobs.worker`` does, about one graph at a time, and besides:

``pieces {"plans": {PLACE: {"blob", "sha256", ...}}}`` -> ``stage``s, ``done {"failed": {PLACE: MESSAGE}}``.
    Cuts the prepared graph and loads a plan for each of these pieces; one that does not load runs in torch.
``versions {"kinds": [VersionKind], "fused": {KIND: {"key", "name", "workspace_bytes"}}, "rule", "seed", "scratch":
    PATH}`` -> ``stage {"stage": "version", "key": KIND}`` before each one's turn, ``part {"version":
    Version}`` for each, ``done``. After ``pieces``; fused plans are those that ``admit`` or ``reload`` has loaded.
    ``scratch``: an empty folder for what torch.compile keeps, so that nothing it kept earlier shortens its time.
``alone {"rule", "seed"}`` -> ``stage``s, ``part {"place", "hot": Samples}``, ``done``: pieces one by one, in turns.
``ceilings {"seed"}`` -> ``stage``, ``done {"ceilings": MeasuredCeilings}``.
"""

from __future__ import annotations

import sys

from engine.jobs.protocol import Channel
from engine.jobs.worker import Worker, main


class FusionWorker(Worker):
    """A worker with more questions."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        from engine.jobs import fusion_questions

        self._questions_module = fusion_questions


if __name__ == "__main__":
    sys.exit(main(FusionWorker))
