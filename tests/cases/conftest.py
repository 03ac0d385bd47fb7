"""Problems that people reported in public, each a test of what Planscope shows; named by their source (FE and PT are
issues of NVIDIA/cudnn-frontend and pytorch/pytorch). Recordings stand in for a GPU, real cuDNN plans without one.

Tested elsewhere: PT 188892 and diffusers 9704 (missing and mismatched libraries) in tests/machine/test_libraries.py,
and that two builds of one plan are alike to the byte (FE 729) in tests/cudnn/test_replay.py.

Waiting for what they need:

| source | needs |
|---|---|
| FE 131, FE 103 | fp8, and a convolution's weight gradient |
| FE 133, FE 134 | batchnorm training |
| FE 422 | int8 |
| FE 70 | fp64 (its fp32 half is FE 39) |
| FE 1072 | attention backward, scores shifted by hand |
| PT 174051 | convolutions in 3D, two graphs on the same data |
| PT 189207, PT 34977 | grouped convolutions, a test of bitwise repetition |
| PT 159682 | layernorm and rmsnorm, torch.compile |
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from engine.plans.candidates import MODES
from engine.records.run import RunRecord
from engine.runs.recordings import Recordings
from tests.cli.conftest import home, invoke

__all__ = ["home", "invoke"]

Show = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture(scope="session")
def recordings() -> Recordings:
    return Recordings()


@pytest.fixture(scope="session")
def recorded(recordings) -> Callable[..., RunRecord]:
    """``recorded("matmul", dtype="fp32")``: the one recording that has these parameters and asked every mode.
    Recordings are found by what they are of, for they are replaced by later ones."""

    def find(pipeline: str, **parameters: str) -> RunRecord:
        found = [
            summary.id
            for summary in recordings.summaries()
            if summary.measured and summary.pipeline == pipeline and parameters.items() <= summary.parameters.items()
            if recordings.get(summary.id).options.modes == MODES
        ]
        assert len(found) == 1, (pipeline, parameters, found)
        return recordings.get(found[0])

    return find


@pytest.fixture
def show(recorded, invoke) -> Show:
    """What ``runs show`` gives for a recording: its JSON, and its text for people."""

    def told(pipeline: str, **parameters: str) -> tuple[dict[str, Any], str]:
        run = recorded(pipeline, **parameters)
        return json.loads(invoke("runs", "show", run.id, "--json").stdout), invoke("runs", "show", run.id).stdout

    return told


def members(file: bytes) -> dict[str, bytes]:
    """The files in a zip."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
