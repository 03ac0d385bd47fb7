"""Imports go one way, walked on the syntax trees: pages -> app -> engine, and in the engine never to a later room."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("graph", "records", "machine", "plans", "measure", "runs", "bundles", "jobs", "bench", "cli")
LAYERS = ("engine", "app", "pages")
GPU_MODULES = {"torch", "cudnn"}
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Every module an import statement names, wherever it stands, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it goes"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "engine" and parts[1] in ROOMS else None


def test_there_is_code_in_every_layer_and_room():
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(LAYERS)
    assert {r for r in ROOMS if (ROOT / "engine" / r).exists() or (ROOT / "engine" / f"{r}.py").exists()} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_layers_import_downwards(path):
    layer = LAYERS.index(path.relative_to(ROOT).parts[0])
    above = set(LAYERS[layer + 1 :])
    assert {module for module in imports(path) if module.split(".")[0] in above} == set()


@pytest.mark.parametrize("path", [p for p in FILES if relative(p).startswith("engine")], ids=relative)
def test_a_room_never_imports_a_later_one(path):
    own = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if own is None:
        assert relative(path) in ("engine/__init__.py", "engine/__main__.py")
        return
    later = set(ROOMS[ROOMS.index(own) + 1 :])
    assert {module for module in imports(path) if room_of(module) in later} == set()


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_pictures_stay_out_of_the_engine_and_gpus_out_of_the_server(path):
    roots = {module.split(".")[0] for module in imports(path)}
    where = relative(path)
    if where.startswith("engine"):
        assert not roots & {"streamlit", "plotly"}
    if where.startswith(("engine/graph", "engine/records", "engine/runs", "app", "pages")):
        assert not roots & GPU_MODULES
