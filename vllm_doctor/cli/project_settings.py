"""Read project settings: `[tool.vllm-doctor]` in pyproject.toml, or a vllm-doctor.toml with the same keys.

The nearest file is used, searched from the working directory upward; in one folder vllm-doctor.toml has precedence over
pyproject.toml. Options on the command line override settings, but rule folders and ignores are combined.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from vllm_doctor.cli.formats import WRITERS
from vllm_doctor.cli.settings_location import PROJECT, TABLE, places
from vllm_doctor.errors import InputError, did_you_mean
from vllm_doctor.severity import FAIL_ON
from vllm_doctor.text_files import read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

__all__ = ["Ignore", "Settings", "find", "read", "today"]


_MOST_DOTS = 2000  # in a line


class Ignore(NamedTuple):
    """An ignored rule, the reason, and the last day on which it is ignored (None: no expiry)."""

    id: str
    reason: str
    expires: date | None = None


class Settings(NamedTuple):
    """The settings of a file; None or empty if not set. Rule folders are relative to the file's folder."""

    path: str
    rules: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ignore: tuple[Ignore, ...] = ()
    fail_on: str | None = None
    max_fixes: int | None = None
    format: str | None = None

    def ignored(self) -> tuple[str, ...]:
        """Return the rule ids that are ignored today."""
        return tuple(item.id for item in self.ignore if not _has_expired(item))

    def describe(self) -> str:
        """Return what the file changes, in one sentence; "" if nothing. The user may not have written the file."""
        changes = [f"rules of {', '.join(self.rules)}"] if self.rules else []
        changes += [f"only {', '.join(self.only)}"] if self.only else []
        changes += [f"ignored {', '.join(item.id for item in self.ignore)}"] if self.ignore else []
        changes += [f"{key} = {value}" for key, value in (
            ("fail-on", self.fail_on), ("max-fixes", self.max_fixes), ("format", self.format)) if value is not None]
        return f"Settings of {self.path} count: {'; '.join(changes)}." if changes else ""

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each expired ignore."""
        return tuple(f"The ignore of {item.id} expired on {item.expires} and counts no more "
                     f"({self.path}: {item.reason})." for item in self.ignore if _has_expired(item))


def today() -> date:
    """Return today's date in UTC, or that of SOURCE_DATE_EPOCH if it is set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(epoch), timezone.utc) if epoch.isdecimal() else datetime.now(timezone.utc)
    return moment.date()


def _has_expired(item: Ignore) -> bool:
    return item.expires is not None and today() > item.expires


def find(start: str | os.PathLike[str] = ".") -> Settings | None:
    """Return the settings that apply in a folder, or None. Raises InputError if the nearest file is invalid."""
    for place in places(start):
        path = Path(place)
        settings = _from_project(path) if path.name == PROJECT else read(path)
        if settings is not None:
            return settings
    return None


def read(path: str | os.PathLike[str]) -> Settings:
    """Return the settings in a file. Raises InputError if it is invalid."""
    file = Path(path)
    if file.name == PROJECT:
        return _from_project(file) or Settings(str(file))
    document = _parse(file)
    inner = document.get("tool", {}).get(TABLE) if isinstance(document.get("tool"), dict) else None
    return _settings(file, document if inner is None else inner)


def _from_project(path: Path) -> Settings | None:
    tool = _parse(path).get("tool")
    table = tool.get(TABLE) if isinstance(tool, dict) else None
    return None if table is None else _settings(path, table)


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
        _check_depth(path, text)
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply") from error
    except ValueError as error:  # tomllib's own, and bytes that are not UTF-8
        raise InputError(f"{path}: is no TOML: {error}") from error
    return document


def _check_depth(path: Path, text: str) -> None:
    """Refuse a.a.a… of endless length: tomllib takes longer for each."""
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise InputError(f"{path}: nested too deeply")


def _settings(path: Path, table: Any) -> Settings:
    if not isinstance(table, dict):
        raise InputError(f"{path}: tool.{TABLE} is a table")
    readers: dict[str, Callable[[Path, Any], Any]] = {
        "rules": _folders, "only": _texts("only"), "ignore": _ignores, "fail-on": _one_of("fail-on", FAIL_ON),
        "max-fixes": _count, "format": _one_of("format", tuple(WRITERS))}
    _check_keys(path, table, readers, "")
    values = {key.replace("-", "_"): readers[key](path, value) for key, value in table.items()}
    return Settings(str(path), **values)


def _check_keys(path: Path, table: Mapping[str, Any], known: Mapping[str, Any] | tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            near = did_you_mean(key, list(known)) or f"; known are {', '.join(known)}"
            raise InputError(f"{path}: {where}unknown key `{key}`{near}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _texts(key: str) -> Callable[[Path, Any], tuple[str, ...]]:
    def reader(path: Path, value: Any) -> tuple[str, ...]:
        if not _is_texts(value):
            raise InputError(f"{path}: `{key}` is a list of texts")
        return tuple(value)

    return reader


def _folders(path: Path, value: Any) -> tuple[str, ...]:
    folders = _texts("rules")(path, value)
    for folder in folders:
        if not (path.parent / folder).is_dir():
            raise InputError(f"{path}: `rules` names no folder: {folder}")
    return tuple(str(path.parent / folder) for folder in folders)


def _one_of(key: str, choices: tuple[str, ...]) -> Callable[[Path, Any], str]:
    def reader(path: Path, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InputError(f"{path}: `{key}` is one of {', '.join(choices)}, not {value!r}")
        return value

    return reader


def _count(path: Path, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{path}: `max-fixes` is a number from 1, not {value!r}")
    return value


def _ignores(path: Path, value: Any) -> tuple[Ignore, ...]:
    if not isinstance(value, list):
        raise InputError(f"{path}: `ignore` is a list of tables, [[tool.{TABLE}.ignore]] each, with `id` and `reason`")
    return tuple(_ignore(path, entry) for entry in value)


def _ignore(path: Path, entry: Any) -> Ignore:
    if not isinstance(entry, dict):
        raise InputError(f'{path}: `ignore` needs a reason: {{id = "{entry}", reason = "…"}}')
    _check_keys(path, entry, ("id", "reason", "expires"), "`ignore`: ")
    for key in ("id", "reason"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise InputError(f"{path}: `ignore`: an entry has no `{key}`")
    return Ignore(entry["id"], entry["reason"].strip(), _day(path, entry.get("expires")))


def _day(path: Path, value: Any) -> date | None:
    """Return a date given as a TOML date or as a string such as "2026-12-31". Raises InputError."""
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: `ignore`: `expires` is a date such as 2026-12-31, not {value!r}") from error
