"""The environment variable that a source line of a traceback reads."""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern

_VARIABLE = lazy_pattern(r"[\"'](VLLM_[A-Z0-9_]{1,100})[\"']")
_NUMBER_READ = lazy_pattern(
    r"(?:int|float)\(.{0,80}?(?:environ(?:\.get\(|\[)|getenv\()\s{0,4}[\"']([A-Z][A-Z0-9_]{1,100})[\"']")


def variable_read(call: str, code: str) -> str:
    """Return the variable that the source line of a call (`path/file.py:function`) reads; empty if none.

    Of vLLM's envs.py, whose calls have no name, any line counts; of other modules those that read a number when they
    are imported, as the constants of huggingface_hub.
    """
    found = None
    if call.endswith("vllm/envs.py:<lambda>"):
        found = _VARIABLE.search(code)
    elif call.endswith(":<module>") and ("environ" in code or "getenv" in code):
        found = _NUMBER_READ.search(code)
    return found[1] if found else ""
