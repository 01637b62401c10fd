"""Secrets in nested values: what a key that announces one holds is masked, all else as text is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm_doctor.messages import Message
from vllm_doctor.redact.named_values import HARMLESS
from vllm_doctor.redact.redactor import redact
from vllm_doctor.redact.secret_names import NAME, classify
from vllm_doctor.redact.spans import MASK, compiled

_MANY = 256  # texts of a list that are masked one by one


def redact_value(value: Any, mask: Callable[[str], str] = redact) -> Any:
    """Return a redacted copy of nested dicts, lists, tuples and strings; a key `api_key` masks all its contents."""
    if isinstance(value, Message):
        return value.through(mask)
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        named = _announces(value.get("name"), "") and "value" in value
        masked = {}
        for key, item in value.items():
            is_secret = _announces(key, item) or (named and key == "value")
            inner = _mask_all(item, mask) if is_secret else redact_value(item, mask)
            masked[mask(key) if isinstance(key, str) else key] = inner
        return masked
    if isinstance(value, (list, tuple)):
        if len(value) > _MANY and all(isinstance(item, str) and item[:1] != "-" and "\n" not in item for item in value):
            lines = mask("\n".join(value)).split("\n")  # thousands one by one would take seconds
            if len(lines) == len(value):
                return type(value)(lines)
        items = [
            _mask_all(item, mask) if index and _is_flag(value[index - 1], item) else redact_value(item, mask)
            for index, item in enumerate(value)
        ]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _announces(key: object, item: object) -> bool:
    """Return whether `key` is the name of a secret and `item` may be one."""
    if not isinstance(key, str) or not compiled(rf"(?:{NAME})\Z").search(key[-60:].lower()):
        return False
    what = classify(key)
    return what is not None and (what.is_sure or (key.lower() == "token" and isinstance(item, str)))


def _is_flag(before: object, item: object) -> bool:
    """Return whether `before` and `item` are `--api-key` and its value in a list of arguments."""
    is_flag = isinstance(before, str) and before.startswith("--") and _announces(before, item)
    return is_flag and isinstance(item, str) and not item.startswith("-")


def _mask_all(value: Any, mask: Callable[[str], str]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return {(mask(key) if isinstance(key, str) else key): _mask_all(item, mask) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_mask_all(item, mask) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value if isinstance(value, str) and len(value) <= 120 and compiled(HARMLESS).fullmatch(value) else MASK
