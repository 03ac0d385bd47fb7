"""cuDNN operation by operation: a plan per piece, real tensors between them, torch where cuDNN refuses a piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from engine.graph.cutting import Cut, Piece
from engine.graph.tensors import Role
from engine.measure.buffers import Buffers, empty
from engine.measure.calling import Call
from engine.measure.fusion.torch_versions import constants


class Unfused:
    """The pieces of ``made`` on the data of ``buffers``. ``plans``: loaded plans by the piece's place; a piece without
    one runs in torch. ``held_bytes``: device memory beside inputs, for as long as this lives.

    What a plan reads and writes stays where it is, so its variant pack is made once; only what torch makes moves about.
    """

    def __init__(self, made: Cut, buffers: Buffers, plans: Mapping[int, Any], handle: Any) -> None:
        self._cut, self._plans, self._handle = made, dict(plans), handle
        device = buffers.device
        self._given = {**buffers.values, **constants(made, device), **made.scalars}
        self._scalars = {
            **buffers.scalars,
            **{uid: torch.full(made.owners[uid].dims, v, dtype=torch.float32) for uid, v in made.scalars.items()},
        }
        self._made = {uid: self._room(uid, device) for i in plans for uid in self._piece(i).operation.outputs.values()}
        room = max((int(plan.get_workspace_size()) for plan in plans.values()), default=0)
        self._workspace = torch.empty(max(room, 1), dtype=torch.uint8, device=device)
        self._packs = {i: pack for i in plans if (pack := self._fixed_pack(i)) is not None}
        self._known: dict[int, Any] = {}
        fixed = [tensor for tensor, _, _ in made.constants] + [made.owners[uid] for uid in self._made]
        self.held_bytes = sum(tensor.nbytes for tensor in fixed) + room

    def run(self) -> dict[int, Any]:
        """All pieces once, in order; outputs by uid."""
        known = dict(self._given)
        with torch.inference_mode():
            for place, piece in enumerate(self._cut.pieces):
                known.update(self._step(place, piece, known))
        self._known = known
        return {tensor.uid: known[tensor.uid] for tensor in self._cut.graph.outputs}

    def alone(self, place: int) -> Call:
        """One piece again and again, on what its inputs were in the last ``run``."""
        piece, known = self._piece(place), dict(self._known)

        def call() -> None:
            with torch.inference_mode():
                self._step(place, piece, known)

        return call

    def _step(self, place: int, piece: Piece, known: Mapping[int, Any]) -> dict[int, Any]:
        if place in self._plans:
            pack = self._packs.get(place) or self._pack(place, known)
            self._plans[place].execute(pack, self._workspace, handle=self._handle)
            return {uid: self._made[uid] for uid in piece.operation.outputs.values()}
        return self._cut.step(piece, known, lambda operation, tensors: operation.eager(torch, tensors))

    def _fixed_pack(self, place: int) -> dict[int, Any] | None:
        """The variant pack of a piece whose tensors all stay where they are."""
        fixed = {**self._given, **self._made}
        if any(tensor.uid not in fixed for tensor in self._piece(place).spec.tensors):
            return None
        return self._pack(place, fixed)

    def _pack(self, place: int, known: Mapping[int, Any]) -> dict[int, Any]:
        pack = {}
        for tensor in self._piece(place).spec.tensors:
            if tensor.role is Role.SCALAR:
                pack[tensor.uid] = self._scalars[tensor.uid]
            else:
                value = self._made[tensor.uid] if tensor.role is Role.OUTPUT else known[tensor.uid]
                pack[tensor.uid] = self._cut.seen(self._laid_out(value, tensor.uid), tensor)
        return pack

    def _laid_out(self, value: Any, uid: int) -> Any:
        """In the strides that the plan was built for; torch may have chosen others for what it made."""
        owner = self._cut.owners[uid]
        strides = zip(value.shape, value.stride(), owner.strides, strict=True)
        if all(size == 1 or ours == theirs for size, ours, theirs in strides):
            return value
        return self._room(uid, value.device).copy_(value)

    def _piece(self, place: int) -> Piece:
        return self._cut.pieces[place]

    def _room(self, uid: int, device: Any) -> Any:
        owner = self._cut.owners[uid]
        return empty(owner, getattr(torch, owner.dtype.torch_name), device)
