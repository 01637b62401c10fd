"""The memory ledger as data: its parts and their origins."""

from __future__ import annotations

from typing import Literal, NamedTuple

Origin = Literal["log", "computed", "estimated"]


class Part(NamedTuple):
    """One part of the memory. `origin`: read from the log, computed from it exactly, or estimated.

    Names: weights, activations, non_torch, cuda_graphs, kv_cache, other_processes, reserved_unallocated,
    free, outside_budget, runtime (CUDA context, NCCL and the PyTorch allocator), unaccounted.
    If only the sum of several parts is known, their names are joined with
    `_and_`.
    """

    name: str
    gib: float
    origin: Origin


class Memory(NamedTuple):
    """The ledger of one GPU. With a total, the parts sum to it; a negative KV cache is the missing amount.

    `device_gib` and `budget_gib` are None if the log does not show them; `note` explains what was inferred.
    """

    device_gib: float | None
    budget_gib: float | None
    parts: tuple[Part, ...]
    note: str | None = None

    def gib(self, name: str) -> float | None:
        """Return the size of the part of that name, or None."""
        return next((part.gib for part in self.parts if part.name == name), None)
