"""Read a vLLM server's log and explain why the server failed, what to change and by how much.

>>> import vllm_doctor
>>> report = vllm_doctor.diagnose(b"ValueError: No available memory for the cache blocks.")
>>> report.primary
'budget-too-small-for-weights-and-activations'
"""

from __future__ import annotations

from vllm_doctor.diagnosis import Diagnosis, diagnose
from vllm_doctor.reports import Report
from vllm_doctor.version import __version__

__all__ = ["Diagnosis", "Report", "__version__", "diagnose"]
