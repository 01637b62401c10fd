"""Read a vLLM server's log and explain why the server failed, what to change and by how much.

>>> import vllm_doctor
>>> report = vllm_doctor.diagnose(b"ValueError: No available memory for the cache blocks.")
>>> report.primary
'budget-too-small-for-weights-and-activations'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_doctor.version import __version__

if TYPE_CHECKING:
    from vllm_doctor.diagnosis import Diagnosis, diagnose
    from vllm_doctor.reports import Report

__all__ = ["Diagnosis", "Report", "__version__", "diagnose"]


def __getattr__(name: str) -> Any:
    """Import what is asked for: pytest loads this package in every session, for its plug-in."""
    if name in {"Diagnosis", "diagnose"}:
        from vllm_doctor import diagnosis as module  # noqa: PLC0415
    elif name == "Report":
        from vllm_doctor import reports as module  # type: ignore[no-redef]  # noqa: PLC0415
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)
