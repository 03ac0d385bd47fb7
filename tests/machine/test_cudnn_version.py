"""The cuDNN version that belongs on a machine: torch's own with a GPU, 9.28 or newer without, or the one asked for."""

from __future__ import annotations

import pytest

from engine.machine.cudnn_version import choose_cudnn, offered_versions

CUDA_TORCH = [
    "filelock",
    "nvidia-cudnn-frontend; extra == 'x'",
    'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
    "nvidia-nccl-cu13==2.28.9; platform_system == 'Linux'",
]
CPU_TORCH = ["filelock", "sympy>=1.13.3"]


def test_a_gpu_machine_keeps_torchs_own():
    choice = choose_cudnn("", gpu=True, torch_requirements=CUDA_TORCH)
    assert choice.requirement == "nvidia-cudnn-cu13==9.20.0.48"
    assert choice.allows("9.20.0.48")
    assert not choice.allows("9.28.1.4")


def test_a_gpu_machine_whose_torch_brings_none_gets_the_newest():
    assert choose_cudnn("", gpu=True, torch_requirements=CPU_TORCH).specifier == ">=9.28,<10"


@pytest.mark.parametrize("requirements", [CUDA_TORCH, CPU_TORCH])
def test_without_a_gpu_the_lists_have_to_be_complete(requirements):
    choice = choose_cudnn("", gpu=False, torch_requirements=requirements)
    assert choice.requirement == "nvidia-cudnn-cu13>=9.28,<10"
    allowed = {v: choice.allows(v) for v in ("9.20.0.48", "9.9.0.52", "9.28.0.42", "9.28.1.4", "9.100.0.1", "10.0.0.1")}
    assert [v for v, ok in allowed.items() if ok] == ["9.28.0.42", "9.28.1.4", "9.100.0.1"]
    assert not choice.allows(None)


@pytest.mark.parametrize("gpu", [True, False])
def test_the_version_asked_for_wins_on_every_machine(gpu):
    three = choose_cudnn(" 9.20.0 ", gpu, CUDA_TORCH)
    assert three.requirement == "nvidia-cudnn-cu13==9.20.0.*"
    assert three.allows("9.20.0.48")
    assert not three.allows("9.20.1.1")
    assert "CUDNN=9.20.0" in three.reason
    four = choose_cudnn("9.19.0.56", gpu, CUDA_TORCH)
    assert four.requirement == "nvidia-cudnn-cu13==9.19.0.56"
    assert not four.allows("9.19.0.5")


@pytest.mark.parametrize("asked", ["9.20", "9", "newest", "8.9.7", "10.1.0", "9.20.0.48.1", "9.20.x", "9.20.0; rm"])
def test_what_is_no_version_is_refused_with_an_example(asked):
    with pytest.raises(ValueError, match=r"^CUDNN=.*9\.x\.y.*CUDNN=9\.20\.0"):
        choose_cudnn(asked, gpu=False, torch_requirements=CPU_TORCH)


def test_the_versions_an_index_offers_are_read_from_pips_complaint():
    error = (
        "ERROR: Could not find a version that satisfies the requirement nvidia-cudnn-cu13==9.77.0.* "
        "(from versions: 0.0.0a0, 9.19.0.56, 9.20.0.27.dev72339430, 9.20.0.48)"
    )
    assert offered_versions(error) == ["9.19.0.56", "9.20.0.48"]
    assert offered_versions("ERROR: Could not find a version (from versions: none)") == []
    assert offered_versions("ERROR: no space left on device") == []
