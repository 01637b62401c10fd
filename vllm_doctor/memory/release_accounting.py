"""How each release accounts for GPU memory."""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.catalog.release_numbers import ReleaseNumbers

GRAPHS_RESERVED_SINCE = (0, 20, 0)
"""The release since which the CUDA graph estimate is taken out of the budget (gpu_worker.py)."""
NULL_BLOCK_SINCE = (0, 29, 0)
"""The release since which one block of the KV cache is held back and holds no tokens."""
STAGE_NEED_SINCE = (0, 17, 0)
"""The release since which the printed need of a request is that of one pipeline stage, not the sum over all."""


class Accounting(NamedTuple):
    """What a release takes out of its memory budget."""

    counts_others: bool  # memory of other processes is taken from this server's budget
    counts_non_torch: bool  # non-torch memory is taken from the budget
    reserves_graphs: bool  # the CUDA graph estimate is taken from the budget
    peak_has_graphs: bool  # the printed activation peak includes that estimate
    default_utilization: float | None


def default_utilization(version: ReleaseNumbers) -> float:
    """Return the default of --gpu-memory-utilization (vllm/config/cache.py): 0.9, since 0.20 0.92."""
    return 0.92 if version >= (0, 20, 0) else 0.9


def accounting_of(version: ReleaseNumbers | None, engine: str | None, graphs_enabled: bool | None) -> Accounting:
    """Return the accounting of a release and engine.

    `graphs_enabled` says whether the log shows the CUDA graph estimate as enabled; None if it does not say.
    """
    if version is None:
        return Accounting(False, True, bool(graphs_enabled), False, None)
    if engine == "V1":
        counts_others = (0, 6, 4) <= version <= (0, 9, 0)
    else:
        counts_others = (0, 2, 5) <= version < (0, 3, 3) or version == (0, 6, 4)
    reserves = graphs_enabled if graphs_enabled is not None else version >= GRAPHS_RESERVED_SINCE
    return Accounting(
        counts_others=counts_others,
        counts_non_torch=version >= (0, 2, 5),
        reserves_graphs=reserves,
        peak_has_graphs=reserves and (version >= (0, 27, 0) or version[:2] == (0, 18)),
        default_utilization=default_utilization(version),
    )
