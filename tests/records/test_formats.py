"""Records of the first format, as the first recordings have them, are read and are then of the current one."""

from __future__ import annotations

import json
import zipfile

import pytest
from pydantic import ValidationError

from engine.records.run import FORMAT_VERSION, READABLE_VERSIONS, RunRecord
from engine.runs.recordings import SHIPPED, Recordings


def test_every_shipped_recording_is_read():
    recordings = Recordings()
    assert not recordings.problems
    for file in sorted(SHIPPED.glob("*.zip")):
        text = zipfile.ZipFile(file).read("run.json")
        run = RunRecord.model_validate_json(text)
        assert json.loads(text)["format_version"] in READABLE_VERSIONS
        assert run.format_version == FORMAT_VERSION
        assert run.best.timings.of("hot").count >= 50
        assert RunRecord.model_validate_json(run.model_dump_json()) == run


@pytest.mark.parametrize("version", [0, 3, -1, True, "1"])
def test_other_versions_are_not(version):
    with zipfile.ZipFile(SHIPPED / "matmul.zip") as archive:
        content = json.loads(archive.read("run.json"))
    with pytest.raises(ValidationError, match="format_version"):
        RunRecord.model_validate_json(json.dumps({**content, "format_version": version}))
