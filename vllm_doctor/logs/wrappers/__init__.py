"""Wrappers around log lines: compose, kubectl, containerd, journald, CI systems, JSON lines, Ray, rank labels.

Each wrapper is one small function: text -> WrapperMatch or None. `Unwrapper` applies them repeatedly, from the
outermost wrapper inwards, and remembers which doubtful ones have been proven. A wrapper includes its separator and
nothing of the message, so the indentation of a traceback survives. vLLM's own prefixes (`INFO 10-08 …`,
`(EngineCore_DP0 pid=12) `) are kept.
"""

from vllm_doctor.logs.wrappers.unwrapper import MAX_DEPTH, MAX_PARTIAL, Piece, Unwrapper

__all__ = ["MAX_DEPTH", "MAX_PARTIAL", "Piece", "Unwrapper"]
