"""Secrets in nested values: what a key that announces one holds is masked, all else as text is."""

from __future__ import annotations

from typing import Any

from vllm_doctor.redact.names import NAME, classify
from vllm_doctor.redact.patterns import MASK, compiled
from vllm_doctor.redact.scan import HARMLESS
from vllm_doctor.redact.texts import redact


def redact_value(value: Any) -> Any:
    """A redacted copy of nested dicts, lists, tuples and strings; a key `api_key` masks all that it holds."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        named = _announces(value.get("name"), "") and "value" in value
        return {
            (redact(key) if isinstance(key, str) else key): (
                _mask_all(item) if _announces(key, item) or (named and key == "value") else redact_value(item)
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [
            _mask_all(item) if index and _is_flag(value[index - 1], item) else redact_value(item)
            for index, item in enumerate(value)
        ]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _announces(key: object, item: object) -> bool:
    """Whether `key` is the name of a secret and `item` may be one."""
    if not isinstance(key, str) or not compiled(NAME + r"\Z").search(key[-60:].lower()):
        return False
    what = classify(key)
    return what is not None and (what.sure or (key.lower() == "token" and isinstance(item, str)))


def _is_flag(before: object, item: object) -> bool:
    """Whether `before` and `item` are `--api-key` and its value in a list of arguments."""
    flag = isinstance(before, str) and before.startswith("--") and _announces(before, item)
    return flag and isinstance(item, str) and not item.startswith("-")


def _mask_all(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return {key: _mask_all(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_mask_all(item) for item in value)
    return value if isinstance(value, str) and len(value) <= 120 and compiled(HARMLESS).fullmatch(value) else MASK
