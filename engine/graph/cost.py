"""What a graph must move over memory fused and cut into pieces, tensor by tensor: where the gain of fusing comes from.

A piece reads each of its inputs and writes each of its outputs at least once; that much must move, whatever the caches
do. A fused graph moves its real tensors once and its virtual ones never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.graph.cutting import Cut, Piece


@dataclass(frozen=True)
class Saved:
    """One tensor whose traffic fusing removes, wholly or in part.

    ``how``: "on chip" where it never reaches memory when fused, "not needed" where the fused graph has no such tensor,
    "read less" where it is in memory all the same. ``touches``: how many times the pieces write or read it.
    """

    uid: int
    name: str
    nbytes: int
    touches: int
    how: Literal["on chip", "not needed", "read less"]
    saved_bytes: int

    @property
    def stays_on_chip(self) -> bool:
        """Whether it is made and used without reaching memory."""
        return self.how == "on chip"


@dataclass(frozen=True)
class Cost:
    """Bytes that must move, fused and unfused, and the tensors that make the difference, largest saving first."""

    fused_bytes: int
    unfused_bytes: int
    pieces: int
    saved: tuple[Saved, ...]

    @property
    def saved_bytes(self) -> int:
        """What fusing need not move."""
        return self.unfused_bytes - self.fused_bytes


def cost(cut: Cut) -> Cost:
    """Of a graph that was cut."""
    touches: dict[int, int] = {}
    for piece in cut.pieces:
        for tensor in piece.spec.tensors:
            touches[tensor.uid] = touches.get(tensor.uid, 0) + 1
    real, between = {tensor.uid for tensor in cut.graph.real}, {tensor.uid for tensor in cut.between}
    saved = []
    for uid, count in touches.items():
        owner, fused = cut.owners[uid], int(uid in real)
        how: Literal["on chip", "not needed", "read less"] = "read less" if fused else "not needed"
        if owner.nbytes and count > fused:
            how = "on chip" if uid in between else how
            saved.append(Saved(uid, owner.name, owner.nbytes, count, how, (count - fused) * owner.nbytes))
    saved.sort(key=lambda one: (-one.saved_bytes, one.uid))
    unfused = sum(piece_bytes(piece) for piece in cut.pieces)
    return Cost(cut.graph.bytes_moved(), unfused, len(cut.pieces), tuple(saved))


def piece_bytes(piece: Piece) -> int:
    """What one piece must read and write."""
    return piece.spec.bytes_moved()
