"""The parts of a ledger."""

from __future__ import annotations

from typing import Literal, NamedTuple

Origin = Literal["log", "computed", "estimated"]


class Part(NamedTuple):
    """One holder of memory. `origin`: read from the log, computed from it exactly, or estimated.

    Names: weights, activations, non_torch, cuda_graphs, kv_cache, other_processes, reserved_unallocated,
    free, outside_budget, unaccounted. Where the log gives only the sum of some, their names are joined with
    `_and_`.
    """

    name: str
    gib: float
    origin: Origin


class Memory(NamedTuple):
    """The ledger of one GPU. With a total, the parts sum to it; a KV cache below zero is what is lacking.

    `device_gib` and `budget_gib` are None when the log does not tell them; `note` says in words what was
    inferred.
    """

    device_gib: float | None
    budget_gib: float | None
    parts: tuple[Part, ...]
    note: str | None = None

    def gib(self, name: str) -> float | None:
        """The size of the part of that name, or None."""
        return next((part.gib for part in self.parts if part.name == name), None)
