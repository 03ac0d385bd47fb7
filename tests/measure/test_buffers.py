"""Buffers: strides, uids and types of the graph, host scalars, poison that is told from a computed NaN, workspace."""

from __future__ import annotations

import pytest
import torch

from engine.graph.tensors import DataType, Role
from engine.measure.buffers import POISON, WORKSPACE_BYTES, bits, required_bytes


@pytest.mark.parametrize("dtype", DataType)
def test_the_pack_holds_every_real_tensor_as_the_graph_says(name, dtype, small, cpu_buffers):
    spec = small(name, dtype=dtype)
    pack = cpu_buffers(spec).pack
    assert set(pack) == {t.uid for t in spec.real}
    for tensor in spec.real:
        assert tuple(pack[tensor.uid].shape) == tensor.dims
        assert pack[tensor.uid].stride() == tensor.strides
        assert pack[tensor.uid].dtype == getattr(torch, tensor.dtype.torch_name)


def test_a_scalar_is_a_float32_tensor_of_the_host_and_a_number_to_torch(small, cpu_buffers):
    spec = small("matmul_epilogue", alpha=0.1)
    made = cpu_buffers(spec)
    (alpha,) = spec.with_role(Role.SCALAR)
    assert made.pack[alpha.uid].device.type == "cpu"
    assert made.pack[alpha.uid].dtype is torch.float32
    assert made.pack[alpha.uid].tolist() == [[[pytest.approx(0.1, rel=1e-7)]]]
    assert isinstance(made.values[alpha.uid], float)
    assert made.values[alpha.uid] == float(torch.tensor(0.1, dtype=torch.float32)) != 0.1


@pytest.mark.parametrize("dtype", DataType)
def test_the_poison_is_a_nan_that_no_arithmetic_makes(dtype, small, cpu_buffers):
    made = cpu_buffers(small("conv_relu", dtype=dtype))
    (output,) = made.outputs.values()
    assert torch.isnan(output).all()
    assert (bits(dtype, output) == POISON[dtype]).all()
    zero = torch.zeros_like(output)
    for computed in (zero / zero, zero.log() * 0, torch.full_like(output, float("inf")) - float("inf"), output + 1):
        nans = computed[torch.isnan(computed)]
        assert len(nans) == output.numel()
    # The canonical NaNs of NVIDIA's conversions and of C's: neither is the poison.
    canonical = {2: (0x7FFF, 0x7FC0, 0x7E00), 4: (0x7FFFFFFF, 0x7FC00000)}[dtype.itemsize]
    assert POISON[dtype] not in canonical
    for computed in (zero / zero, torch.full_like(output, float("inf")) - float("inf")):
        assert (bits(dtype, computed) != POISON[dtype]).all()


def test_poisoning_again_covers_what_was_written(small, cpu_buffers):
    made = cpu_buffers(small("matmul_epilogue"))
    made.workspace.zero_()
    for output in made.outputs.values():
        output.zero_()
    made.poison()
    assert all(torch.isnan(output).all() for output in made.outputs.values())
    assert (made.workspace == 0xFF).all()


def test_a_workspace_of_another_size_is_never_handed_over_clean(small, cpu_buffers):
    made = cpu_buffers(small("matmul"))
    assert made.workspace.numel() == WORKSPACE_BYTES
    for nbytes in (1 << 24, 1000, 0):
        made.workspace.zero_()
        assert made.resize_workspace(nbytes) is made.workspace
        assert made.workspace.numel() == max(nbytes, 1)
        assert (made.workspace == 0xFF).all()


def test_required_memory_counts_real_tensors_and_the_largest_input_twice(small):
    spec = small("matmul")
    a, b, c = 3 * 16 * 32 * 2, 3 * 32 * 24 * 2, 3 * 16 * 24 * 2
    assert required_bytes(spec) == a + b + c + b
