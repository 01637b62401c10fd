"""The messages of Python, pydantic and msgspec about names, read for what they mean."""

from __future__ import annotations

from vllm_doctor.catalog.name_table import classes
from vllm_doctor.catalog.names.attributes import missing_attribute
from vllm_doctor.catalog.names.directions import Direction
from vllm_doctor.catalog.names.imports import missing_module, missing_name
from vllm_doctor.catalog.names.origin import owner_of
from vllm_doctor.catalog.names.parameters import abstract_method, missing_argument, unexpected_parameter
from vllm_doctor.text.patterns import lazy_pattern

MAX_MESSAGE = 4096

_EXCEPTION = lazy_pattern(r"(?:Import|ModuleNotFound|Attribute|Type|Validation|Runtime|RayTask)Error")
_IMPORT_NAME = lazy_pattern(
    r"cannot import name '(?P<name>\w+)'\s+from (?P<partial>partially initialized module )?'?(?P<module>[\w.]+)'?"
    r"(?: \(most likely due to a circular import\))?(?: \((?P<path>[^()\n]{1,400})\))?"
)
_NO_MODULE = lazy_pattern(r"No module named '?(?P<module>[\w.]+)'?(?P<plain>; '(?!vllm\.)[\w.]+' is not a package)?")
_NO_MODULE_ATTRIBUTE = lazy_pattern(
    r"(?P<partial>partially initialized )?module '(?P<module>[\w.]+)'(?: from '[^'\n]*')?"
    r" has no attribute '(?P<name>\w+)'"
)
_OPERATOR = lazy_pattern(r"'_OpNamespace' '(?P<module>_\w+)' object has no attribute '(?P<name>\w+)'")
_NO_ATTRIBUTE = lazy_pattern(r"(?P<type>type object )?'(?P<cls>\w+)'(?: object)? has no attribute '(?P<name>\w+)'")
_ENGINE_MODULES = (
    "vllm.v1.spec_decode", "vllm.v1.worker", "vllm.v1.core", "vllm.v1.sample", "vllm.v1.attention", "vllm.v1.executor",
    "vllm.spec_decode", "vllm.worker", "vllm.core", "vllm.attention", "vllm.executor", "vllm.model_executor",
)
_UNEXPECTED = lazy_pattern(
    r"(?<![\w.<>])(?P<callee>[\w.<>]{1,300})\(\) got an unexpected keyword argument '(?P<name>\w+)'"
)
_UNEXPECTED_FIELD = lazy_pattern(r"^Unexpected keyword argument '(?P<name>\w+)'")  # msgspec, which names no class
_VALIDATION = lazy_pattern(r"validation errors? for (?P<callee>\w+)\n(?P<name>\w+)\n\s+Unexpected keyword argument")
_MISSING = lazy_pattern(
    r"(?<![\w.<>])(?P<callee>[\w.<>]{1,300})\(\) missing \d{1,6} required (?:positional|keyword-only) arguments?: "
    r"'(?P<name>\w+)'"
)
_ABSTRACT = lazy_pattern(
    r"Can't instantiate abstract class (?P<cls>\w+) with(?:out an implementation for)? "
    r"abstract methods? '?(?P<name>\w+)"
)


def direction(
    exception: str | None, message: str, release: str | None = None, importing_file: str | None = None
) -> Direction | None:
    """Interpret an error about a name; None if it says nothing about the installed vLLM.

    `exception` is the class name, None if the log does not print it. The module's docstring lists the messages.
    """
    text = message[:MAX_MESSAGE]
    if exception and not _EXCEPTION.search(exception):
        return None
    owner = owner_of(importing_file)
    if match := _IMPORT_NAME.search(text) or _NO_MODULE_ATTRIBUTE.search(text):
        return missing_name(match, release, owner)
    if match := _NO_MODULE.search(text):
        return missing_module(match["module"], bool(match["plain"]), release, owner)
    if match := _OPERATOR.search(text):
        return Direction("incomplete", f"torch.ops.{match['module']}.{match['name']}", release=release)
    if match := _NO_ATTRIBUTE.search(text):
        return missing_attribute(match["cls"], match["name"], release, owner)
    if match := _UNEXPECTED.search(text):
        return unexpected_parameter(match["callee"], match["name"], release, owner)
    if match := _VALIDATION.search(text):
        return unexpected_parameter(f"{match['callee']}.__init__", match["name"], release, owner)
    if match := _UNEXPECTED_FIELD.search(text):
        return unexpected_parameter("__init__", match["name"], release, owner, is_struct=True)
    if match := _MISSING.search(text):
        return missing_argument(match["callee"], match["name"], release, owner)
    if match := _ABSTRACT.search(text):
        return abstract_method(match["cls"], match["name"], release)
    return None


def is_of_engine_class(message: str) -> bool:
    """Return whether an attribute is missing on an object that only vLLM's engine processes have."""
    match = _NO_ATTRIBUTE.search(message[:MAX_MESSAGE])
    keys = classes(match["cls"]) if match else []
    return bool(keys) and all(key.startswith(_ENGINE_MODULES) for key in keys)
