"""What failed, with or without a rule: exception, message, calls, feature, kind, signature, next steps."""

from __future__ import annotations

from vllm_doctor.failures.assess import (
    ANSWER_REACH,
    Proof,
    Start,
    crash_call,
    describe,
    ends_engine,
    ends_in_traceback,
    ends_log,
    find,
    is_answered_with_5xx,
    native_functions,
    raised_by_caller,
    raised_by_engine,
)
from vllm_doctor.failures.collect import FailureCollector
from vllm_doctor.failures.consequences import as_reported_by_server, as_reported_by_worker
from vllm_doctor.failures.model import Candidate, Failure, Place, Setting

__all__ = ["ANSWER_REACH", "Candidate", "Failure", "FailureCollector", "Place", "Proof", "Setting", "Start",
           "as_reported_by_server", "as_reported_by_worker", "crash_call", "describe", "ends_engine",
           "ends_in_traceback", "ends_log", "find", "is_answered_with_5xx", "native_functions", "raised_by_caller",
           "raised_by_engine"]
