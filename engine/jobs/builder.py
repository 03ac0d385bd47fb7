"""A builder process: imports cudnn and not torch, lists candidates, builds one plan at a time, and loads what another
built.

Requests (see ``protocol``); ``spec`` and ``target`` are JSON texts:
- ``environment``: versions.
- ``ready`` (target): opens the target's context and has cuDNN load its libraries, by listing small graphs. Builds
  nothing.
- ``list`` (spec, target, mode): a ``candidate`` event per plan, then ``refused`` (None, or cuDNN's words) and
  ``assumptions``.
- ``build`` (spec, target, identity, plan_name, modes, blob_dir): the plan in ``blob_dir`` under its SHA-256, and what
  is known of it.
- ``engines`` (spec, target): ``count``, how many engines cuDNN has for such graphs.
- ``engine`` (spec, target, engine_id): its ``knobs``, and as ``record`` the plan of its default knobs, or None.
- ``check`` (spec, target, identity, origin): the plan as ``record``, where cuDNN takes it; builds nothing.
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

from engine.graph.pipelines import CATALOGUE
from engine.graph.spec import GraphSpec
from engine.jobs.protocol import Channel, die_with_parent
from engine.machine.driver import LIBRARY, load_libcuda
from engine.plans.building import PlanFailure, build, check_loaded, load
from engine.plans.candidates import list_mode
from engine.plans.context import Context, TargetUnusable, open_context
from engine.plans.engines import ask_engine, check, engine_count
from engine.plans.names import kernel_name
from engine.plans.refusals import condense
from engine.plans.targets import Target
from engine.records.plan import PlanIdentity, PlanOrigin, Stage, Status

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

    def ready(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a process does once, done before anybody waits for it: 0.1 to 0.5 s of a first listing."""
        context = self._context(request["target"])
        for spec in small_graphs():
            list_mode(self._cudnn, spec, context, "A")
        return {}

    def list(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Candidates of one mode, and at last the answer."""
        context = self._context(request["target"])
        listing = list_mode(self._cudnn, parse_spec(request["spec"]), context, request["mode"])
        for plan in listing.plans:
            yield {"record": plan.model_dump_json()}
        refused = None if listing.refused is None else condense(listing.refused)
        yield {"refused": refused, "assumptions": list(context.assumptions)}

    def build(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Build, serialize and store one plan."""
        identity = PlanIdentity.model_validate_json(request["identity"])
        context = self._context(request["target"])
        built = build(
            self._cudnn, parse_spec(request["spec"]), context, identity, request["plan_name"], request["modes"]
        )
        return {
            "blob_sha256": store_blob(built.blob, Path(request["blob_dir"])),
            "blob_bytes": len(built.blob),
            "workspace_bytes": built.workspace_bytes,
            "behavior_notes": list(built.behavior_notes),
            "numerical_notes": list(built.numerical_notes),
            "build_ms": built.build_ms,
            "remark": built.remark,
            "engine_name": kernel_name(built.blob),
        }

    def engines(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """How many engines there are to ask by id."""
        count = engine_count(self._cudnn, parse_spec(request["spec"]), self._context(request["target"]))
        return {"count": count}

    def engine(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What one engine says to the graph."""
        context = self._context(request["target"])
        answer = ask_engine(self._cudnn, parse_spec(request["spec"]), context, request["engine_id"])
        return {
            "knobs": [knob.model_dump() for knob in answer.knobs],
            "no_knobs": answer.no_knobs,
            "record": answer.plan and answer.plan.model_dump_json(),
            "refused": answer.refused,
        }

    def check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Whether cuDNN takes a plan."""
        identity = PlanIdentity.model_validate_json(request["identity"])
        context, origin = self._context(request["target"]), PlanOrigin(request["origin"])
        return {"record": check(self._cudnn, parse_spec(request["spec"]), context, identity, origin).model_dump_json()}

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
        check_loaded(self._cudnn, graph, parse_spec(request["spec"]))
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


def small_graphs() -> Iterator[GraphSpec]:
    """One of every family that cuDNN has libraries of its own for."""
    yield CATALOGUE["conv_relu"].graph({"n": "1", "c": "64", "h": "8", "w": "8", "k": "64"})
    yield CATALOGUE["matmul_epilogue"].graph({"b": "1", "m": "64", "n": "64", "k": "64"})
    yield CATALOGUE["sdpa"].graph({"b": "1", "hq": "1", "hkv": "1", "sq": "64", "skv": "64", "d": "64"})


@lru_cache(maxsize=64)
def parse_spec(text: str) -> GraphSpec:
    """A request's graph; the same ones come again and again."""
    return GraphSpec.model_validate_json(text)


def store_blob(blob: bytes, folder: Path) -> str:
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
