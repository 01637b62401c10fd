"""Read the YAML files of rules; errors name file, line and column."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from vllm_doctor.errors import InputError, RuleError
from vllm_doctor.rulebase import schema
from vllm_doctor.rulebase.schema import yaml_problem
from vllm_doctor.text_files import is_too_deep, read_bytes


def check_text(text: str, path: str) -> None:
    """Raise RuleError if `text` does not follow the schema of a rule."""
    schema.check(text, path)


def read_text(path: Path) -> str:
    """Return the text of a rule file. Raises RuleError."""
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}:1:1: not UTF-8 text") from error
    except InputError as error:
        raise RuleError(str(error)) from error
    if is_too_deep(text):
        raise RuleError(f"{path}:1:1: nested too deeply")
    return text


def read_yaml(path: Path) -> Any:
    """Return the value of a YAML file. Raises RuleError with file:line:column if it is invalid."""
    try:
        return yaml.load(read_text(path), Loader=_loader())  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an invalid number or date
        raise RuleError(f"{path}{yaml_problem(error)}") from error


@lru_cache(maxsize=1)
def _loader() -> Any:
    """Return a safe loader that rejects duplicate keys, of which PyYAML would silently use the last."""
    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(safe):  # type: ignore[misc] # the base class is chosen at run time
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            mapping = super().construct_mapping(node, deep)
            seen = set()
            for key, _ in node.value:
                name = key.tag, str(key.value)
                if name in seen:
                    raise yaml.constructor.ConstructorError(problem=f"`{key.value}` stands twice",
                                                            problem_mark=key.start_mark)
                seen.add(name)
            return mapping

    return Loader
