"""Reads a vLLM server's log and says why it failed, what to change and by how much.

>>> import vllm_doctor
>>> report = vllm_doctor.diagnose(b"ValueError: No available memory for the cache blocks.")
>>> report.primary
'budget-too-small-for-weights-and-activations'
"""

from __future__ import annotations

from vllm_doctor.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_doctor.diagnosis import Diagnosis, diagnose
    from vllm_doctor.report import Report

__all__ = ["Diagnosis", "Report", "__version__", "diagnose"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the engine only when it is asked for: `watch` must forward its first byte before that."""
    if name in {"diagnose", "Diagnosis"}:
        from vllm_doctor import diagnosis  # noqa: PLC0415 - see above

        return getattr(diagnosis, name)
    if name == "Report":
        from vllm_doctor.report import Report  # noqa: PLC0415 - see above

        return Report
    raise AttributeError(name)
