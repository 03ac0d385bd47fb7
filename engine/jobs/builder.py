"""A builder process: imports cudnn and not torch, lists candidates, builds one plan at a time, and loads what another
built.

Requests (see ``protocol``); ``spec`` and ``target`` are JSON texts:
- ``environment``: versions.
- ``list`` (spec, target, mode): a ``candidate`` event per plan, then ``refused`` (None, or cuDNN's words) and
  ``assumptions``.
- ``build`` (spec, target, identity, plan_name, modes, blob_dir): the plan in ``blob_dir`` under its SHA-256, and what
  is known of it.
- ``load`` (spec, target, blob_dir, sha256): proves that the plan loads and knows the graph's tensors;
  ``deserialize_ms``.
A ``failed`` answer has ``status`` and ``stage`` beside its ``message``.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.graph.spec import GraphSpec
from engine.jobs.protocol import Channel, die_with_parent
from engine.machine.driver import LIBRARY, load_libcuda
from engine.plans.building import PlanFailure, build, check_loaded, load
from engine.plans.candidates import list_mode
from engine.plans.context import Context, TargetUnusable, open_context
from engine.plans.refusals import condense
from engine.plans.targets import Target
from engine.records.plan import PlanIdentity, Stage, Status

UNUSABLE = "unusable"
"""``status`` of an answer by a builder that cannot plan at all, for this target or for any."""
NO_LIBCUDA = "Planning needs the driver library libcuda.so.1, with and without a GPU, and none was found."
_log = logging.getLogger(__name__)


class Builder:
    """The process's state: cudnn, one context per target, and which plan was loaded before."""

    def __init__(self, cudnn: Any, libcuda: str | None) -> None:
        self._cudnn, self._libcuda = cudnn, libcuda
        self._context = lru_cache(maxsize=16)(self._open)
        self._loaded_before = False

    def environment(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Versions of what plans are built with, and the machine."""
        return {
            "cudnn_backend": self._cudnn.backend_version_string(),
            "cudnn_frontend": self._cudnn.__version__,
            "cuda": _cuda_version(),
            "python": platform.python_version(),
            "host": platform.node(),
            "os": platform.platform(),
            "modules": sorted({"torch", "cutlass"} & {name for name, module in sys.modules.items() if module}),
        }

    def list(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Candidates of one mode, and at last the answer."""
        context = self._context(request["target"])
        listing = list_mode(self._cudnn, _spec(request["spec"]), context, request["mode"])
        for plan in listing.plans:
            yield {"record": plan.model_dump_json()}
        refused = None if listing.refused is None else condense(listing.refused)
        yield {"refused": refused, "assumptions": list(context.assumptions)}

    def build(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Build, serialize and store one plan."""
        identity = PlanIdentity.model_validate_json(request["identity"])
        context = self._context(request["target"])
        built = build(self._cudnn, _spec(request["spec"]), context, identity, request["plan_name"], request["modes"])
        return {
            "blob_sha256": _store(built.blob, Path(request["blob_dir"])),
            "blob_bytes": len(built.blob),
            "workspace_bytes": built.workspace_bytes,
            "behavior_notes": list(built.behavior_notes),
            "numerical_notes": list(built.numerical_notes),
            "build_ms": built.build_ms,
            "remark": built.remark,
        }

    def load(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Load a plan that another process built.

        A process's first load also loads cuDNN's libraries (up to 100 ms and more), so it is done twice and the second
        one timed.
        """
        blob = (Path(request["blob_dir"]) / request["sha256"]).read_bytes()
        if hashlib.sha256(blob).hexdigest() != request["sha256"]:
            raise PlanFailure(
                Status.BUILD_FAILED, Stage.LOAD, "the serialized plan on disk is not the one that was built."
            )
        context = self._context(request["target"])
        if not self._loaded_before:
            load(self._cudnn, context, blob)
            self._loaded_before = True
        graph, deserialize_ms = load(self._cudnn, context, blob)
        check_loaded(self._cudnn, graph, _spec(request["spec"]))
        return {"deserialize_ms": deserialize_ms}

    def _open(self, target: str) -> Context:
        if self._libcuda is None:  # Some versions would go on without it, and list and build a part of the plans.
            raise TargetUnusable(NO_LIBCUDA)
        return open_context(self._cudnn, Target.model_validate_json(target))


def _cuda_version() -> str | None:
    """The CUDA version the loaded driver library speaks."""
    version = ctypes.c_int(0)
    try:
        status = ctypes.CDLL(LIBRARY).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}" if status == 0 else None


@lru_cache(maxsize=64)
def _spec(text: str) -> GraphSpec:
    return GraphSpec.model_validate_json(text)


def _store(blob: bytes, folder: Path) -> str:
    """Write a file named by its SHA-256, all of it or nothing; raises PlanFailure where that cannot be."""
    digest = hashlib.sha256(blob).hexdigest()
    partial = folder / f".{digest}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(blob)
        partial.replace(folder / digest)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        message = (
            f"it was built, but its {len(blob):,} bytes cannot be written to {folder}: {error.strerror or error}. Free "
            "space there, or set PLANSCOPE_HOME to another folder, then start Planscope again."
        )
        raise PlanFailure(Status.BUILD_FAILED, Stage.BUILD, message) from None
    return digest


def import_cudnn() -> tuple[Any, str | None]:
    """cudnn, without torch, and where the driver library came from that was loaded before it.

    The frontend looks for torch and cutlass on its own, to offer kernels written in Python: seconds and gigabytes per
    builder, for plans that cuDNN alone cannot load.
    """
    libcuda = load_libcuda()
    for heavy in ("torch", "cutlass"):
        sys.modules[heavy] = None  # type: ignore[assignment]
    import cudnn

    cudnn.backend_version()  # raises where the frontend is there and cuDNN itself is not
    return cudnn, libcuda


def serve(channel: Channel, builder: Builder) -> None:
    """Answer requests until the parent closes the pipe."""
    for request in channel.requests():
        try:
            answer = getattr(builder, request["op"])(request)
            if isinstance(answer, dict):
                channel.send(request, "done", **answer)
                continue
            *candidates, last = answer
            for candidate in candidates:
                channel.send(request, "candidate", **candidate)
            channel.send(request, "done", **last)
        except PlanFailure as failure:
            channel.send(request, "failed", message=failure.message, status=failure.status, stage=failure.stage)
        except (TargetUnusable, OSError) as error:
            channel.send(request, "failed", message=str(error), status=UNUSABLE, stage=Stage.LIST)


def main() -> None:
    """Serve; where cudnn cannot be imported, say so to every request."""
    die_with_parent()
    channel = Channel()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        cudnn, libcuda = import_cudnn()
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        _log.warning("cudnn cannot be imported: %s", error)
        for request in channel.requests():
            message = f"cudnn cannot be imported: {error}"
            channel.send(request, "failed", message=message, status=UNUSABLE, stage=Stage.LIST)
        return
    serve(channel, Builder(cudnn, libcuda))


if __name__ == "__main__":
    main()
