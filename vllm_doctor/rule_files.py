"""What stands in the YAML files of rules, or one clear line with the place where it does not stand right."""

from __future__ import annotations

from vllm_doctor.errors import RuleError
from vllm_doctor.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def check_text(text: str, path: str) -> None:
    """Raise RuleError when `text` has not the shape of a rule."""
    from vllm_doctor import schema  # noqa: PLC0415 - see `read_yaml`

    schema.check(text, path)


def read_text(path: Path) -> str:
    """The text of a rule file. Raises RuleError."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}:1:1: not UTF-8 text") from error
    except OSError as error:
        raise RuleError(f"{path}: {error.strerror}") from error


def read_yaml(path: Path) -> Any:
    """What stands in a YAML file. Raises RuleError with file:line:column when it is none."""
    import yaml  # noqa: PLC0415 - a start from the index does without it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(read_text(path), Loader=loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number or date that is none
        from vllm_doctor.schema import said  # noqa: PLC0415 - see above

        raise RuleError(f"{path}{said(error)}") from error
