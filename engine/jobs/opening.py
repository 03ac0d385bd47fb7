"""A process that opens one bundle: ``python -m engine.jobs.opening``. It imports neither cudnn nor torch.

``open {"file": PATH, "folder": PATH | null}`` -> ``done {"files", "label", "remarks"}`` once everything in the bundle
was checked; with ``folder`` its serialized plans lie there by their SHA-256, and ``bundle.json`` beside them is its
Bundle. ``failed {"message"}``: what is wrong with it; nothing lies in the folder then.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.bundles.load_plan import FILE_LIMIT
from engine.bundles.reading import read_bundle
from engine.graph.errors import InvalidInput, invalid
from engine.jobs.protocol import Channel, die_with_parent

BUNDLE = "bundle.json"
_ADDRESS_SPACE = 16 << 30
"""Bytes; of real memory it uses some 100 MiB and what the bundle unpacks to."""
_CPU_S = 120


def open_bundle(request: Mapping[str, Any]) -> dict[str, Any]:
    """Raises InvalidInput and OSError."""
    try:
        with Path(request["file"]).open("rb") as file:
            data = file.read(FILE_LIMIT + 1)
    except OSError as error:
        rule = f"the file cannot be read ({error.strerror})."
        raise invalid("bundle", request["file"], rule, "Give a file that exists.") from None
    bundle, blobs = read_bundle(data)
    if request["folder"] is not None:
        folder = Path(request["folder"])
        for sha256, blob in blobs.items():
            (folder / sha256).write_bytes(blob)
        (folder / BUNDLE).write_text(bundle.model_dump_json(), encoding="utf-8")
    return {"files": bundle.files, "label": bundle.manifest.label, "remarks": list(bundle.remarks)}


def main() -> None:
    """Serve until the parent closes the pipe."""
    die_with_parent()
    channel = Channel()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    for request in channel.requests():
        try:
            channel.send(request, "done", **open_bundle(request))
        except (InvalidInput, OSError) as error:
            channel.send(request, "failed", message=str(error)[:4000])


if __name__ == "__main__":
    main()
