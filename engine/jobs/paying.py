"""What one plan costs, each number by a process that does nothing else and is then over."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.jobs.conversation import Content, Conversation, Declined, Lost, OnPart
from engine.jobs.protocol import JobError
from engine.jobs.reuser import ON_GPU
from engine.plans.targets import Target
from engine.records.plan import PlanRecord
from engine.records.reuse import PlanCost, Times

REUSER_MODULE = "engine.jobs.reuser"
READY_S, WORK_S = 180.0, 300.0
_COMPILED = "RUNTIME_COMPILATION"


class Payer:
    """Starts processes for one graph and target, one after the other."""

    def __init__(
        self, spec: str, target: Target, cancel: threading.Event, on_gpu: bool, module: str = REUSER_MODULE
    ) -> None:
        self.common: dict[str, Any] = {"spec": spec, "target": target.model_dump_json()}
        self._cancel, self._module = cancel, module
        self._environment = {"CUDA_VISIBLE_DEVICES": target.gpu_uuid} if target.gpu_uuid else {}
        if on_gpu:
            self._environment[ON_GPU] = "1"

    def ask(
        self,
        op: str,
        content: Mapping[str, Any],
        cache: Path | None = None,
        ready: bool = True,
        on_part: OnPart | None = None,
    ) -> Content:
        """One question to a process of its own. ``cache``: the folder of the driver's compute cache, which is off
        without one. Raises JobError with what went wrong, and JobCancelled."""
        own = (
            {"CUDA_CACHE_DISABLE": "1"} if cache is None else {"CUDA_CACHE_DISABLE": "0", "CUDA_CACHE_PATH": str(cache)}
        )
        try:
            process = Conversation(self._module, {**self._environment, **own}, self._cancel)
            try:
                if ready:
                    process.answer(process.ask("ready", None, **self.common), READY_S)
                return process.answer(process.ask(op, on_part, **{**self.common, **content}), WORK_S)
            finally:
                process.close()
        except Declined as error:
            raise JobError(str(error)) from None
        except Lost as error:
            raise JobError(f"the process {error}") from None


def plan_cost(payer: Payer, plan: PlanRecord, blob: Path, repeats: int) -> PlanCost:
    """All there is to know of one built plan. What fails is told in the record. Raises JobCancelled."""
    paid = _Paid(payer, plan, blob, repeats)
    return paid.cost()


class _Paid:
    def __init__(self, payer: Payer, plan: PlanRecord, blob: Path, repeats: int) -> None:
        self._payer, self._plan, self._blob, self._repeats = payer, plan, blob, repeats
        self._found: dict[str, Any] = {}
        self._messages: list[str] = []

    def cost(self) -> PlanCost:
        plan = self._plan
        self._try("cold build", self._cold)
        self._try("warm build", self._warm)
        self._try("load", self._load)
        return PlanCost(
            identity=plan.identity,
            plan_name=plan.plan_name,
            modes=dict(plan.modes),
            compiled=self._compiled,
            blob_bytes=plan.blob_bytes,
            message=" ".join(self._messages) or None,
            **self._found,
        )

    def _try(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except JobError as error:
            self._messages.append(f"{what}: {error}")

    def _cold(self) -> None:
        asked = {**self._building, "again": not self._compiled}
        answers = [self._payer.ask("build", asked) for _ in range(self._repeats)]
        self._keep(answers, "cold")
        self._found["again_ms"] = _times(answers, "again_ms")

    def _warm(self) -> None:
        with tempfile.TemporaryDirectory(prefix="planscope-cache-") as name:
            cache = Path(name)
            self._payer.ask("build", self._building, cache)
            self._found["cache_bytes"] = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
            self._keep([self._payer.ask("build", self._building, cache) for _ in range(self._repeats)], "warm")

    def _load(self) -> None:
        loading = {"blob": str(self._blob)}
        answers = [self._payer.ask("load", loading, ready=False) for _ in range(self._repeats)]
        self._found |= {
            "first_load_ms": _times(answers, "first_ms"),
            "load_ms": _times(answers, "load_ms"),
            "execute_load_ms": _times(answers, "execute_ms"),
            "precompiled": answers[0]["precompiled"],
            "precompiled_message": answers[0]["precompiled_message"],
        }

    def _keep(self, answers: list[Content], kind: str) -> None:
        self._found |= {f"{kind}_ms": _times(answers, "build_ms"), f"execute_{kind}_ms": _times(answers, "execute_ms")}

    @property
    def _compiled(self) -> bool:
        return _COMPILED in self._plan.behavior_notes

    @property
    def _building(self) -> dict[str, Any]:
        plan = self._plan
        identity = plan.identity.model_dump_json()
        return {"identity": identity, "plan_name": plan.plan_name, "modes": list(plan.modes)}


def _times(answers: list[Content], name: str) -> Times | None:
    values = [answer[name] for answer in answers if answer[name] is not None]
    return Times(values_ms=tuple(values)) if values else None
