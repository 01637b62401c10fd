"""One GPU as a tool such as nvidia-smi shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SERVERS = ("vllm", "enginecore", "worker_tp", "worker_dp", "worker_pp", "ray::", "api_server")


class Process(NamedTuple):
    """A process with memory on a GPU; `used_gib` is None where the tool does not say."""

    pid: int
    name: str
    used_gib: float | None = None


class Card(NamedTuple):
    """A GPU, or a MIG instance of one, in one output of a tool.

    `line` is the 1-based line that shows the memory. All of it is text of the input: names are untrusted.
    """

    tool: str
    number: int
    total_gib: float | None = None
    used_gib: float | None = None
    free_gib: float | None = None
    name: str = ""
    driver: str = ""
    line: int = 0
    processes: tuple[Process, ...] = ()
    instance: str = ""

    @property
    def total(self) -> float | None:
        """Return the total memory in GiB: shown, or used and free together."""
        if self.total_gib is not None or self.used_gib is None or self.free_gib is None:
            return self.total_gib
        return self.used_gib + self.free_gib

    @property
    def used(self) -> float | None:
        """Return the used memory in GiB: shown, or the total without what is free."""
        if self.used_gib is not None or self.total_gib is None or self.free_gib is None:
            return self.used_gib
        return self.total_gib - self.free_gib

    @property
    def is_serving(self) -> bool:
        """Return whether a process of vLLM is listed on it."""
        return any(word in process.name.lower() for process in self.processes for word in _SERVERS)

    def facts(self) -> dict[str, object]:
        """Return the facts it shows, by name."""
        found: dict[str, object] = {
            "gpu_name": self.name, "gpu_driver_version": self.driver, "gpu_total_gib": self.total,
            "gpu_used_gib": self.used}  # what is free then says nothing on what was free when vLLM started
        return {name: round(value, 4) if isinstance(value, float) else value
                for name, value in found.items() if value not in {None, ""}}


def choose(cards: Sequence[Card], facts: Mapping[str, object]) -> Card | None:
    """Return the card that a ledger of one GPU is about; None without cards.

    Of several it is the one that ran out of memory, else the fullest of those that list vLLM's processes, else the
    fullest of those that can hold the weights, else the fullest. Of several outputs for one card the last one counts.
    """
    latest = {(card.number, card.instance): card for card in cards if card.total is not None or card.used is not None}
    if not latest:
        return next(iter(cards), None)
    found = list(latest.values())
    index = facts.get("oom_gpu_index")
    if isinstance(index, int) and any(card.number == index for card in found):
        found = [card for card in found if card.number == index]
    weights = facts.get("model_weights_gib")
    holding = [card for card in found if isinstance(weights, (int, float)) and (card.used or 0.0) >= weights]
    found = [card for card in found if card.is_serving] or holding or found
    return max(found, key=lambda card: card.used if card.used is not None else -1.0)
