"""Reasons out of cuDNN's texts. The texts are what cuDNN 9.28.1 and 9.20.0 with frontend 1.32 said, shortened only by
whole blocks."""

import pytest

from engine.plans.refusals import condense, engine_blocks, innermost_reason, refusal, strip_router

ROUTER = (
    "no engine — python or backend — proposed a plan for this graph (the backend declined: {}; python engines "
    "declined: sdpa_fwd_prefill_sm100: requires SM100-106; current device is None; "
    "sdpa_fwd_prefill_sm90: requires SM90-90)"
)
WRAPPED = """Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: check_node_support_fort(node_ptr)
Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: (CUDNN_STATUS_NOT_INITIALIZED == status) || \
(CUDNN_STATUS_NOT_SUPPORTED == ((status) / 1000 * 1000))
Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: ptr->isSupported()
Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: finalize_internal()
"""
LAYOUT = (
    "Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: Epilogue tensors must be row major or N(D)HWC layout. at: "
    '(layout != "RowMajor" && layout != "TensorNHWC" && layout != "TensorNDHWC")\n'
)
NCHW = (
    "No valid engine configs for __\n"
    '{"engineId":-1,"smVersion":900,"knobChoices":{}}\n'
    "Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: The specified engine with global index -1 is not found for "
    "GENERIC_CONV_FUSION(20) at: CUDNN_INVALID_PLACE_HOLDER_ENGINE == name\n"
    "Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: finalize_internal()\n\n"
    '{"engineId":4,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_KERNEL_CFG":3}}\n' + LAYOUT + WRAPPED + "\n"
    '{"engineId":4,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_KERNEL_CFG":1}}\n' + LAYOUT + WRAPPED + "\n"
    '{"engineId":7,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_KERNEL_CFG":21}}\n' + LAYOUT + WRAPPED + "\n"
    '{"engineId":9,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_KERNEL_CFG":-1}}\n'
    "Warning: CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH; Reason: FORT_NATIVE_10X engine is only supported since "
    "Blackwell architecture at: !(1000 <= this->getDeviceProp()->deviceVer)\n" + WRAPPED + "\n"
    '{"engineId":1,"smVersion":900,"knobChoices":{}}\n'
    "Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: !all_io_nhwc\n" + WRAPPED + "\n"
    '{"engineId":0,"smVersion":900,"knobChoices":{}}\n'
    "Warning: CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH; Reason: fortBackend.is_cutlass_sm7x() && "
    "((this->getDeviceProp()->deviceVer < 700) || (this->getDeviceProp()->deviceVer > 800))\n" + WRAPPED
)
BF16_ON_TURING = (
    "No valid engine configs for ___\n"
    '{"engineId":9,"smVersion":750,"knobChoices":{}}\n'
    "Warning: CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH; Reason: is_bf16 && "
    "!hardware_bfloat16_supported(this->m_device_ver)\n"
    "Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: no search results or none implementable (stt=1, cur=0x7ffc36da3978)\n"
)
NO_KNOB = (
    "No valid engine configs for \n"
    '{"engineId":8,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_KERNEL_CFG":-1}}\n'
    "Warning: CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN; Reason: KERNEL_CFG knob must be set at: kcfg_idx < 0\n"
    + WRAPPED
)


def test_each_reason_stands_once_with_its_engines_and_those_of_other_architectures_do_not():
    assert refusal([ROUTER.format(NCHW)]).reasons == (
        "Epilogue tensors must be row major or N(D)HWC layout. (engines 4, 7)",
        "All tensors must be in NHWC layout. (engine 1)",
    )


def test_the_first_reason_stands_in_the_message():
    assert refusal([NCHW]).message == (
        "cuDNN has no execution plan for this graph. Epilogue tensors must be row major or N(D)HWC layout. "
        "(engines 4, 7)"
    )


def test_what_several_modes_say_is_counted_once():
    assert refusal([NCHW, ROUTER.format(NCHW)]) == refusal([NCHW])


def test_where_only_the_architecture_is_wrong_that_is_said():
    assert refusal([BF16_ON_TURING]).reasons == ("This architecture has no bfloat16 arithmetic. (engine 9)",)


def test_a_knob_that_only_a_default_configuration_lacks_is_no_reason_beside_others():
    assert refusal([NO_KNOB, NCHW]) == refusal([NCHW])
    alone = refusal([NO_KNOB])
    assert "give no reason" in alone.message and alone.reasons == ("KERNEL_CFG knob must be set (engine 8)",)


@pytest.mark.parametrize(
    "text", ["hidden_dim should be multiple of 8", "SDPA FP16/BF16 requires SM80 (Ampere) or newer"]
)
def test_a_check_of_the_frontend_is_its_own_reason(text):
    for given in (text, ROUTER.format(text), f"[cudnn_frontend] Error: {text}"):
        found = refusal([given, given])
        assert (found.message, found.reasons) == (text, (text,))


@pytest.mark.parametrize(
    "texts", [[], ["No valid engine configs for _\n"], [ROUTER.format("No valid engine configs for \n")]]
)
def test_without_a_word_from_cudnn_the_refusal_still_says_what_happened(texts):
    found = refusal(texts)
    assert "give no reason" in found.message and found.reasons == ()


def test_condensing_loses_no_reason():
    long = ROUTER.format(NCHW)
    short = condense(long)
    assert len(short) < len(long) / 2
    assert refusal([short]) == refusal([long])
    assert condense(short) == short
    assert condense("hidden_dim should be multiple of 8") == "hidden_dim should be multiple of 8"


def test_the_reason_of_one_plan_is_the_innermost():
    assert innermost_reason(LAYOUT + WRAPPED) == "Epilogue tensors must be row major or N(D)HWC layout."
    assert innermost_reason("[cudnn_frontend] Error: nothing to say") == "nothing to say"
    assert innermost_reason("") == "cuDNN gave no reason."


def test_blocks_that_are_broken_off_do_no_harm():
    for cut in range(0, len(NCHW), 7):
        refusal([NCHW[:cut]])
        engine_blocks(NCHW[cut:])
        condense(NCHW[cut:])


def test_the_router_is_stripped_to_the_last_parenthesis():
    assert strip_router(ROUTER.format("needs (a) and (b)")) == "needs (a) and (b)"
