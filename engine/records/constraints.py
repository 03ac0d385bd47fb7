"""What a person demands of the winner besides speed, and which plans meet it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.records.options import SweepOptions
from engine.records.plan import PlanRecord
from engine.records.wording import count_bytes

NONDETERMINISTIC = "NONDETERMINISTIC"
"""cuDNN's numerical note on engines that may add in another order from run to run."""

Demand = Literal["workspace", "deterministic", "capturable"]


@dataclass(frozen=True)
class Constraints:
    """Set before the winner is chosen. Plans that do not meet them are measured and shown all the same."""

    workspace_limit_bytes: int | None = None
    deterministic_only: bool = False
    capturable_only: bool = False

    @classmethod
    def of(cls, options: SweepOptions) -> Constraints:
        """Those that were asked for."""
        return cls(options.workspace_limit_bytes, options.deterministic_only, options.capturable_only)

    def admit(self, plan: PlanRecord) -> bool:
        """Whether a plan that was measured meets them all."""
        limit = self.workspace_limit_bytes
        return not (
            (limit is not None and (plan.workspace_bytes is None or plan.workspace_bytes > limit))
            or (self.deterministic_only and not is_deterministic(plan))
            or (self.capturable_only and not is_capturable(plan))
        )

    @property
    def demands(self) -> tuple[Demand, ...]:
        """Those that are set."""
        set_ones: dict[Demand, bool] = {
            "workspace": self.workspace_limit_bytes is not None,
            "deterministic": self.deterministic_only,
            "capturable": self.capturable_only,
        }
        return tuple(demand for demand, is_set in set_ones.items() if is_set)

    def without(self, demand: Demand) -> Constraints:
        """The same but for one."""
        if demand == "workspace":
            return replace(self, workspace_limit_bytes=None)
        return replace(self, **{f"{demand}_only": False})

    def adding(self, demand: Demand) -> Constraints:
        """The same and one more; of the workspace, that there is none."""
        if demand == "workspace":
            return replace(self, workspace_limit_bytes=0)
        return replace(self, **{f"{demand}_only": True})

    def words(self, demand: Demand) -> str:
        """One of those that are set, as the beginning of a sentence."""
        if demand == "workspace":
            limit = self.workspace_limit_bytes
            return f"At most {count_bytes(limit)} of workspace" if limit else "No workspace"
        return {"deterministic": "Deterministic plans only", "capturable": "Capturable plans only"}[demand]


def is_deterministic(plan: PlanRecord) -> bool:
    """Whether nothing speaks against it: cuDNN's notes do not, and runs that were compared gave the same bits. Runs
    that agree do not prove what the notes deny."""
    return NONDETERMINISTIC not in plan.numerical_notes and (plan.repeats is None or plan.repeats.bitwise)


def is_capturable(plan: PlanRecord) -> bool:
    """Whether a CUDA graph could be captured from it. Where the record does not say, its hot samples do: they were
    taken by replaying one."""
    return plan.timings is not None if plan.capturable is None else plan.capturable
