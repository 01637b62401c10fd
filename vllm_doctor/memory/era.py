"""How a release accounts for the memory (section 1 of the memory ledger)."""

from __future__ import annotations

from typing import NamedTuple

_MOST_DIGITS = 9  # of one number of a version


class Era(NamedTuple):
    """How a release counts (section 1 of the memory ledger)."""

    counts_others: bool  # what other processes hold is taken from this instance's budget
    counts_non_torch: bool  # memory outside PyTorch is taken from the budget
    reserves_graphs: bool  # the CUDA graph estimate is taken from the budget
    peak_has_graphs: bool  # the printed activation peak includes that estimate
    default_utilization: float | None


def default_utilization(version: tuple[int, int, int]) -> float:
    """Return the default of --gpu-memory-utilization (vllm/config/cache.py): 0.9, since 0.20 0.92."""
    return 0.92 if version >= (0, 20, 0) else 0.9


def era_of(version: tuple[int, int, int] | None, engine: str | None, graphs_enabled: bool | None) -> Era:
    """The accounting of a release and engine; `graphs_enabled` is what the log says of the CUDA graph estimate."""
    if version is None:
        return Era(False, True, bool(graphs_enabled), False, None)
    if engine == "V1":
        counts_others = (0, 6, 4) <= version <= (0, 9, 0)
    else:
        counts_others = (0, 2, 5) <= version < (0, 3, 3) or version == (0, 6, 4)
    reserves = graphs_enabled if graphs_enabled is not None else version >= (0, 20, 0)
    return Era(
        counts_others=counts_others,
        counts_non_torch=version >= (0, 2, 5),
        reserves_graphs=reserves,
        peak_has_graphs=reserves and (version >= (0, 27, 0) or version[:2] == (0, 18)),
        default_utilization=default_utilization(version),
    )


def release(version: object) -> tuple[int, int, int] | None:
    """The first three numbers of a version: (0, 8, 5) of `0.8.5.post1`, (0, 15, 2) of `0.15.2rc1`."""
    if not isinstance(version, str):
        return None
    numbers = []
    for piece in version.lstrip("vV").split("+")[0].split(".")[:3]:
        digits = piece[: len(piece) - len(piece.lstrip("0123456789"))]
        if not digits or len(digits) > _MOST_DIGITS:
            break
        numbers.append(int(digits))
    if len(numbers) < 2:
        return None
    return numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0
