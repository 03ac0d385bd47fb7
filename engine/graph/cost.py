"""What a graph must move over memory fused and cut into pieces, tensor by tensor: where the gain of fusing comes from.

A piece reads each of its inputs and writes each of its outputs at least once; that much must move, whatever the caches
do. A fused graph moves its real tensors once and its virtual ones never.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.graph.cutting import Cut, Piece


@dataclass(frozen=True)
class Saved:
    """One tensor whose traffic fusing removes, wholly or in part.

    ``stays_on_chip``: it never reaches memory when fused; else it is only read less often. ``touches``: how many times
    the pieces write or read it.
    """

    uid: int
    name: str
    nbytes: int
    touches: int
    stays_on_chip: bool
    saved_bytes: int


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
    real = {tensor.uid for tensor in cut.graph.real}
    saved = []
    for uid, count in touches.items():
        owner, fused = cut.owners[uid], int(uid in real)
        if owner.nbytes and count > fused:
            saved.append(Saved(uid, owner.name, owner.nbytes, count, not fused, (count - fused) * owner.nbytes))
    saved.sort(key=lambda one: (-one.saved_bytes, one.uid))
    unfused = sum(piece_bytes(piece) for piece in cut.pieces)
    return Cost(cut.graph.bytes_moved(), unfused, len(cut.pieces), tuple(saved))


def piece_bytes(piece: Piece) -> int:
    """What one piece must read and write."""
    return piece.spec.bytes_moved()
