"""Why cuDNN refuses: the reason a person can act on, out of texts that wrap it many times. Pure text in, text out.

cuDNN answers a refused graph with one block per engine: a JSON line that names engine and knobs, then a line
``Warning: STATUS; Reason: TEXT at: CONDITION`` per stack frame, the innermost first. Frames further out repeat the call
(``finalize_internal()``) and say nothing. Checks of the frontend (head dim 100) come as one sentence.
"""

from __future__ import annotations

import json
import re

from engine.records.run import Refusal

_FRAME = re.compile(r"^(?:Warning|Error): (CUDNN_STATUS_\w+); Reason: (.*)$")
_PYTHON_ENGINES = re.compile(
    r"; python engines (?:declined|that accepted the graph but proposed no plan): .*\)\s*$", re.S
)
_ROUTER = "no engine — python or backend — proposed a plan for this graph (the backend declined: "
_ARCHITECTURE = "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"
_PLACEHOLDER_ENGINE = -1
_EMPTY = re.compile(r"No valid engine configs for\s*_*")
_UNSET_KNOB = re.compile(r"\bknob must be set\b")
_WORD = re.compile(r"[(\"']?[A-Za-z][A-Za-z'/-]*[)\"']?[.,:;]?")
_OPERATOR = re.compile(r"&&|\|\||==|!=|->|::|<=|>=")
_TOLD = {
    "!all_io_nhwc": "All tensors must be in NHWC layout.",
    "hardware_bfloat16_supported": "This architecture has no bfloat16 arithmetic.",
}
"""Bare C++ conditions that cuDNN gives for a reason, and what they say."""
REASON_LIMIT = 300
_FINALIZING = re.compile(
    r"(?P<what>engine\.get_ptr\(\)|engine config|backend_cuda_graph)\)? failed with message: (?P<told>.*), "
    r"and code: (?P<status>CUDNN_STATUS_\w+)",
    re.DOTALL,
)
"""How an engine asked by its id, a choice of its knobs, or a native call for CUDA graphs is refused; usually without a
message."""


def refusal(texts: list[str]) -> Refusal:
    """One refusal from what every heuristics mode said; each reason once, those that most engines give first.

    Reasons that only say "another architecture", or that a default configuration lacks a knob, stand only where there
    is no other: no change of the graph would help against them.
    """
    graph: dict[str, set[str]] = {}
    architecture: dict[str, set[str]] = {}
    unset: dict[str, set[str]] = {}
    sentences: list[str] = []
    for text in texts:
        own = strip_router(text)
        blocks = engine_blocks(own)
        if not blocks and own not in sentences and not _EMPTY.fullmatch(own):
            sentences.append(own)
        for engine, frames in blocks:
            status, reason = innermost(frames)
            kind = unset if _UNSET_KNOB.search(reason) else architecture if status == _ARCHITECTURE else graph
            kind.setdefault(reason, set()).add(engine)
    if sentences:
        return Refusal(message=sentences[0], reasons=(*sentences, *_ranked(graph)))
    ranked = _ranked(graph) or ([] if unset else _ranked(architecture))
    if not ranked:
        message = "cuDNN's heuristics offer no engine for this graph, and give no reason."
        return Refusal(message=message, reasons=(*_ranked(architecture), *_ranked(unset)))
    return Refusal(message=f"cuDNN has no execution plan for this graph. {ranked[0]}", reasons=tuple(ranked))


def strip_router(text: str) -> str:
    """cuDNN's own words, without what the frontend's router wraps around them."""
    if _ROUTER in text:
        text, others = _PYTHON_ENGINES.subn("", text.split(_ROUTER, 1)[1])
        text = text if others else text.rstrip().removesuffix(")")
    return re.sub(r"^\[cudnn_frontend\] Error: ", "", text.strip())


def condense(text: str) -> str:
    """The text in the same form, without router and without repetitions: one block per engine and reason, so that it
    fits a line of the protocol."""
    own = strip_router(text)
    blocks = engine_blocks(own)
    if not blocks:
        return own[:4000]
    lines: dict[str, None] = {}
    for engine, frames in blocks:
        status, reason = innermost(frames)
        lines.setdefault(f'{{"engineId":{engine}}}\nWarning: {status}; Reason: {reason}')
    return "\n".join(lines)[:8_000]


def engine_blocks(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """(engine id, [(status, reason), ...] innermost first) for every engine the text speaks of; [] where it is a
    sentence."""
    blocks: list[tuple[str, list[tuple[str, str]]]] = []
    for line in text.splitlines():
        if line.startswith('{"engineId"'):
            blocks.append((_engine_id(line), []))
        elif (match := _FRAME.match(line)) and blocks:
            blocks[-1][1].append((match[1], match[2]))
    return [(engine, frames) for engine, frames in blocks if frames and engine != str(_PLACEHOLDER_ENGINE)]


def innermost(frames: list[tuple[str, str]]) -> tuple[str, str]:
    """The innermost status, and the reason to show: the first that is a sentence for people, else the first of all."""
    told = [_clean(reason) for _, reason in frames]
    return frames[0][0], next((reason for reason in told if _is_prose(reason)), told[0])


def innermost_reason(text: str) -> str:
    """The one reason of a single plan's failure."""
    own = strip_router(text)
    frames = [(match[1], match[2]) for line in own.splitlines() if (match := _FRAME.match(line))]
    if frames:
        return innermost(frames)[1]
    if finalizing := _FINALIZING.search(own):
        return _refused_id(**finalizing.groupdict())
    return own[:REASON_LIMIT] or "cuDNN gave no reason."


def _refused_id(what: str, told: str, status: str) -> str:
    if told.strip():
        return _clean(told)
    if status == _ARCHITECTURE:
        return "This engine is for another architecture."
    named = {"engine config": "these knob choices", "backend_cuda_graph": "native calls for CUDA graphs"}
    refused = named.get(what, "this graph")
    return f"This engine does not take {refused} ({status}, no reason given)."


def _engine_id(line: str) -> str:
    try:
        return str(json.loads(line)["engineId"])
    except (ValueError, KeyError):
        return line[:40]


def _clean(reason: str) -> str:
    """Without the C++ condition that follows a message; a well-known bare condition as a sentence."""
    message = reason.split(" at: ", 1)[0].strip()
    return next((told for condition, told in _TOLD.items() if condition in message), message)[:REASON_LIMIT]


def _is_prose(reason: str) -> bool:
    words = [word for word in reason.split() if _WORD.fullmatch(word)]
    return len(words) >= 3 and not _OPERATOR.search(reason)


def _ranked(counts: dict[str, set[str]]) -> list[str]:
    order = sorted(counts, key=lambda reason: (not _is_prose(reason), -len(counts[reason])))
    return [f"{reason} ({_engines(counts[reason])})" for reason in order]


def _engines(engines: set[str]) -> str:
    numbers = sorted(engines, key=lambda engine: (len(engine), engine))
    return f"engine {numbers[0]}" if len(numbers) == 1 else f"engines {', '.join(numbers)}"
