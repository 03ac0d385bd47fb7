"""What reuse gives on a real GPU: first executions, dynamic shapes at every size, CUDA graphs, and bundles that arrive
from elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from engine.bundles.checkups import FINE, UNUSABLE, WORSE
from engine.bundles.choosing import built_plans
from engine.bundles.export import Part, bundle_of
from engine.bundles.reading import read_bundle
from engine.graph.pipelines import CATALOGUE, pipeline
from engine.jobs.examining import Means, examine
from engine.jobs.planning import plan_graph
from engine.jobs.pool import BuilderPool
from engine.jobs.request import Study
from engine.jobs.studying import Processes, study
from engine.plans.targets import resolve_target
from engine.records.options import SweepOptions
from engine.records.payoff import load_speedup
from engine.records.plan import Status
from engine.records.reuse import Way
from engine.runs.recordings import SHIPPED
from tests.bundles.conftest import as_planned

pytestmark = pytest.mark.gpu
LETTERS = {"conv_relu": "n", "conv_bias_relu": "n", "matmul": "n", "matmul_epilogue": "n"}
SIZES = (8, 16, 24, 32, 48)


def studied(name, target, folder, sizes=(), **more):
    graph, letter = CATALOGUE[name].graph({}), LETTERS.get(name, "")
    shapes = {size: CATALOGUE[name].graph({letter: size}) for size in sizes}
    asked = Study(name, {}, graph, target, SweepOptions(), letter=letter if sizes else "", shapes=shapes, **more)
    return study(asked, folder, threading.Event(), processes=Processes(lock_folder=folder))[0]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CATALOGUE)
def test_loading_is_far_faster_than_building_and_every_plan_captures_or_says_why(name, target, tmp_path):
    run = studied(name, target, tmp_path, repeats=1)
    reuse = run.reuse
    assert reuse.on_gpu and len(reuse.costs) == len(reuse.graphs) == sum(bool(p.blob_sha256) for p in run.plans)
    for cost in reuse.costs:
        assert cost.message is None, (cost.plan_name, cost.message)
        assert cost.execute_cold_ms and cost.execute_warm_ms and cost.execute_load_ms
        assert cost.precompiled in (True, None), (cost.plan_name, cost.precompiled_message)
    if any(cost.compiled for cost in reuse.costs):
        assert load_speedup(reuse.costs) >= 40
    for use in reuse.graphs:
        assert use.captured or use.capture_message, use.plan_name
        if use.captured:
            slow = use.call_us.median_us > 4000  # A hundred of those would last long, and show nothing.
            assert "1" in use.replays and (slow or set(use.replays) == {"1", "10", "100"}), use
            assert use.new_data and use.bound, use
            if "100" in use.replays:
                assert use.replays["100"].median_us <= use.replays["1"].median_us * 1.1, use
        assert use.populated is not None and (use.populated or use.populate_message), use
        if use.populated:
            assert use.updated is not None and (use.update_right or use.update_message), use


@pytest.mark.parametrize("name", LETTERS)
def test_a_kernel_cache_over_five_sizes_is_right_and_its_price_is_known(name, target, tmp_path):
    shapes = studied(name, target, tmp_path, SIZES, repeats=1, plans=1, graphs=False).reuse.shapes
    static, cached = shapes.of(Way.STATIC), shapes.of(Way.CACHE)
    for own, shared in zip(static.sizes, cached.sizes, strict=True):
        assert own.right and own.hot, own
        assert shared.refused or shared.complaint or (shared.right and shared.hot), shared
    built = [size.build_ms for size in cached.sizes if size.build_ms is not None]
    if built:
        assert np.median(built[1:]) < built[0] / 5
    assert {(one.tuned_at, one.run_at) for one in shapes.matrix} >= {(size, size) for size in SIZES}


def test_overriding_shapes_is_checked_at_every_size(target, tmp_path):
    sizes = (96, 100, 128)
    graphs = {size: pipeline("matmul").graph({"m": size}) for size in sizes}
    asked = Study("matmul", {}, graphs[128], target, SweepOptions(), 1, 1, "m", graphs, matrix=False, graphs=False)
    run, _ = study(asked, tmp_path, threading.Event(), processes=Processes(lock_folder=tmp_path))
    override = run.reuse.shapes.of(Way.OVERRIDE)
    for size in override.sizes:
        assert size.refused or size.right is not None or size.complaint, size
        if size.right:
            assert size.hot and size.max_rel <= size.allowed
        elif size.right is False:
            assert size.complaint


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A bundle made as on a machine without a GPU: through the device properties of the H200."""
    folder, at = tmp_path_factory.mktemp("elsewhere"), resolve_target("h200")
    parts = []
    with BuilderPool(4, compute_cache=True) as pool:
        for name in ("matmul", "sdpa"):
            graph = CATALOGUE[name].graph({})
            run = as_planned(name, graph, at, plan_graph(graph, at, pool=pool, blob_dir=folder))
            plans = tuple(built_plans(run))[:3]
            parts.append(Part(run, plans, {p.blob_sha256: (folder / p.blob_sha256).read_bytes() for p in plans}))
    file = folder / "bundle.zip"
    file.write_bytes(bundle_of(parts))
    return file


def test_a_bundle_made_without_a_gpu_loads_and_runs_right_on_it(elsewhere, target, tmp_path):
    if target.info.gpu_name != "NVIDIA H200":
        pytest.skip("the bundle is for an H200")
    means = Means(target=target)
    found = examine(elsewhere, True, every_plan=True, means=means)
    assert found.problem is None and found.refused is None
    for plan in found.plans:
        assert plan.loading.ok and plan.rebuilding.ok, plan
        assert plan.running.status is Status.OK and plan.running.median_us, plan
    assert found.exit_status in (FINE, WORSE)


def test_the_loader_alone_runs_a_bundle_and_picks_by_dims(elsewhere, target, tmp_path):
    if target.info.gpu_name != "NVIDIA H200":
        pytest.skip("the bundle is for an H200")
    _, _ = read_bundle(elsewhere.read_bytes())
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2] / "engine" / "bundles")!r})
import torch
from load_plan import load_plan
plans = load_plan({str(elsewhere)!r})
a = torch.randn(8, 256, 512, device="cuda").bfloat16(); b = torch.randn(8, 512, 256, device="cuda").bfloat16()
out = plans(A=a, B=b)
torch.cuda.synchronize()
one = load_plan({str(elsewhere)!r}, dims={{"A": (8, 256, 512)}})
assert one.way == "serialized", one.why
want = a.double() @ b.double()
error = (out["C"].double() - want).norm() / want.norm()
assert error < 0.01, error
print("right")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "right", done.stderr


@pytest.mark.parametrize(("name", "way"), [("conv_bias_relu", "recipe"), ("sdpa", "heuristics")])
def test_a_bundle_of_another_cudnn_takes_another_way_and_says_so(name, way, target, tmp_path):
    """Recordings are of 9.19.0; where this machine has that, their plans load as they are."""
    from engine.bundles.choosing import default_plan
    from engine.runs.archive_reading import read_run_file

    recording = read_run_file((SHIPPED / f"{name}.zip").read_bytes())
    plan, why = default_plan(recording.run)
    file = tmp_path / "bundle.zip"
    file.write_bytes(bundle_of([Part(recording.run, (plan,), recording.blobs, why)]))
    loader = Path(__file__).resolve().parents[2] / "engine" / "bundles" / "load_plan.py"
    done = subprocess.run([sys.executable, str(loader), str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = examine(file, True, means=Means(target=target))
    if found.cudnn == "9.19.0":
        assert "from its serialized form" in done.stdout and found.plans[0].loading.ok
        return
    words = {"recipe": "from its recipe", "heuristics": "from the heuristics' choice"}
    assert words[way] in done.stdout and "because" in done.stdout, done.stdout
    assert found.exit_status == (WORSE if way == "recipe" else UNUSABLE)


def test_the_command_line_writes_a_study(target, tmp_path):
    out = tmp_path / "run.zip"
    command = [sys.executable, "-m", "engine", "reuse", "matmul", "--plans", "2", "--repeats", "1", "--json"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["reuse"]["on_gpu"] and out.exists()
    assert len(told["reuse"]["graphs"]) == 2
