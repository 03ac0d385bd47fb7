"""The plan doctor: what a bundle is worth on this machine, found out by processes that may crash or hang over it.

First a process that knows neither cudnn nor torch opens the file and checks all of it; without trust that is all. Then
builders load and rebuild its plans, and where there is a GPU the measuring process runs and times them.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.bundles.checkups import Examination, PlanCheckup
from engine.bundles.reading import Bundle, BundledGraph
from engine.graph.errors import InvalidInput
from engine.jobs.asking import Asking
from engine.jobs.contest import Contest, Measuring
from engine.jobs.conversation import Conversation, Declined, Lost
from engine.jobs.measuring import GpuWorker
from engine.jobs.opening import BUNDLE
from engine.jobs.planning import CannotPlan, builder_environment
from engine.jobs.pool import BuilderPool
from engine.jobs.protocol import JobCancelled, JobError
from engine.machine.gpus import list_gpus
from engine.plans.targets import Target, local_target, shipped_targets, target_from_properties
from engine.records.environment import Environment
from engine.records.plan import PlanRecord

OPENING_MODULE = "engine.jobs.opening"
OPENING_S = 60.0
_FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""Each thread of numpy's reserves address space, which the opening process has little of."""


@dataclass(frozen=True)
class Means:
    """How an examination is done; tests take others. ``target``: the GPU to load plans onto; by default this machine's,
    else the bundle's own by its properties."""

    target: Target | None = None
    builder_module: str = "engine.jobs.builder"
    opening_module: str = OPENING_MODULE
    measuring: Measuring = field(default_factory=Measuring)


def examine(
    file: Path,
    trust: bool,
    *,
    every_plan: bool = False,
    cancel: threading.Event | None = None,
    means: Means | None = None,
) -> Examination:
    """Examine a bundle. Without ``trust`` nothing of it reaches cuDNN. Every plan is loaded; the default of each graph,
    or with ``every_plan`` each, is also rebuilt, run and timed. Raises JobCancelled.

    Start it from a thread that outlives it (see ``protocol.die_with_parent``).
    """
    stop, how = cancel or threading.Event(), means or Means()
    with tempfile.TemporaryDirectory(prefix="planscope-") as folder:
        opened = _open(file, Path(folder) if trust else None, stop, how.opening_module)
        if opened.refused or not trust:
            return opened
        bundle = Bundle.model_validate_json((Path(folder) / BUNDLE).read_bytes())
        return _Examination(bundle, Path(folder), every_plan, stop, how).run(opened)


def _open(file: Path, folder: Path | None, cancel: threading.Event, module: str) -> Examination:
    """Whether it is a bundle, and whole."""
    trusted = folder is not None
    try:
        process = Conversation(module, _FEW_THREADS, cancel)
        try:
            number = process.ask("open", file=str(file.absolute()), folder=None if folder is None else str(folder))
            told = process.answer(number, OPENING_S)
        finally:
            process.close()
        return Examination(
            trusted=trusted,
            label=str(told["label"]),
            files=int(told["files"]),
            remarks=tuple(told["remarks"]),
        )
    except Declined as error:
        return Examination(trusted=trusted, refused=str(error))
    except (Lost, JobError) as error:
        return Examination(trusted=trusted, refused=f"the process that opened it {error}")
    except (KeyError, TypeError, ValidationError) as error:
        return Examination(trusted=trusted, refused=f"the process that opened it gave no account of it: {error}")


class _Examination:
    """One whole and trusted bundle."""

    def __init__(self, bundle: Bundle, folder: Path, every_plan: bool, cancel: threading.Event, means: Means) -> None:
        self._bundle, self._folder, self._every_plan = bundle, folder, every_plan
        self._cancel, self._means = cancel, means

    def run(self, opened: Examination) -> Examination:
        known: dict[str, Any] = {"made_by": self._bundle.manifest.cudnn_backend}
        try:
            target = self._means.target or self._find_target()
            known["onto"] = f"{target.info.gpu_name}{'' if target.is_local else ', by its properties: no GPU is here'}"
            with (
                BuilderPool(1, compute_cache=True, gpu_uuid=target.gpu_uuid, module=self._means.builder_module) as pool,
                self._worker(target) as worker,
            ):
                environment = builder_environment(pool, target, self._cancel)
                if environment is None:
                    raise JobCancelled
                known["cudnn"] = environment.cudnn_backend
                if target.is_local:
                    with suppress(JobError):  # The first contest says so.
                        worker.ready()  # Else loads and builds would be timed beside its start.
                checkups = [
                    checkup
                    for graph in self._bundle.graphs
                    for checkup in self._graph(graph, target, pool, environment, worker)
                ]
            return opened.model_copy(update={**known, "plans": tuple(checkups)})
        except CannotPlan as error:
            return opened.model_copy(update={**known, "problem": str(error)})
        except (JobError, InvalidInput) as error:
            return opened.model_copy(update={**known, "problem": str(error)})

    @contextmanager
    def _worker(self, target: Target) -> Iterator[GpuWorker]:
        """The measuring process, one for all graphs; where there is a GPU it starts beside the builder."""
        measuring = self._means.measuring
        worker = GpuWorker(target.gpu_uuid, self._cancel, measuring.module, measuring.deadlines)
        try:
            if target.is_local:
                worker.start()
            yield worker
        finally:
            worker.close()

    def _find_target(self) -> Target:
        if gpus := list_gpus():
            return local_target(gpus[0])
        made_for = self._bundle.manifest.target
        for shipped in shipped_targets():
            if (shipped.info.gpu_name, shipped.info.sm) == (made_for.gpu_name, made_for.sm):
                return shipped
        if self._bundle.properties is None:
            raise JobError("this machine has no GPU, and the bundle has no device properties to load its plans onto.")
        return target_from_properties(json.loads(self._bundle.properties), "bundle")

    def _graph(
        self,
        graph: BundledGraph,
        target: Target,
        pool: BuilderPool,
        environment: Environment,
        worker: GpuWorker,
    ) -> Iterator[PlanCheckup]:
        common = {"spec": graph.graph.spec.model_dump_json(), "target": target.model_dump_json()}
        asking = Asking(pool, common, self._folder, self._cancel)
        checkups: list[PlanCheckup] = []
        runnable: list[PlanRecord] = []
        for place, plan in enumerate(graph.plans):
            loading, rebuilding, rebuilt = asking.load(plan, environment.cudnn_backend), None, None
            if place == 0 or self._every_plan:
                rebuilding, rebuilt = asking.rebuild(plan)
                runnable += [plan.file.record] if loading.ok else [rebuilt] if rebuilt else []
            checkups.append(
                PlanCheckup(
                    graph=graph.number,
                    pipeline=self._bundle.manifest.graphs[graph.number - 1].pipeline,
                    plan_name=plan.entry.plan_name,
                    plan_key=plan.entry.plan_key,
                    is_default=place == 0,
                    loading=loading,
                    rebuilding=rebuilding,
                )
            )
        if not target.is_local or not runnable:
            yield from checkups
            return
        lock_folder = self._means.measuring.lock_folder
        running = Contest(graph, target, self._folder, self._cancel, worker, lock_folder).run(runnable, asking)
        for checkup in checkups:
            yield checkup.model_copy(update={"running": running.get(checkup.plan_key)})
